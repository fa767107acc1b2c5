// Making elements: h("button", { class: "x", onclick: f }, "text", child).

type Child = Node | string | number | null | undefined | false | Child[];

type Props = Record<string, unknown>;

const svgTags = new Set(["svg", "path", "circle", "rect", "line", "polygon", "g"]);

/** h makes an element. Properties that begin with "on" are listeners; true sets an attribute without a value, and false,
 * null and undefined leave it out. */
export function h<K extends keyof HTMLElementTagNameMap>(tag: K, props?: Props | null, ...children: Child[]): HTMLElementTagNameMap[K];
export function h(tag: string, props?: Props | null, ...children: Child[]): Element;
export function h(tag: string, props?: Props | null, ...children: Child[]): Element {
  const e = svgTags.has(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on") && typeof value === "function") {
      e.addEventListener(name.slice(2), value as EventListener);
    } else if (value === true) {
      e.setAttribute(name, "");
    } else {
      e.setAttribute(name, String(value));
    }
  }
  append(e, children);
  return e;
}

function append(e: Element, children: Child[]): void {
  for (const c of children) {
    if (c === null || c === undefined || c === false) continue;
    if (Array.isArray(c)) append(e, c);
    else e.append(c instanceof Node ? c : String(c));
  }
}

/** set replaces what an element holds. */
export function set(e: Element, ...children: Child[]): void {
  e.replaceChildren();
  append(e, children);
}

/** text changes the text of an element where it differs, so that what didn't change isn't painted or read out again. */
export function text(e: Element, value: string): void {
  if (e.textContent !== value) e.textContent = value;
}

/** frame calls f before the next painting, once however often it is asked for until then. */
export function onFrame(f: () => void): () => void {
  let asked = 0;
  return () => {
    if (asked) return;
    asked = requestAnimationFrame(() => {
      asked = 0;
      f();
    });
  };
}

/** color is a variable of the style sheet, which differs between light and dark. */
export function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** field is a labelled input. */
export function field<T extends HTMLElement>(label: string, input: T, extra?: string): HTMLElement {
  return h("label", { class: extra ? `field ${extra}` : "field" }, h("span", null, label), input);
}

/** download gives the user a file. */
export function download(content: Blob, name: string): void {
  const url = URL.createObjectURL(content);
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
