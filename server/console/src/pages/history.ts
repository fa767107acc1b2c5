// History: what parts came to, why they failed, and how a number went.

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { timestampDate, timestampFromDate } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { client, errorText, may, openStream } from "../api";
import { h, set, text as put } from "../dom";
import { evidence } from "../evidence";
import { bytes, short, time } from "../format";
import { ChartKind, EvidenceKind, ExportFormat, ExportRows, HistoryService, PartFilterSchema, PartMark, type ControlChart, type GetSeriesResponse, type HistoryPart, type PartFilter } from "../gen/polyscan/v1/history_pb";
import { RegionNumbers } from "../gen/polyscan/v1/monitor_pb";
import { Verdict } from "../gen/polyscan/v1/region_pb";
import { boundsOf, type Bounds } from "../limits";
import { badge } from "../marks";
import type { Page } from "../page";
import { drawHistogram, binsOf, ValuePlot } from "../plot";
import { text } from "../text";
import { milliseconds, notFound, type Mark } from "../watch";

const t = text.history;
const calls = client(HistoryService);

const markOf = (p: HistoryPart): Mark => (p.error ? "error" : p.verdict === Verdict.PASS ? "pass" : p.verdict === Verdict.FAIL ? "fail" : "none");

/** drawOn is the page Recipe with the frame of a part, and with its recipe where it had one. */
function drawOn(p: HistoryPart): string {
  const query = new URLSearchParams({ evidence: String(p.id), part: p.partId || p.frameId || String(p.partNumber || p.resultNumber) });
  if (p.recipe) query.set("recipe", p.recipe);
  return `/recipe?${query}`;
}

const spans: [string, number][] = [
  [t.spans.hour, 3600e3],
  [t.spans.shift, 8 * 3600e3],
  [t.spans.day, 24 * 3600e3],
  [t.spans.week, 7 * 24 * 3600e3],
  [t.spans.all, 0],
];
const between = String(spans.length); // the choice of a time from and to

/** local is a time as its input has it: in the zone of the browser. */
function local(at: Date): string {
  return new Date(at.getTime() - at.getTimezoneOffset() * 60e3).toISOString().slice(0, 16);
}

const page: Page = async (root, query) => {
  const error = h("p", { class: "error", role: "alert" });
  root.append(h("h1", { class: "unseen" }, t.title), error);
  try {
    const now = await calls.getHistory({});
    if (now.failure) put(error, `${t.failure} ${now.failure}`);
    else if (now.lostParts > 0n || now.lostPictures > 0n) put(error, t.lost(short(now.lostParts), short(now.lostPictures)));
  } catch (err) {
    const e = ConnectError.from(err);
    put(error, e.code === Code.FailedPrecondition || e.code === Code.Unimplemented ? t.off : errorText(err));
    return () => {};
  }

  // The filter, which the address keeps.
  const name = h("input", { id: "f-name", value: query.get("name") ?? "" });
  const recipe = h("input", { id: "f-recipe", value: query.get("recipe") ?? "" });
  const part = h("input", { id: "f-part", value: query.get("part") ?? "" });
  const region = h("input", { id: "f-region", value: query.get("region") ?? "" });
  const verdict = select("f-verdict", [["", t.any], ["fail", text.verdict.fail], ["pass", text.verdict.pass], ["error", text.verdict.error], ["late", text.late], ["incomplete", text.incomplete]], query.get("verdict") ?? "");
  const span = select("f-span", [...spans.map(([label], i): [string, string] => [String(i), label]), [between, t.spans.between]], query.get("span") ?? "2");
  const from = h("input", { id: "f-from", type: "datetime-local", value: query.get("from") ?? local(new Date(Date.now() - spans[1]![1])) });
  const to = h("input", { id: "f-to", type: "datetime-local", value: query.get("to") ?? local(new Date()) });
  const field = (label: string, e: HTMLElement): HTMLElement => h("div", { class: "field" }, h("label", { for: e.id }, label), e);
  const times = [field(t.from, from), field(t.to, to)];
  const showTimes = (): void => times.forEach((e) => (e.hidden = span.value !== between));
  span.addEventListener("change", showTimes);
  showTimes();
  const form = h("form", { class: "card filters", role: "search" }, field(t.span, span), times, field(t.name, name), field(t.recipe, recipe), field(t.part, part), field(t.verdict, verdict), field(t.region, region),
    h("button", { class: "primary" }, t.show),
    h("button", { type: "button", onclick: () => void save(ExportFormat.CSV) }, t.csv),
    h("button", { type: "button", onclick: () => void save(ExportFormat.PARQUET) }, t.parquet));
  const counts = h("section", { class: "card counts", "aria-label": t.counts });
  const pareto = h("section", { class: "card pareto" });
  const chart = h("section", { class: "card chart" });
  const table = h("section", { class: "card parts" });
  const pictures = h("section", { class: "card pictures" });
  root.append(form, counts, pareto, table, pictures, chart);

  const filterOf = (): PartFilter => {
    const f = create(PartFilterSchema, { region: region.value.trim(), partId: part.value.trim() });
    const length = spans[Number(span.value)]?.[1];
    if (length) f.from = timestampFromDate(new Date(Date.now() - length));
    if (span.value === between && from.value) f.from = timestampFromDate(new Date(from.value));
    if (span.value === between && to.value) f.to = timestampFromDate(new Date(to.value));
    if (name.value.trim()) f.names = [name.value.trim()];
    if (recipe.value.trim()) f.recipes = [recipe.value.trim()];
    if (verdict.value === "fail") f.verdicts = [Verdict.FAIL];
    if (verdict.value === "pass") f.verdicts = [Verdict.PASS];
    if (verdict.value === "error") f.marks = [PartMark.ERROR];
    if (verdict.value === "late") f.marks = [PartMark.LATE];
    if (verdict.value === "incomplete") f.marks = [PartMark.INCOMPLETE];
    return f;
  };

  let abort = new AbortController();
  let plots: ValuePlot[] = [];
  /** rechart asks for the chart that is shown again. */
  let rechart = (): void => {};
  const subgroup = h("input", { type: "number", id: "subgroup", min: 1, max: 25, value: 1 });
  subgroup.addEventListener("change", () => subgroup.reportValidity() && rechart());
  /** redraw draws the histogram again, whose canvas doesn't follow sizes and colours by itself. */
  let redraw = (): void => {};
  const repaint = (): void => redraw();
  const resized = new ResizeObserver(repaint);
  window.addEventListener("theme", repaint);
  /** expressions are the limits that regions of the listed parts failed last. */
  const expressions = new Map<string, string>();
  const urls: string[] = [];
  const release = (): void => urls.splice(0).forEach((u) => URL.revokeObjectURL(u));

  /** guarded shows what goes wrong, unless the user went on meanwhile. */
  const guarded = async (f: (signal: AbortSignal) => Promise<void>): Promise<void> => {
    const { signal } = abort;
    try {
      await f(signal);
    } catch (err) {
      if (!signal.aborted) put(error, errorText(err));
    }
  };

  const search = (): void => {
    abort.abort();
    abort = new AbortController();
    put(error, "");
    expressions.clear();
    rechart = () => {};
    const q = new URLSearchParams();
    for (const [k, e] of [["name", name], ["recipe", recipe], ["part", part], ["region", region], ["verdict", verdict], ["span", span], ["from", from], ["to", to]] as const) if (e.value && (span.value === between || (e !== from && e !== to))) q.set(k, e.value);
    history.replaceState(null, "", `/history?${q}`);
    const filter = filterOf();
    set(pictures, h("h2", null, t.pictures), h("p", { class: "empty" }, t.choosePart));
    set(chart, h("h2", null, t.chart), h("p", { class: "empty" }, t.chooseRegion));
    void guarded(async (signal) => {
      const c = (await calls.countParts({ filter }, { signal })).total;
      const cell = (label: string, n: bigint | undefined, alarm = false): HTMLElement => h("div", null, h("dt", null, label), h("dd", { class: alarm && (n ?? 0n) > 0n && "alarm" }, short(n ?? 0n)));
      const share = c && c.parts > 0n ? `${((100 * Number(c.passed)) / Number(c.parts)).toFixed(1)} %` : "–";
      set(counts, h("dl", { class: "facts big" }, cell(t.parts, c?.parts), cell(text.live.pass, c?.passed), cell(text.live.fail, c?.failed, true), cell(t.errors, c?.errors, true), cell(text.live.late, c?.late, true), h("div", null, h("dt", null, t.yield), h("dd", null, share))));
    });
    void guarded(async (signal) => {
      const p = await calls.getPareto({ filter, limit: 12 }, { signal });
      set(
        pareto,
        h("h2", null, t.pareto),
        p.bars.length === 0
          ? h("p", { class: "empty" }, t.noFailures)
          : h("ol", { class: "bars" }, p.bars.map((b) => h("li", null, h("button", { onclick: () => showRegion(b.region, expressions.get(b.region)) },
              h("span", { class: "name" }, b.region),
              h("svg", { class: "share", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" }, h("rect", { class: "fill", width: Math.max(0.5, (100 * b.share) / p.bars[0]!.share), height: 10 })),
              h("span", { class: "number" }, `${short(b.failures)}  (${(100 * b.cumulative).toFixed(0)} %)`))))),
      );
    });
    void guarded((signal) => list(filter, signal));
  };

  const list = async (filter: PartFilter, signal: AbortSignal): Promise<void> => {
    const body = h("tbody");
    const more = h("button", { onclick: () => void guarded(next) }, t.more);
    const empty = h("p", { class: "empty", hidden: true }, t.noParts);
    set(table, h("h2", null, t.table), h("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": t.table },
      h("table", null, h("thead", null, h("tr", null, [t.time, t.name, t.part, t.verdict, t.reason, t.recipe, t.latency].map((c) => h("th", { scope: "col" }, c)))), body)), empty, more);
    let token = "";
    const next = async (): Promise<void> => {
      const r = await calls.listParts({ filter, pageSize: 50, pageToken: token, numbers: RegionNumbers.FAILED }, { signal });
      token = r.nextPageToken;
      more.hidden = !token;
      for (const p of r.parts) {
        body.append(row(p));
        for (const n of p.results) {
          const failed = n.limits.find((l) => l.verdict === Verdict.FAIL);
          if (failed && !expressions.has(n.name)) expressions.set(n.name, failed.expression);
        }
      }
      empty.hidden = body.childElementCount > 0;
      if (!body.querySelector("[aria-pressed=true]")) {
        const first = r.parts.find((p) => p.evidence && p.verdict === Verdict.FAIL);
        if (first) void guarded(() => showPart(first));
      }
    };
    await next();
  };

  const row = (p: HistoryPart): HTMLElement =>
    h("tr", { "data-mark": markOf(p) },
      h("td", null, h("button", { class: "small link", "data-id": p.id, onclick: () => void guarded(() => showPart(p)) }, p.at && when(timestampDate(p.at)))),
      h("td", null, p.name),
      h("td", null, p.partId || p.frameId || `#${p.partNumber || p.resultNumber}`),
      h("td", null, badge(markOf(p)), p.late && h("span", { class: "tag" }, text.late), p.incomplete && h("span", { class: "tag" }, text.incomplete)),
      h("td", null, h("span", { class: "why" }, p.error || notFound(p) ? p.reason : p.results.map((r) => r.name || `#${r.index}`).join(", ") || p.reason)),
      h("td", null, p.recipe ? `${p.recipe} @ ${p.recipeVersion}` : "–"),
      h("td", { class: "number" }, time(milliseconds(p.latency))),
    );

  /** showPart shows a part beside the last good one of the same camera and recipe that has a picture. */
  const showPart = async (p: HistoryPart): Promise<void> => {
    for (const b of table.querySelectorAll("button[data-id]")) b.setAttribute("aria-pressed", String(b.getAttribute("data-id") === String(p.id)));
    const { signal } = abort;
    const bad = figure(p, t.this);
    const good = h("div", { class: "figure" }, h("p", { class: "empty" }, t.noGood));
    release();
    set(pictures, h("h2", null, t.pictures), h("div", { class: "pair" }, bad, good), whereOf(p),
      p.results.length > 0 && h("ul", { class: "reasons" }, p.results.flatMap((r) => r.limits.filter((l) => l.verdict === Verdict.FAIL).map((l) =>
        h("li", null, h("button", { class: "small", onclick: () => showRegion(r.name, l.expression, p) }, r.name || `#${r.index}`), ` ${l.expression}: `, h("b", null, short(l.value)), l.value === undefined && ` ${l.reason}`)))));
    void fill(bad, p);
    const r = await calls.listParts({ filter: { names: p.name ? [p.name] : [], recipes: p.recipe ? [p.recipe] : [], verdicts: [Verdict.PASS], marks: [PartMark.EVIDENCE] }, pageSize: 1 }, { signal });
    const beside = r.parts[0];
    if (!beside) return;
    const f = figure(beside, t.good);
    good.replaceWith(f);
    void fill(f, beside);
  };

  /** whereOf says where a part lay: moved from the frame's corner, and turned about it. */
  const whereOf = (p: HistoryPart): HTMLElement | null => {
    const [a, , c, d, , f] = p.pose?.affine ?? [];
    if (a === undefined || c === undefined || d === undefined || f === undefined) return notFound(p) ? h("p", null, notFound(p)) : null;
    return h("p", null, t.posed(c.toFixed(2), f.toFixed(2), ((Math.atan2(d, a) * 180) / Math.PI).toFixed(3)));
  };

  const figure = (p: HistoryPart, label: string): HTMLElement =>
    h("figure", { class: "figure" }, h("figcaption", null, badge(markOf(p)), ` ${label}: ${p.partId || p.frameId || `#${p.partNumber || p.resultNumber}`} `, p.evidence && may("run") && h("a", { href: drawOn(p) }, t.draw), p.partId && p.frameId && h("span", { class: "why" }, ` ${p.frameId}`)), h("div", { class: "frame" }, h("p", { class: "empty" }, p.evidence ? text.loading : t.noPicture)));

  const fill = async (f: HTMLElement, p: HistoryPart): Promise<void> => {
    const frame = f.querySelector(".frame")!;
    if (!p.evidence) return;
    try {
      const files = await Promise.all([evidence(p.id, EvidenceKind.PREVIEW), evidence(p.id, EvidenceKind.OVERLAY)]);
      const images = files.map((file, i) => {
        const url = URL.createObjectURL(file);
        urls.push(url);
        return h("img", { src: url, alt: i === 0 && (f.querySelector("figcaption")!.textContent ?? ""), "aria-hidden": i > 0 && "true" });
      });
      images[1]!.alt = "";
      set(frame, images);
    } catch (err) {
      set(frame, h("p", { class: "empty" }, errorText(err)));
    }
  };

  const showRegion = (regionName: string, expression?: string, p?: HistoryPart): void => {
    const bounds: Bounds = expression ? boundsOf(expression) : { quantity: "mean" };
    const quantity = bounds.unit ? `${bounds.quantity.trim().toLowerCase()}_mm2` : bounds.quantity; // areas; of no length there is a series
    rechart = () => void guarded(async (signal) => {
      const filter: MessageInitShape<typeof PartFilterSchema> = { ...filterOf(), region: "", verdicts: [], marks: [] };
      if (p?.name) filter.names = [p.name];
      const size = Number(subgroup.value);
      const kind = size > 1 ? { chart: ChartKind.XBAR_R, subgroup: size } : { chart: ChartKind.INDIVIDUALS };
      const r = await calls.getSeries({ filter, region: regionName, quantity, limit: 500, ...kind, lowerSpec: bounds.low, upperSpec: bounds.high }, { signal });
      showSeries(regionName, r, bounds);
    });
    rechart();
  };

  const showSeries = (regionName: string, r: GetSeriesResponse, bounds: { quantity: string; low?: number; high?: number }): void => {
    plots.forEach((p) => p.end());
    const values = new ValuePlot();
    const ranges = new ValuePlot();
    plots = [values, ranges];
    const c = r.chart;
    const grouped = c?.kind === ChartKind.XBAR_R;
    const focused = document.activeElement === subgroup;
    const histogram = h("canvas", { class: "histogram", role: "img", "aria-label": text.live.distribution });
    const title = `${t.chart}: ${regionName}, ${bounds.quantity}`;
    const rangeTitle = grouped ? t.ranges : t.movingRanges;
    set(chart, h("div", { class: "head" }, h("h2", null, title), field(t.subgroup, subgroup)), c && facts(c),
      grouped && h("h3", null, t.means), values.element, h("h3", null, rangeTitle), ranges.element, h("h3", null, text.live.distribution), histogram);
    if (focused) subgroup.focus();
    const outside = new Set(c?.outside ?? []);
    values.control = c && { mean: c.mean, low: c.lower, high: c.upper };
    // Limits of the recipe are of single values: means lie closer together.
    if (grouped) values.show(c.means.map((y, i) => ({ y, failed: outside.has(i) })), { quantity: bounds.quantity }, `${title}, ${t.means}`);
    else values.show(r.points.map((p, i) => ({ y: p.value, failed: p.verdict === Verdict.FAIL || outside.has(i) })), bounds, title);
    const rangesOutside = new Set(c?.rangesOutside ?? []);
    if (c?.range !== undefined) ranges.control = { mean: c.range, low: c.rangeLower, high: c.rangeUpper };
    ranges.show((c?.ranges ?? []).map((y, i) => ({ y, failed: rangesOutside.has(i) })), { quantity: bounds.quantity }, `${title}, ${rangeTitle}`);
    const bins = binsOf(r.points.map((p) => p.value), 40);
    redraw = () => drawHistogram(histogram, bins, bounds);
    redraw();
    resized.disconnect();
    resized.observe(histogram);
    chart.scrollIntoView({ block: "nearest" });
  };

  const facts = (c: ControlChart): HTMLElement =>
    h("dl", { class: "facts" }, ([[t.values, c.values], [t.mean, c.mean], [t.sigma, c.sigma ?? c.stddev], [t.control, undefined], [t.cp, c.cp], [t.cpk, c.cpk], [t.outside, c.outside.length], [t.rangesOutside, c.rangesOutside.length]] as [string, number | bigint | undefined][]).map(([k, v]) =>
      h("div", null, h("dt", null, k), h("dd", null, k === t.control ? `${short(c.lower)} … ${short(c.upper)}` : short(v)))));

  const save = (format: ExportFormat): Promise<void> => guarded(async () => {
    const chunks: Uint8Array<ArrayBuffer>[] = [];
    await new Promise<void>((done, fail) => {
      const s = openStream(HistoryService.method.exportParts, { message: (m) => chunks.push(m.data as Uint8Array<ArrayBuffer>), end: (err) => (err ? fail(err) : done()) });
      s.send({ filter: filterOf(), format, rows: ExportRows.REGIONS });
      s.halfClose();
    });
    const csv = format === ExportFormat.CSV;
    const url = URL.createObjectURL(new Blob(chunks, { type: csv ? "text/csv" : "application/vnd.apache.parquet" }));
    const a = h("a", { href: url, download: csv ? "parts.csv" : "parts.parquet" });
    a.click();
    put(status, `${t.saved} ${bytes(chunks.reduce((n, c) => n + c.length, 0))}`);
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
  });
  const status = h("p", { class: "note", role: "status" });
  form.append(status);

  form.addEventListener("submit", (e) => {
    e.preventDefault();
    search();
  });
  search();
  return () => {
    abort.abort();
    plots.forEach((p) => p.end());
    resized.disconnect();
    window.removeEventListener("theme", repaint);
    release();
  };
};

/** when is a time that breaks between the day and the hour alone. */
function when(at: Date): HTMLElement[] {
  return [h("span", null, `${at.toLocaleDateString("en-GB")},`), h("span", null, ` ${at.toLocaleTimeString("en-GB")}`)];
}

function select(id: string, options: [string, string][], value: string): HTMLSelectElement {
  const s = h("select", { id }, options.map(([v, label]) => h("option", { value: v }, label)));
  s.value = value;
  return s;
}

export default page;
