// What a tab of the page Studio is.

/** Tab fills root, which is empty, and returns what ends it. It is made when it is shown first. */
export type Tab = (root: HTMLElement) => () => void;
