// What a page is: a module in pages/ whose default export makes it.

/** Page fills root, which is empty, and returns what ends it. query is that of the address. */
export type Page = (root: HTMLElement, query: URLSearchParams) => (() => void) | Promise<() => void>;

/** The pages by their addresses, in the order of the navigation. Each is loaded when it is shown first. */
export const pages: Record<string, () => Promise<{ default: Page }>> = {
  live: () => import("./pages/live"),
  recipe: () => import("./pages/recipe"),
  history: () => import("./pages/history"),
  studio: () => import("./pages/studio"),
  device: () => import("./pages/device"),
};
