// Live: all streams at a glance, and one of them large.

import { timestampDate, type Timestamp } from "@bufbuild/protobuf/wkt";
import { client } from "../api";
import { h, onFrame, set, text as put } from "../dom";
import { evidence } from "../evidence";
import { short, time } from "../format";
import { EvidenceKind, HistoryService, PartMark, type HistoryPart } from "../gen/polyscan/v1/history_pb";
import type { ChannelStatistics, RegionResult } from "../gen/polyscan/v1/region_pb";
import type { Preview, WatchVerdict } from "../gen/polyscan/v1/monitor_pb";
import { RegionNumbers, WatchKind } from "../gen/polyscan/v1/monitor_pb";
import { Verdict } from "../gen/polyscan/v1/region_pb";
import { boundsOf, type Bounds } from "../limits";
import { badge, setBadge, symbol } from "../marks";
import { measured } from "../measured";
import type { Page } from "../page";
import { decode, drawPicture, type Picture } from "../picture";
import { binsOf, drawHistogram, ValuePlot, type Value } from "../plot";
import { text } from "../text";
import { follow, keyOf, markOf, milliseconds, notFound, watch, type Line, type Mark } from "../watch";

const t = text.live;

const nameOf = (l: Line): string => l.name || t.unnamed(l.id);

/** Tile is a stream at a glance. */
class Tile {
  readonly element: HTMLButtonElement;
  private readonly badge = h("div", { class: "verdict" });
  private readonly state = h("span", { class: "kind" });
  private readonly from = h("span", { class: "kind", hidden: true });
  private readonly cells = new Map<string, HTMLElement>();

  constructor(
    readonly line: Line,
    choose: () => void,
  ) {
    const cell = (name: string, label: string): HTMLElement => {
      const value = h("dd");
      this.cells.set(name, value);
      return h("div", { class: name }, h("dt", null, label), value);
    };
    this.element = h(
      "button",
      { class: "tile", onclick: choose },
      h("span", { class: "name" }, nameOf(line)),
      this.state,
      this.from,
      this.badge,
      h("dl", null, cell("rate", t.rate), cell("pass", t.pass), cell("fail", t.fail), cell("late", t.late), cell("p99", t.p99), cell("last", t.last)),
    );
  }

  update(now: number, chosen: boolean): void {
    const l = this.line;
    const mark = l.last ? markOf(l.last) : "waiting";
    this.element.dataset.mark = mark;
    this.element.title = l.source;
    put(this.from, l.source);
    this.from.hidden = !l.source;
    this.element.setAttribute("aria-pressed", String(chosen));
    setBadge(this.badge, mark);
    const kind = text.methods[l.method] ?? "";
    put(this.state, l.method === 3 ? kind : `${kind}, ${l.open ? t.open : t.closed}`);
    const show = (name: string, value: string, alarm = false): void => {
      const e = this.cells.get(name)!;
      put(e, value);
      e.classList.toggle("alarm", alarm);
    };
    show("rate", t.perSecond(l.rate(now)));
    show("pass", short(l.pass));
    show("fail", short(l.fail + l.errors), l.fail + l.errors > 0);
    show("late", short(l.late), l.late > 0);
    show("p99", time(l.p99()));
    show("last", l.last ? t.ago((now - l.lastAt) / 1e3) : t.never);
  }
}

const kept = 500; // values of a number
const mostFollowed = 1000; // regions whose values are kept; with more, those of the chosen one are
const strip = 12; // rejects

/** Track is a region with its last values, by limit. */
interface Track {
  result: RegionResult;
  values: Value[][];
}

/** Reject is one of the film strip. */
interface Reject {
  verdict: WatchVerdict | null; // null of a part that the history has, whose picture is no preview
  name: string;
  mark: Mark;
  element: HTMLElement;
  canvas: HTMLCanvasElement;
  none: HTMLElement; // says that there is no picture
  picture: Picture | null;
  kept?: bigint; // of the history
}

const writes = 1200; // ms after which the history has what happened
const calls = client(HistoryService);

/** keptPicture is what the history has of a part, with its regions. */
async function keptPicture(id: bigint): Promise<Picture> {
  const [frame, overlay] = await Promise.all([evidence(id, EvidenceKind.PREVIEW), evidence(id, EvidenceKind.OVERLAY)]);
  const image = await createImageBitmap(frame);
  const drawn = h("canvas", { width: image.width, height: image.height });
  const c = drawn.getContext("2d")!;
  c.drawImage(image, 0, 0);
  image.close();
  const url = URL.createObjectURL(overlay);
  try {
    const regions = new Image();
    regions.src = url;
    await regions.decode();
    c.drawImage(regions, 0, 0, drawn.width, drawn.height);
  } finally {
    URL.revokeObjectURL(url);
  }
  return { image: await createImageBitmap(drawn), places: [] };
}

/** isOf says whether a picture is that of a verdict. Calls have no number, and may have an id. */
function isOf(p: Preview, v: WatchVerdict): boolean {
  return p.streamId === v.streamId && p.resultNumber === v.resultNumber && p.partId === v.partId && (v.streamId > 0n || v.partId !== "");
}

/** Detail is one stream, large. */
class Detail {
  readonly element: HTMLElement;
  private readonly badge = h("div", { class: "verdict large" });
  private readonly facts = h("dl", { class: "facts" });
  private readonly canvas = h("canvas", { role: "img", "aria-label": t.picture, hidden: true });
  private readonly pictureOf = h("span", { class: "of" });
  private readonly noPicture = h("p", { class: "empty" }, t.noPicture);
  private readonly followButton = h("button", { class: "small", hidden: true, onclick: () => this.unpin() }, t.follow);
  private readonly film = h("ol", { class: "film", tabindex: 0, "aria-label": t.rejects });
  private readonly noRejects = h("p", { class: "empty" }, t.noRejects);
  private readonly list = h("ul", { class: "regions", tabindex: 0, "aria-label": t.regions });
  private readonly regionTitle = h("h3");
  private readonly limits = h("div", { class: "limits", role: "group", "aria-label": t.limit });
  private readonly histogram = h("canvas", { class: "histogram", role: "img" });
  private readonly histogramTitle = h("h4");
  private readonly numbers = h("dl", { class: "numbers" });
  private readonly valuesTitle = h("h3");
  private readonly plot = new ValuePlot();
  private readonly end: () => void;
  private readonly tracks = new Map<number, Track>();
  private readonly rows = new Map<number, { element: HTMLButtonElement; mark: string; value: HTMLElement }>();
  private rejects: Reject[] = [];
  private recent: [Preview, Picture][] = [];
  private last: WatchVerdict | null = null;
  private shown: Picture | null = null;
  private pinned: Reject | null = null;
  private chosen = -1;
  private chosenByUser = false;
  private limit = 0;
  private asked = false; // the history
  private stopped = false;
  private readonly paint = onFrame(() => this.render());
  private readonly repaint = (): void => {
    this.drawShown();
    this.paint();
  };
  private readonly observer = new ResizeObserver(this.repaint);

  constructor(readonly line: Line) {
    const stage = h("div", { class: "stage" }, this.canvas, this.noPicture);
    this.element = h(
      "section",
      { class: "detail", "aria-label": nameOf(line) },
      h("div", { class: "title" }, h("h2", null, nameOf(line)), this.badge, this.facts),
      h("section", { class: "card picture" }, h("div", { class: "head" }, h("h3", null, t.picture), this.pictureOf, this.followButton), stage),
      h("section", { class: "card list" }, h("h3", null, t.regions), this.list),
      h("section", { class: "card region" }, this.regionTitle, this.limits, this.histogramTitle, this.histogram, this.numbers),
      h("section", { class: "card rejects" }, h("h3", null, t.rejects), this.noRejects, this.film),
      h("section", { class: "card values" }, this.valuesTitle, this.plot.element),
    );
    this.observer.observe(stage);
    window.addEventListener("theme", this.repaint);
    this.end = follow(
      {
        names: line.name ? [line.name] : [],
        numbers: RegionNumbers.ALL,
        kinds: [WatchKind.VERDICT, WatchKind.PREVIEW],
        preview: { rate: 30, maxPixels: 262144 },
      },
      {
        message: (m) => {
          if (m.event.case === "started") this.before(m.at!);
          else if (m.event.case === "verdict" && keyOf(m.event.value) === line.key) this.verdict(m.event.value);
          else if (m.event.case === "preview") void this.preview(m.event.value);
        },
      },
    );
    this.paint();
  }

  stop(): void {
    this.stopped = true;
    this.end();
    this.plot.end();
    this.observer.disconnect();
    window.removeEventListener("theme", this.repaint);
  }

  private verdict(v: WatchVerdict): void {
    this.last = v;
    for (const r of v.results) {
      if (v.results.length > mostFollowed && r.index !== this.chosen) {
        this.tracks.set(r.index, { result: r, values: this.tracks.get(r.index)?.values ?? [] });
        continue;
      }
      const track = this.tracks.get(r.index) ?? { result: r, values: [] };
      track.result = r;
      const values = seriesOf(r);
      values.forEach((value, i) => {
        const series = (track.values[i] ??= []);
        series.push(value);
        if (series.length > kept) series.shift();
      });
      this.tracks.set(r.index, track);
    }
    if (!this.chosenByUser) {
      const failed = v.results.find((r) => r.verdict === Verdict.FAIL) ?? (this.chosen < 0 ? v.results[0] : undefined);
      if (failed && failed.index !== this.chosen) {
        this.chosen = failed.index;
        this.limit = Math.max(0, failed.limits.findIndex((l) => l.verdict === Verdict.FAIL));
      }
    }
    const mark = markOf(v);
    if (mark === "fail" || mark === "error") this.reject(v);
    this.paint();
  }

  private reject(v: WatchVerdict): void {
    const r = this.frame(v, v.error?.message, new Date(), v);
    this.rejects.unshift(r);
    this.film.prepend(r.element);
    const early = this.recent.find(([p]) => isOf(p, v));
    if (early) this.addPicture(r, early[1]);
    this.trim();
  }

  private trim(): void {
    for (const old of this.rejects.splice(strip)) old.element.remove();
    this.noRejects.hidden = this.rejects.length > 0;
  }

  /** before adds what the history has of rejects from before the watch began. It writes what has just happened within a
   * second, and is asked for that once more. */
  private before(at: Timestamp): void {
    if (this.asked) return;
    this.asked = true;
    const ids = new Set<bigint>();
    const ask = async (): Promise<void> => {
      if (!watch.history || this.stopped || (!this.line.name && !this.line.id)) return;
      const filter = { to: at, ...(this.line.name ? { names: [this.line.name] } : { stream: { serverId: watch.server, streamId: this.line.id } }) };
      const page = { pageSize: strip, numbers: RegionNumbers.FAILED };
      const found = await Promise.all([
        calls.listParts({ ...page, filter: { ...filter, verdicts: [Verdict.FAIL] } }),
        calls.listParts({ ...page, filter: { ...filter, marks: [PartMark.ERROR] } }),
      ]);
      const came = (p: HistoryPart): boolean => p.streamId > 0n && p.serverId === watch.server &&
        this.rejects.some(({ verdict: v }) => v && v.streamId === p.streamId && v.resultNumber === p.resultNumber);
      const parts = found.flatMap((f) => f.parts).filter((p) => p.method === this.line.method && !ids.has(p.id) && !came(p));
      for (const p of parts.sort((a, b) => Number(b.id - a.id))) {
        ids.add(p.id);
        const r = this.frame(p, p.error ? p.reason : undefined, timestampDate(p.at!), null);
        // The later ones are first; those that came by the watch are later than all of these.
        const next = this.rejects.findIndex((o) => o.kept !== undefined && o.kept < p.id);
        r.kept = p.id;
        if (next < 0) this.rejects.push(r);
        else this.rejects.splice(next, 0, r);
        this.film.insertBefore(r.element, next < 0 ? null : this.film.children[next]!);
      }
      this.trim();
      // One after the other: the server has a line to attend to.
      for (const { id } of parts.filter((p) => p.evidence)) {
        const r = this.rejects.find((r) => r.kept === id);
        if (r && !this.stopped) await keptPicture(id).then((picture) => this.addPicture(r, { ...picture, part: r.name, mark: r.mark }), () => {});
      }
    };
    void ask().catch(() => {}).then(() => setTimeout(() => void ask().catch(() => {}), writes));
  }

  private frame(v: WatchVerdict | HistoryPart, error: string | undefined, at: Date, verdict: WatchVerdict | null): Reject {
    const failed = v.results.filter((r) => r.verdict === Verdict.FAIL).map((r) => r.name || `#${r.index}`);
    const canvas = h("canvas", { hidden: true, "aria-hidden": "true" });
    const none = h("span", { class: "none" }, t.noPictureOfPart);
    const name = v.partId || v.frameId || `#${v.partNumber || v.resultNumber}`;
    const mark = error === undefined ? "fail" : "error";
    const r: Reject = { verdict, name, mark, canvas, none, picture: null, element: h("li") };
    r.element.append(
      h(
        "button",
        { onclick: () => this.pin(r), "data-part": name },
        h("span", { class: "thumb" }, none, canvas, symbol(mark)),
        h("span", { class: "part" }, name),
        h("span", { class: "why" }, error ?? (notFound(v) || failed.join(", "))),
        h("time", null, at.toLocaleTimeString("en-GB")),
      ),
    );
    return r;
  }

  private async preview(p: Preview): Promise<void> {
    if ((p.name || "") !== this.line.name || (!this.line.name && p.streamId !== this.line.id)) return;
    const picture = await decode(p);
    picture.part ||= p.streamId > 0n ? `#${p.resultNumber}` : "";
    const r = this.rejects.find((r) => r.verdict && isOf(p, r.verdict));
    if (r) this.addPicture(r, picture);
    this.recent.unshift([p, picture]); // the verdict may come later
    this.recent.length = Math.min(this.recent.length, 4);
    if (!this.pinned) {
      this.shown = picture;
      this.drawShown();
    }
  }

  private addPicture(r: Reject, picture: Picture): void {
    r.picture = picture;
    r.canvas.hidden = false;
    r.none.hidden = true;
    if (r === this.pinned) {
      this.shown = picture;
      this.drawShown();
    }
    const scale = Math.min(1, 320 / picture.image.width, 220 / picture.image.height);
    r.canvas.width = Math.max(1, picture.image.width * scale);
    r.canvas.height = Math.max(1, picture.image.height * scale);
    r.canvas.getContext("2d")!.drawImage(picture.image, 0, 0, r.canvas.width, r.canvas.height);
  }

  private pin(r: Reject): void {
    this.pinned = r;
    this.shown = r.picture;
    this.followButton.hidden = false;
    for (const o of this.rejects) o.element.firstElementChild!.setAttribute("aria-pressed", String(o === r));
    this.drawShown();
  }

  private unpin(): void {
    this.pinned = null;
    this.followButton.hidden = true;
    for (const o of this.rejects) o.element.firstElementChild!.removeAttribute("aria-pressed");
    this.shown = this.recent[0]?.[1] ?? this.shown;
    this.drawShown();
  }

  private drawShown(): void {
    this.canvas.hidden = !this.shown;
    this.noPicture.hidden = !!this.shown;
    // The verdict above is of the last part, which the picture need not be of: fewer pictures come than parts.
    set(this.pictureOf, this.shown?.mark && badge(this.shown.mark), this.shown?.part && ` ${this.shown.part}`);
    put(this.noPicture, this.pinned ? t.noPictureOfPart : t.noPicture);
    if (!this.shown) return;
    drawPicture(this.canvas, this.shown, this.chosenByUser ? this.chosen : -1, Math.max(220, window.innerHeight * 0.5));
  }

  private choose(index: number): void {
    this.chosen = index;
    this.chosenByUser = true;
    this.limit = 0;
    this.drawShown();
    this.paint();
  }

  private render(): void {
    const v = this.last;
    const l = this.line;
    setBadge(this.badge, v ? markOf(v) : l.last ? markOf(l.last) : "waiting");
    const facts: [string, string][] = [[text.recipe.title, t.recipe(l.recipe, l.version)]];
    if (v) facts.push([t.part, v.partId || v.frameId || String(v.partNumber || v.resultNumber)], [t.latency, time(milliseconds(v.latency))]);
    if (l.source) facts.push([t.camera, l.source]);
    if (l.gaps) facts.push([t.gaps, short(l.gaps)]);
    set(this.facts, facts.map(([k, val]) => h("div", null, h("dt", null, k), h("dd", null, val))));
    this.renderList();
    this.renderRegion();
  }

  private renderList(): void {
    const all = [...this.tracks.values()].map((t) => t.result);
    all.sort((a, b) => Number(b.verdict === Verdict.FAIL) - Number(a.verdict === Verdict.FAIL) || a.index - b.index);
    const most = 200;
    const wanted: Element[] = [];
    for (const r of all.slice(0, most)) {
      let row = this.rows.get(r.index);
      if (!row) {
        const value = h("span", { class: "value" });
        const element = h("button", { onclick: () => this.choose(r.index) }, h("span", { class: "sign" }), h("span", { class: "name" }, r.name || `#${r.index}`), value);
        row = { element, mark: "", value };
        this.rows.set(r.index, row);
        h("li", null, element);
      }
      const mark = markOf(r);
      if (row.mark !== mark) {
        row.mark = mark;
        row.element.dataset.mark = mark;
        row.element.firstElementChild!.replaceChildren(symbol(mark), h("span", { class: "unseen" }, text.verdict[mark]));
      }
      put(row.value, short(seriesOf(r)[0]?.y));
      row.element.setAttribute("aria-pressed", String(r.index === this.chosen));
      wanted.push(row.element.parentElement!);
    }
    const now = [...this.list.children];
    if (now.length !== wanted.length || now.some((e, i) => e !== wanted[i])) {
      const focused = document.activeElement;
      this.list.replaceChildren(...wanted);
      if (focused instanceof HTMLElement && this.list.contains(focused)) focused.focus();
    }
  }

  private renderRegion(): void {
    const track = this.tracks.get(this.chosen);
    for (const e of [this.histogramTitle, this.histogram, this.plot.element]) e.hidden = !track;
    if (!track) {
      put(this.regionTitle, t.noRegions);
      put(this.valuesTitle, t.values(kept));
      return;
    }
    const r = track.result;
    this.limit = Math.min(this.limit, Math.max(0, r.limits.length - 1));
    put(this.regionTitle, r.name || `#${r.index}`);
    if (this.limits.childElementCount !== r.limits.length || r.limits.some((l, i) => this.limits.children[i]!.getAttribute("data-limit") !== l.expression)) {
      set(
        this.limits,
        r.limits.map((l, i) =>
          h("button", { "data-limit": l.expression, onclick: () => {
            this.limit = i;
            this.paint();
          } }, h("span", { class: "sign" }), l.expression, h("b")),
        ),
      );
    }
    r.limits.forEach((l, i) => {
      const b = this.limits.children[i] as HTMLElement;
      const mark = markOf(l);
      b.setAttribute("aria-pressed", String(i === this.limit));
      put(b.querySelector("b")!, short(l.value));
      if (b.dataset.mark !== mark) {
        b.dataset.mark = mark;
        b.firstElementChild!.replaceChildren(symbol(mark), h("span", { class: "unseen" }, text.verdict[mark]));
      }
    });
    const expression = r.limits[this.limit]?.expression;
    const bounds: Bounds = expression ? boundsOf(expression) : { quantity: "mean" };
    const values = track.values[this.limit] ?? [];
    const title = `${t.values(Math.max(1, values.length))}: ${r.name || `#${r.index}`}, ${bounds.quantity}`;
    put(this.valuesTitle, title);
    this.plot.show(values, bounds, `${title}. ${short(values.at(-1)?.y)}`);
    const pixels = r.channels.find((c) => c.histogram)?.histogram;
    const ofPixels = pixels && /^(.*\.)?(mean|min|max|median|mode|p\d.*)$/.test(bounds.quantity);
    put(this.histogramTitle, pixels ? t.histogram : t.distribution);
    this.histogram.setAttribute("aria-label", pixels ? t.histogram : t.distribution);
    if (pixels) drawHistogram(this.histogram, { lower: pixels.lower, upper: pixels.upper, counts: pixels.counts.map(Number) }, ofPixels ? bounds : { quantity: "" });
    else drawHistogram(this.histogram, binsOf(values.map((v) => v.y), 40), bounds);
    set(this.numbers, numbersOf(r).map(([k, v]) => h("div", null, h("dt", null, k), h("dd", null, v))));
  }
}

/** seriesOf is a value for each limit of a region, or its mean where it has none. */
function seriesOf(r: RegionResult): Value[] {
  if (!r.limits.length) return [{ y: r.channels[0]?.mean ?? NaN, failed: false }];
  return r.limits.map((l) => ({ y: l.value ?? NaN, failed: l.verdict === Verdict.FAIL }));
}

const ofChannel: (keyof ChannelStatistics & string)[] = ["mean", "stddev", "min", "max", "median", "sum", "variance", "mode", "distinct",
  "skewness", "kurtosis", "entropy", "meanAbsoluteDeviation", "interquartileRange",
  "kolmogorovSmirnov", "wasserstein", "jensenShannon", "chiSquare",
  "planeX", "planeY", "planeResidual"];

function numbersOf(r: RegionResult): [string, string][] {
  const out: [string, string][] = [
    [text.live.statistics.count!, short(r.count)],
    [text.live.statistics.area!, short(r.area)],
  ];
  if (r.coverage !== undefined && r.coverage < 1) out.push([text.live.statistics.coverage!, short(r.coverage)]);
  for (const s of ofChannel) {
    const values = r.channels.map((c) => c[s] as number | bigint | undefined).filter((v) => v !== undefined);
    if (values.length) out.push([text.live.statistics[s]!, values.map((v) => short(v)).join(" · ")]);
  }
  out.push(...measured(r));
  return out;
}

const page: Page = (root, query) => {
  const list = h("div", { class: "streams", role: "group", "aria-label": t.streams });
  const note = h("p", { class: "note", role: "status", hidden: true });
  const nothing = h("p", { class: "empty" }, t.none);
  const main = h("div", { class: "one" }, nothing);
  root.append(h("h1", { class: "unseen" }, t.title), list, h("div", { class: "rest" }, note, main));
  const tiles = new Map<string, Tile>();
  let detail: Detail | null = null;
  let wanted = query.get("stream");

  const choose = (l: Line): void => {
    if (detail?.line === l) return;
    detail?.stop();
    detail = new Detail(l);
    set(main, detail.element);
    wanted = l.key;
    history.replaceState(null, "", `/live?stream=${encodeURIComponent(l.key)}`);
    render();
  };
  const render = (): void => {
    const now = performance.now();
    for (const [key, tile] of tiles) {
      if (watch.lines.get(key) !== tile.line) {
        tile.element.remove();
        tiles.delete(key);
      }
    }
    for (const l of watch.lines.values()) {
      let tile = tiles.get(l.key);
      if (!tile) {
        tile = new Tile(l, () => choose(l));
        tiles.set(l.key, tile);
        list.append(tile.element);
      }
      tile.update(now, detail?.line === l);
    }
    if (detail && watch.lines.get(detail.line.key) !== detail.line && watch.lines.has(detail.line.key)) choose(watch.lines.get(detail.line.key)!);
    else if (!detail && watch.lines.size) {
      const first = wanted ? watch.lines.get(wanted) : watch.lines.values().next().value;
      if (first) choose(first);
      else put(nothing, t.choose);
    }
    note.hidden = !watch.lost && !watch.otherServer;
    put(note, watch.otherServer ? t.otherServer : watch.lost ? t.lost(watch.lost) : "");
  };
  const later = onFrame(render);
  watch.listeners.add(later);
  const timer = setInterval(later, 1000);
  render();
  return () => {
    watch.listeners.delete(later);
    clearInterval(timer);
    detail?.stop();
  };
};

export default page;
