// The frame around the pages: login, navigation, light and dark, and the state of the server.

import { errorText, loadSession, login, logout, onSessionEnd, session } from "./api";
import { h, set, text as put } from "./dom";
import { pages } from "./page";
import { text } from "./text";
import { watch } from "./watch";

const app = document.getElementById("app")!;

function applyTheme(): void {
  const chosen = localStorage.getItem("theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
}

// Who chose nothing has what the system has, which may go dark in the evening.
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => window.dispatchEvent(new Event("theme")));

function toggleTheme(): void {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
  window.dispatchEvent(new Event("theme"));
}

function showLogin(): void {
  watch.stop();
  leave();
  const token = h("input", { id: "token", type: "password", autocomplete: "current-password", required: true, maxlength: 1024 });
  const error = h("p", { class: "error", role: "alert" });
  const button = h("button", { class: "primary" }, text.login.submit);
  const submit = async (e: Event): Promise<void> => {
    e.preventDefault();
    button.disabled = true;
    put(error, "");
    try {
      await login(token.value);
      showConsole();
    } catch (err) {
      put(error, errorText(err));
      token.select();
      token.focus();
    } finally {
      button.disabled = false;
    }
  };
  set(
    app,
    h(
      "main",
      { class: "login" },
      h("form", { onsubmit: submit }, h("h1", null, h("span", { class: "brand" }, text.name)), h("label", { for: "token" }, text.login.token), token, error, button, h("p", { class: "help" }, text.login.help)),
    ),
  );
  token.focus();
}

let current: { path: string; end: () => void } | null = null;
let shown = 0; // counts, so that a page that comes late is not shown over a later one

function leave(): void {
  shown++;
  current?.end();
  current = null;
}

async function show(main: HTMLElement, links: Map<string, HTMLAnchorElement>): Promise<void> {
  const path = location.pathname.slice(1) || "live";
  leave();
  const mine = shown;
  for (const [p, a] of links) {
    if (p === path) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  document.title = `${text.pages[path] ?? ""} · ${text.name}`;
  const load = pages[path];
  if (!load) {
    set(main, h("p", { class: "empty" }, text.notYet));
    return;
  }
  try {
    const page = (await load()).default;
    if (mine !== shown) return;
    const root = h("div", { class: `page ${path}` });
    set(main, root);
    const end = await page(root, new URLSearchParams(location.search));
    if (mine === shown) current = { path, end };
    else end();
  } catch (err) {
    if (mine === shown) set(main, h("p", { class: "error", role: "alert" }, text.failedToLoad, " ", errorText(err)));
  }
}

function showConsole(): void {
  const main = h("main", { id: "main", tabindex: -1 });
  const links = new Map<string, HTMLAnchorElement>();
  for (const path of Object.keys(pages)) {
    links.set(path, h("a", { href: `/${path}` }, text.pages[path]));
  }
  const state = h("p", { class: "state", role: "status" });
  const banner = h("p", { class: "banner", role: "alert", hidden: true });
  const who = session.login === "none" ? "" : text.as(session.tenant, session.role);
  const tools = h(
    "div",
    { class: "tools" },
    state,
    who && h("span", { class: "who" }, who),
    h("button", { class: "icon", "aria-label": text.lightDark, title: text.lightDark, onclick: toggleTheme }, "◐"),
    session.login === "token" &&
      h("button", { onclick: () => void logout().finally(() => void start()) }, text.logout),
  );
  set(
    app,
    h("a", { class: "skip", href: "#main" }, text.skip),
    h("header", null, h("span", { class: "brand" }, text.name), h("nav", { "aria-label": text.navigation }, [...links.values()]), tools),
    banner,
    main,
  );
  const render = (): void => {
    const d = watch.device;
    state.dataset.state = watch.connected ? (d?.available ? "good" : "bad") : "bad";
    put(state, watch.connected ? (d?.available ? d.deviceName || d.backend : text.status.deviceLost) : text.status.connecting);
    const failure = watch.history?.failure;
    banner.hidden = !watch.away && (d?.available ?? true) && !failure;
    put(banner, watch.away ? text.status.lost : d && !d.available ? text.device.lost : failure ? `${text.history.failure} ${failure}` : "");
  };
  watch.changed = render;
  watch.start();
  render();

  const go = (): void => void show(main, links);
  app.onclick = (e) => {
    const a = (e.target as Element).closest("a[href^='/']");
    if (!a || e.ctrlKey || e.metaKey || e.shiftKey || a.hasAttribute("download")) return;
    e.preventDefault();
    history.pushState(null, "", a.getAttribute("href"));
    go();
  };
  window.onpopstate = go;
  go();
}

async function start(): Promise<void> {
  try {
    if ((await loadSession()).login === "needed") showLogin();
    else showConsole();
  } catch (err) {
    set(app, h("main", { class: "login" }, h("p", { class: "error", role: "alert" }, errorText(err))));
    setTimeout(() => void start(), 3000);
  }
}

onSessionEnd(() => void start());
applyTheme();
void start();
