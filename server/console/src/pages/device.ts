// Device: what computes, its memory and queues, and what tenants hold.

import { timestampDate } from "@bufbuild/protobuf/wkt";
import { client, errorText } from "../api";
import { h, set } from "../dom";
import { bytes, short, time } from "../format";
import { DeviceService, type GetDeviceResponse } from "../gen/polyscan/v1/device_pb";
import { HistoryService, type GetHistoryResponse } from "../gen/polyscan/v1/history_pb";
import type { Page } from "../page";
import { symbol } from "../marks";
import { text } from "../text";
import { milliseconds, watch } from "../watch";

const t = text.device;
const interval = 1000; // ms between two looks
const historyLooks = 5; // of these, for one at the history, which asks its database

const page: Page = (root) => {
  const calls = client(DeviceService);
  const history = client(HistoryService);
  const error = h("p", { class: "error", role: "alert", hidden: true });
  const body = h("div", { class: "cards" }, h("p", { class: "empty" }, text.loading));
  root.append(h("h1", { class: "unseen" }, t.title), error, body);
  const abort = new AbortController();
  let timer = 0;
  let looks = 0;
  let kept: GetHistoryResponse | undefined;
  const look = async (): Promise<void> => {
    try {
      const d = await calls.getDevice({}, { signal: abort.signal, timeoutMs: 5000 });
      if (watch.history && looks++ % historyLooks === 0) kept = await history.getHistory({}, { signal: abort.signal, timeoutMs: 5000 });
      error.hidden = true;
      render(body, d, watch.history ? kept : undefined);
    } catch (err) {
      if (abort.signal.aborted) return;
      error.hidden = false;
      error.textContent = errorText(err);
    }
    timer = window.setTimeout(() => void look(), interval);
  };
  void look();
  return () => {
    abort.abort();
    clearTimeout(timer);
  };
};

function render(body: HTMLElement, d: GetDeviceResponse, history: GetHistoryResponse | undefined): void {
  const available = watch.device?.available ?? true;
  const kept = body.querySelector(".scroll:focus")?.id;
  set(body, computes(d, available), d.memory && memory(d), keeps(history), queues(d), called(), tenants(d));
  if (kept) document.getElementById(kept)?.focus();
}

function facts(...rows: (false | undefined | [string, string, boolean?])[]): HTMLElement {
  return h("dl", { class: "facts" }, rows.map((r) => r && h("div", null, h("dt", null, r[0]), h("dd", { class: r[2] && "alarm" }, r[1]))));
}

function computes(d: GetDeviceResponse, available: boolean): HTMLElement {
  return h(
    "section",
    { class: "card" },
    h("h2", null, t.computes),
    h("p", { class: "headline" }, h("span", { class: "sign" }, symbol(available ? "pass" : "error")), available ? `${d.deviceName}` : t.lost),
    facts(
      [text.status.device, `${d.backend}${d.capability ? `, ${d.capability}` : ""}, ${d.computeUnits} ${d.backend === "cpu" ? t.threads : t.multiprocessors}`],
      [t.losses, short(d.deviceLosses), d.deviceLosses > 0n],
      [t.version, `${d.serverVersion}, ${d.goVersion}`],
      d.startedAt && [t.started, timestampDate(d.startedAt).toLocaleString("en-GB")],
    ),
  );
}

/** keeps is the history: what waits, what it could not keep, and the disk. */
function keeps(kept: GetHistoryResponse | undefined): HTMLElement {
  const now = watch.history; // which is told at once
  const failure = now?.failure || kept?.failure || "";
  const lost = (a: bigint | undefined, b: bigint | undefined): bigint => ((a ?? 0n) > (b ?? 0n) ? a! : (b ?? 0n));
  const [parts, pictures] = [lost(now?.lostParts, kept?.lostParts), lost(now?.lostPictures, kept?.lostPictures)];
  const size = (kept?.databaseBytes ?? 0n) + (kept?.pictureBytes ?? 0n);
  return h(
    "section",
    { class: "card history" },
    h("h2", null, text.pages.history),
    !kept && !now ? h("p", { class: "empty" }, text.history.off) : [
      h("p", { class: "headline" }, h("span", { class: "sign" }, symbol(failure ? "error" : "pass")), failure ? `${text.history.failure} ${failure}` : t.written),
      facts(
        [text.history.parts, short(kept?.parts)],
        [t.waiting, `${short(kept?.queuedParts)} (${bytes(kept?.queuedBytes ?? 0n)})`],
        [t.lostParts, short(parts), parts > 0n],
        [t.lostPictures, short(pictures), pictures > 0n],
        [t.disk, kept?.maxBytes ? t.used(bytes(size), bytes(kept.maxBytes)) : bytes(size)],
      ),
    ],
  );
}

/** called are the calls that watchers see beside verdicts. */
function called(): HTMLElement {
  const rows = [...watch.calls].sort(([a], [b]) => (a < b ? -1 : 1));
  return h(
    "section",
    { class: "card wide calls" },
    h("h2", null, t.calls),
    rows.length === 0
      ? h("p", { class: "empty" }, t.noCalls)
      : table("calls", t.calls, [t.method, t.done, t.failed, t.took, t.lastError], rows.map(([method, c]) => [
          method.replace("/polyscan.v1.", ""),
          short(c.count),
          [short(c.errors), c.errors > 0],
          time(c.last),
          c.error || "–",
        ])),
  );
}

const width = 1000; // of a bar, in units of its own

function bar(parts: [string, number, string][], all: number): Element {
  let x = 0;
  return h(
    "svg",
    { class: "bar", viewBox: `0 0 ${width} 40`, preserveAspectRatio: "none", role: "img", "aria-label": parts.map(([n, v]) => `${n}: ${bytes(v)}`).join(", ") },
    parts.map(([, value, style]) => {
      const w = (value / Math.max(1, all)) * width;
      const r = h("rect", { class: style, x, y: 0, width: Math.max(0, w - 1), height: 40 });
      x += w;
      return r;
    }),
  );
}

function memory(d: GetDeviceResponse): HTMLElement {
  const m = d.memory!;
  const all = Number(m.reservedBytes);
  const used = Number(m.usedBytes);
  const parts: [string, number, string][] = [
    [t.kinds.scratch!, Number(m.scratchBytes), "k1"],
    [t.kinds.session!, Number(m.sessionBytes), "k2"],
    [t.kinds.resident!, Number(m.residentBytes), "k3"],
    [t.kinds.free!, Math.max(0, all - used), "k0"],
  ];
  const labels = Object.entries(m.usedBytesByLabel).sort((a, b) => Number(b[1] - a[1]));
  const f = d.residentFrames;
  return h(
    "section",
    { class: "card" },
    h("h2", null, t.memory),
    h("p", { class: "headline" }, t.used(bytes(used), bytes(all))),
    bar(parts, all),
    h("ul", { class: "legend" }, parts.map(([name, value, style]) => h("li", null, h("svg", { class: "key", viewBox: "0 0 10 10", "aria-hidden": "true" }, h("rect", { class: style, width: 10, height: 10 })), `${name} ${bytes(value)}`))),
    facts(
      [t.highWater, bytes(m.highWaterBytes)],
      [t.evictions, short(m.evictions)],
      [t.refusals, short(m.refusals), m.refusals > 0n],
      [t.waiting, short(m.waiting), m.waiting > 0],
      f && [t.frames, `${short(f.frames)} (${bytes(f.bytes)})`],
    ),
    labels.length > 0 && h("h3", null, t.purposes),
    labels.length > 0 && h("dl", { class: "numbers" }, labels.slice(0, 12).map(([k, v]) => h("div", null, h("dt", null, k), h("dd", null, bytes(v))))),
  );
}

function table(id: string, caption: string, head: string[], rows: (string | [string, boolean])[][]): HTMLElement {
  return h(
    "div",
    { class: "scroll", id, tabindex: 0, role: "region", "aria-label": caption },
    h(
      "table",
      null,
      h("thead", null, h("tr", null, head.map((c, i) => h("th", { scope: "col", class: i > 0 && "number" }, c)))),
      h("tbody", null, rows.map((r) => h("tr", null, r.map((c, i) => {
        const [value, alarm] = typeof c === "string" ? [c, false] : c;
        return i === 0 ? h("th", { scope: "row" }, value) : h("td", { class: alarm ? "number alarm" : "number" }, value);
      })))),
    ),
  );
}

function queues(d: GetDeviceResponse): HTMLElement {
  return h(
    "section",
    { class: "card wide" },
    h("h2", null, t.queues),
    table("queues", t.queues, [t.class, t.running, t.waiting, t.done, t.missed, t.shed, t.refused, t.waited], d.scheduler.map((c) => [
      t.classes[c.name] ?? c.name,
      short(c.running),
      short(c.waiting),
      short(c.done),
      [short(c.missedDeadlines), c.missedDeadlines > 0n],
      [short(c.shed), c.shed > 0n],
      [short(c.refused), c.refused > 0n],
      c.admitted > 0n ? time(milliseconds(c.waited) / Number(c.admitted)) : "–",
    ])),
  );
}

function tenants(d: GetDeviceResponse): HTMLElement {
  const value = (resource: string, n: bigint): string => (resource.endsWith("-bytes") ? bytes(n) : short(n));
  return h(
    "section",
    { class: "card wide" },
    h("h2", null, t.tenants),
    d.tenants.length === 0
      ? h("p", { class: "empty" }, t.noTenants)
      : table("tenants", t.tenants, [t.tenant, t.resource, t.inUse, t.limit, t.refusals], d.tenants.flatMap((n) =>
          n.quotas.filter((q) => q.used > 0n || q.limit !== undefined || q.refused > 0n || q.resource === "streams").map((q) => [
            n.name,
            q.resource,
            value(q.resource, q.used),
            q.limit === undefined ? t.noLimit : value(q.resource, q.limit),
            [short(q.refused), q.refused > 0n] as [string, boolean],
          ]),
        )),
  );
}

export default page;
