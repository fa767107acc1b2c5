// Studio: curves whose picture follows, frames as triangles, and what is filled from its surroundings.

import { may } from "../api";
import { h } from "../dom";
import type { Page } from "../page";
import { curves } from "../studio/curves";
import { fill } from "../studio/fill";
import { lowpoly } from "../studio/lowpoly";
import type { Tab } from "../studio/tab";
import { text } from "../text";

const t = text.studio;
const tabs: Record<string, Tab> = { curves, lowpoly, fill };

const page: Page = (root, query) => {
  root.append(h("h1", { class: "unseen" }, t.title));
  if (!may("run")) {
    root.append(h("p", { class: "empty" }, t.notRun));
    return () => {};
  }
  const ends: (() => void)[] = [];
  const names = Object.keys(tabs);
  const made = new Set<string>();
  const panels = names.map((name) =>
    h("div", { id: `panel-${name}`, class: "panel", role: "tabpanel", "aria-labelledby": `tab-${name}`, hidden: true }),
  );
  const buttons = names.map((name, i) =>
    h(
      "button",
      { id: `tab-${name}`, role: "tab", "aria-controls": `panel-${name}`, onclick: () => show(i) },
      t.tabs[name],
    ),
  );
  const show = (i: number): void => {
    buttons.forEach((b, k) => {
      b.setAttribute("aria-selected", String(k === i));
      b.tabIndex = k === i ? 0 : -1;
      panels[k]!.hidden = k !== i;
    });
    const name = names[i]!;
    if (!made.has(name)) ends.push(tabs[name]!(panels[i]!));
    made.add(name);
    history.replaceState(null, "", i ? `/studio?tab=${name}` : "/studio");
  };
  const list = h("div", { class: "tabs", role: "tablist", "aria-label": t.title }, buttons);
  list.addEventListener("keydown", (e) => {
    const now = buttons.indexOf(document.activeElement as HTMLButtonElement);
    const n = buttons.length;
    const to =
      e.key === "ArrowRight"
        ? (now + 1) % n
        : e.key === "ArrowLeft"
          ? (now + n - 1) % n
          : e.key === "Home"
            ? 0
            : e.key === "End"
              ? n - 1
              : -1;
    if (now < 0 || to < 0) return;
    e.preventDefault();
    show(to);
    buttons[to]!.focus();
  });
  root.append(list, ...panels);
  show(Math.max(0, names.indexOf(query.get("tab") ?? "")));
  return () => ends.forEach((end) => end());
};

export default page;
