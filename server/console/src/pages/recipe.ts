// Recipe: regions and limits drawn on a frame, taught, tried and saved.

import { clone, create, toJsonString, type MessageInitShape } from "@bufbuild/protobuf";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { client, errorText, may } from "../api";
import { download, field, h, set, text as put } from "../dom";
import { short } from "../format";
import type { FlatField } from "../gen/polyscan/v1/frame_pb";
import { InspectionService, type FrameResult } from "../gen/polyscan/v1/inspection_pb";
import { RecipeSchema, RecipeService, type Recipe } from "../gen/polyscan/v1/recipe_pb";
import { BlobSpecSchema, FrameSizeSchema, ReductionsSchema, Statistic, Verdict, type ChannelStatistics, type LimitResult, type RegionResult, type RegionSet, type Reductions } from "../gen/polyscan/v1/region_pb";
import { FrameService } from "../gen/polyscan/v1/resident_pb";
import { FrameLabel, TeachService, type JudgedFrame, type Tally, type TeachResponse, type TryResponse } from "../gen/polyscan/v1/teach_pb";
import { boundsOf, withBounds } from "../limits";
import { frameOf, Line } from "../line";
import { badge, setBadge } from "../marks";
import { measured } from "../measured";
import type { Page } from "../page";
import { BlobForm } from "../recipe/blobform";
import { blobsText, fromSpec, type Blobs } from "../recipe/blobs";
import { ends, readFile, write, type Format, type Size } from "../recipe/files";
import { fileFrame, send, type Labelled } from "../recipe/labelled";
import { LimitPlot } from "../recipe/limitplot";
import { differences, framesOf, fromRegions, Model, toRegionSet, type Shape } from "../recipe/model";
import { Stage, type Tool, type Use } from "../recipe/stage";
import { text } from "../text";
import { markOf, type Mark } from "../watch";

const t = text.recipe;
const S = Statistic;
const shown = [S.COUNT, S.MEAN, S.STDDEV, S.MIN, S.MAX, S.MEDIAN, S.HISTOGRAM];
// Quantities whose values are on the axis of a histogram.
const onAxis = /^(?:([rgba]|red|green|blue|alpha|gray)\s*\.\s*)?(mean|min|max|median|mode|p\d+(?:\.\d+)?)$/i;
const quantities = ["mean", "stddev", "min", "max", "median", "p1", "p99", "count of pixels below 40", "count of pixels above 200", "blobs", "max blob.length", "sum blob.area"];
const taught = ["mean", "stddev", "min", "max"];
const namePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

const page: Page = (root, query) => {
  const e = new Editor(root);
  const [name, version] = (query.get("recipe") ?? "").split("@");
  if (name) void e.open(name, BigInt(version || 0));
  const kept = query.get("evidence") ?? "";
  if (/^\d+$/.test(kept)) void e.openKept(BigInt(kept), query.get("part") ?? kept);
  return () => e.end();
};

class Editor {
  private readonly model = new Model();
  private readonly stage = new Stage(this.model);
  private readonly plot = new LimitPlot();
  private readonly blobForm = new BlobForm();
  private readonly inspection = client(InspectionService);
  private readonly frames = client(FrameService);
  private readonly recipes = client(RecipeService);
  private readonly abort = new AbortController();

  // The frame, as the server keeps it.
  private resident = "";
  private frameName = "";
  private loads: Promise<void> = Promise.resolve();
  private asked: Shape[] = []; // that the numbers are of which the server is asked for
  private reducing = false;
  private again = false;
  private moving = false;
  private result: FrameResult | undefined;
  private detail: RegionResult | undefined;
  private active = 0; // the limit whose ends are on the histogram

  // The recipe that was opened.
  private base: { name: string; version: bigint; shapes: Shape[]; blobs?: Blobs; description: string; reductions?: Reductions; frames?: Record<string, string>; flatField?: FlatField; drawnOn?: Size } = { name: "", version: 0n, shapes: [], description: "" };
  private frameSize?: Size; // of the resident frame
  private latest = 0n; // the version that saving expects
  private savedRevision = 0;

  private readonly status = h("p", { class: "unseen", role: "status", "aria-live": "polite" });
  private readonly message = h("p", { class: "message", role: "alert", hidden: true });
  private readonly tools = new Map<Tool, HTMLButtonElement>();
  private readonly line = new Line({
    part: (f) => this.load(f),
    picture: (f, scale) => this.loadPicture(f, scale),
    failed: (err) => this.fail(err),
  });
  private readonly verdict = h("div", { class: "verdict" });
  private readonly frameInfo = h("p", { class: "help" }, t.noFrame);
  private readonly undo = h("button", { onclick: () => this.model.undo() }, t.undo);
  private readonly redo = h("button", { onclick: () => this.model.redo() }, t.redo);
  private readonly list = h("div", { class: "regions", role: "group", "aria-label": t.regions });
  private readonly region = h("section", { class: "card region", "aria-label": t.region });
  private readonly limitRows = h("div", { class: "limitrows" });
  private readonly nameInput = h("input", { maxlength: 256 });
  private readonly evenOdd = h("input", { type: "checkbox" });
  private readonly low = h("input", { type: "number", step: "any" });
  private readonly high = h("input", { type: "number", step: "any" });
  private readonly limitEnds = h("div", { class: "ends" });
  private readonly numbers = h("dl", { class: "numbers" });
  private readonly shapeButtons: HTMLButtonElement[] = [];

  private readonly good = h("input", { type: "file", multiple: true, accept: "image/*,.tif,.tiff,.bmp", id: "good" });
  private readonly bad = h("input", { type: "file", multiple: true, accept: "image/*,.tif,.tiff,.bmp", id: "bad" });
  private readonly marginValue = h("input", { type: "number", min: 0, max: 100, step: "any", value: 4 });
  private readonly marginKind = h("select", null, h("option", { value: "sigma" }, t.sigma), h("option", { value: "share" }, t.share));
  private readonly newest = h("input", { type: "number", min: 0, max: 500, value: 0, id: "newest" });
  private readonly about = new Map(taught.map((q) => [q, h("input", { type: "checkbox", checked: true })]));
  private readonly teachButton = h("button", { class: "primary", onclick: () => void this.teach() }, t.doTeach);
  private readonly tryButton = h("button", { onclick: () => void this.try() }, t.doTry);
  private readonly progress = h("p", { class: "help", role: "status" });
  private readonly outcome = h("div", { class: "outcome" });
  private leftOut = ""; // what to say of kept parts that have no frame

  private readonly recipeName = h("input", { maxlength: 128, id: "recipe-name", autocomplete: "off" });
  private readonly basedOn = h("span", { class: "help" });
  private readonly saveButton = h("button", { class: "primary", onclick: () => void this.save() }, t.save);
  private readonly stored = h("select", null, h("option", { value: "" }, t.newRecipe));
  private readonly versions = h("select", null);
  private readonly conflict = h("div", { class: "conflict", role: "region", "aria-label": t.conflictTitle, hidden: true });

  private readonly leaving = (ev: BeforeUnloadEvent): void => {
    if (this.unsaved) ev.preventDefault();
  };

  constructor(root: HTMLElement) {
    this.model.changed = (moving) => this.changed(moving);
    this.stage.say = (what) => put(this.status, what);
    this.stage.toolChanged = () => this.showTools();
    this.blobForm.changed = (b) => this.model.edit(() => (this.model.blobs = b && structuredClone(b)));
    this.plot.moved = (low, high, done) => this.setEnds(low, high, done);
    this.nameInput.addEventListener("change", () => this.rename());
    this.evenOdd.addEventListener("change", () => this.model.edit(() => (this.model.shape!.evenOdd = this.evenOdd.checked)));
    for (const input of [this.low, this.high]) {
      input.addEventListener("change", () => this.setEnds(this.low.value === "" ? undefined : Number(this.low.value), this.high.value === "" ? undefined : Number(this.high.value), true));
    }
    this.stored.addEventListener("change", () => void (this.stored.value ? this.open(this.stored.value, 0n) : this.begin()));
    this.recipeName.addEventListener("input", () => this.showSave());
    root.append(h("h1", { class: "unseen" }, t.title), this.toolbar(), h("div", { class: "columns" }, this.left(), this.right()), this.status);
    window.addEventListener("beforeunload", this.leaving);
    this.stage.setTool("select");
    this.changed(false);
    void this.loadRecipes();
  }

  end(): void {
    this.abort.abort();
    window.removeEventListener("beforeunload", this.leaving);
    this.line.end();
    this.stage.end();
    this.plot.end();
    this.release();
  }

  private release(): void {
    if (this.resident) void this.frames.releaseFrame({ name: this.resident }).catch(() => {});
    this.resident = "";
  }

  /** fail says what went wrong, of regions in the order in which the server got them. */
  private fail(err: unknown, regions: { name: string }[] = this.model.shapes): void {
    if (this.abort.signal.aborted) return;
    this.message.hidden = false;
    this.message.className = "message error";
    const why = err instanceof Error && !(err instanceof ConnectError) ? err.message : errorText(err);
    put(this.message, why.replace(/^[a-z._]*region_set\.regions\[(\d+)\](\.limits\[\d+\])?/, (all, i: string) => regions[Number(i)]?.name ?? all)
      .replace(/^[a-z._]*reductions\.blobs\.?([a-z_]*)/, (_, field: string) => `${t.blobs.title}: ${field}`).replace("reductions.blobs", t.blobs.title));
  }

  private tell(what: string): void {
    this.message.hidden = what === "";
    this.message.className = "message";
    put(this.message, what);
  }

  private toolbar(): HTMLElement {
    const file = h("input", { type: "file", id: "frame", class: "unseen", tabindex: -1, accept: "image/*,.tif,.tiff,.bmp", "aria-label": t.openFrame });
    file.addEventListener("change", () => {
      if (file.files?.[0]) void this.load(file.files[0]);
      file.value = "";
    });
    const regions = h("input", { type: "file", id: "import", class: "unseen", tabindex: -1, accept: ".json,.geojson,.svg,.png", "aria-label": t.import });
    regions.addEventListener("change", () => {
      if (regions.files?.[0]) void this.import(regions.files[0]);
      regions.value = "";
    });
    const use = h("select", null, Object.entries(t.uses).map(([value, label]) => h("option", { value }, label)));
    use.addEventListener("change", () => (this.stage.use = use.value as Use));
    const format = h("select", { id: "format" }, Object.entries(t.formats).map(([value, label]) => h("option", { value }, label)));
    for (const tool of ["select", "polygon", "rectangle", "circle"] as Tool[]) {
      this.tools.set(tool, h("button", { onclick: () => {
        this.stage.setTool(tool);
        this.stage.focus();
      } }, t.tools[tool]));
    }
    const shape = (label: string, f: () => void): HTMLButtonElement => {
      const b = h("button", { onclick: f }, label);
      this.shapeButtons.push(b);
      return b;
    };
    return h(
      "div",
      { class: "toolbar", role: "toolbar", "aria-label": t.toolbar },
      file,
      regions,
      h("button", { class: "primary", onclick: () => file.click() }, t.openFrame),
      [...this.tools.values()],
      field(t.use, use, "inline"),
      this.undo,
      this.redo,
      shape(t.copy, () => this.model.copies([[10, 10]])),
      shape(t.mirrorH, () => this.model.mirror(true)),
      shape(t.mirrorV, () => this.model.mirror(false)),
      shape(t.remove, () => this.model.remove()),
      h("button", { onclick: () => regions.click() }, t.import),
      field(t.exportAs, format, "inline"),
      h("button", { onclick: () => void this.export(format.value as Format) }, t.export),
    );
  }

  private left(): HTMLElement {
    return h(
      "div",
      { class: "left" },
      h("section", { class: "card framecard", "aria-label": t.frame },
        h("div", { class: "head" }, this.verdict, this.frameInfo,
          this.stage.zoomButtons()),
        this.line.element,
        this.message,
        this.stage.element,
        h("details", { class: "keys" }, h("summary", null, t.keysTitle), h("p", { id: "stage-keys" }, t.keys), h("p", null, t.mouse))),
      this.teachCard(),
    );
  }

  private right(): HTMLElement {
    const n = (label: string, value: number): [HTMLElement, HTMLInputElement] => {
      const input = h("input", { type: "number", step: "any", value });
      return [field(label, input, "inline"), input];
    };
    const [cf, columns] = n(t.columns, 2);
    const [rf, rows] = n(t.rows, 1);
    const [xf, dx] = n(t.dx, 40);
    const [yf, dy] = n(t.dy, 40);
    const array = h("details", null, h("summary", null, t.array), h("div", { class: "fields" }, cf, rf, xf, yf),
      h("button", { onclick: () => {
        const moves: [number, number][] = [];
        const [c, r] = [Math.min(1000, Number(columns.value)), Math.min(1000, Number(rows.value))];
        for (let y = 0; y < r; y++) for (let x = 0; x < c; x++) if ((x || y) && moves.length < 10_000) moves.push([x * Number(dx.value), y * Number(dy.value)]);
        this.model.copies(moves);
      } }, t.make));
    const quantity = h("select", { "aria-label": t.quantity }, quantities.map((q) => h("option", { value: q }, q)));
    set(this.limitEnds, h("h4", null, t.histogram("")), this.plot.element, h("div", { class: "fields" }, field(t.low, this.low), field(t.high, this.high)));
    set(this.region,
      h("h2", null, t.region),
      field(t.name, this.nameInput),
      h("label", { class: "check" }, this.evenOdd, h("span", null, t.evenOdd)),
      h("h3", null, t.limits),
      this.limitRows,
      h("div", { class: "add" }, quantity, h("button", { onclick: () => this.addLimit(quantity.value) }, t.addLimit)),
      this.limitEnds,
      h("h3", null, t.numbers),
      this.numbers,
      array);
    return h("div", { class: "right" }, this.saveCard(), h("section", { class: "card list" }, h("h2", null, t.regions), this.list), this.region, this.blobForm.element);
  }

  // The frame.

  /** openKept shows the frame that the history has of a part, as it was inspected. */
  async openKept(id: bigint, part: string): Promise<void> {
    try {
      await this.load(await frameOf(id, part));
    } catch (err) {
      this.fail(err);
    }
  }

  /** afterLoads runs f once the frames that were chosen before are shown, so that the one chosen last stays. */
  private afterLoads(f: () => Promise<void>): Promise<void> {
    const done = this.loads.then(f);
    this.loads = done.catch(() => {});
    return done;
  }

  /** loadPicture shows a picture of a stream. The server has no frame of it that numbers could be of. */
  private loadPicture(file: File, scale: number): Promise<void> {
    return this.afterLoads(async () => {
      this.tell("");
      await this.stage.show(file, scale);
      this.release();
      this.frameName = file.name;
      put(this.frameInfo, t.fromStream(file.name, scale));
      this.measure();
    });
  }

  private load(file: File): Promise<void> {
    return this.afterLoads(async () => {
      this.tell("");
      try {
        const [res] = await Promise.all([this.frames.putFrame({ frame: await fileFrame(file) }), this.stage.show(file)]);
        if (this.abort.signal.aborted) {
          void this.frames.releaseFrame({ name: res.frame!.name });
          return;
        }
        this.release();
        this.resident = res.frame!.name;
        this.frameSize = res.frame!.layout;
        this.frameName = file.name;
        put(this.frameInfo, `${file.name}, ${t.frameSize(this.stage.width, this.stage.height)}`);
        this.measure();
      } catch (err) {
        this.fail(err);
      }
    });
  }

  /** measure asks for the numbers of what is drawn now: one call at a time, and the latest after it. While the user drags,
   * of the chosen region alone. */
  private measure(): void {
    if (!this.resident || !this.model.shapes.length) {
      this.result = this.detail = undefined;
      this.showNumbers();
      return;
    }
    if (this.reducing) {
      this.again = true;
      return;
    }
    this.reducing = true;
    void this.reduce().catch((err: unknown) => {
      this.result = this.detail = undefined; // numbers of what was drawn before would be taken for those of what is seen
      this.stage.marks = [];
      this.stage.found = [];
      this.stage.update();
      this.showNumbers();
      this.fail(err, this.asked);
    }).finally(() => {
      this.reducing = false;
      if (this.again && !this.abort.signal.aborted) {
        this.again = false;
        this.measure();
      }
    });
  }

  /** reductions are what the recipe has, with the blobs that were described. */
  private reductions(): Reductions | undefined {
    const { reductions } = this.base, { blobs } = this.model;
    if (!reductions && !blobs) return undefined;
    const out = reductions ? clone(ReductionsSchema, reductions) : create(ReductionsSchema);
    out.blobs = blobs && create(BlobSpecSchema, blobs);
    return out;
  }

  /** wanted are these statistics, and what the recipe has beside statistics, which its limits are about, too. */
  private wanted(statistics: Statistic[], contours: boolean): MessageInitShape<typeof ReductionsSchema> {
    const { cooccurrence, correlations } = this.base.reductions ?? {};
    const { blobs } = this.model;
    return { statistics, ...(contours && { cooccurrence, correlations }), blobs: blobs && { ...blobs, contours } };
  }

  private async reduce(): Promise<void> {
    const { moving, model } = this;
    const revision = model.revision;
    const frame = { source: { case: "resident" as const, value: this.resident } };
    const ask = async (shapes: Shape[], reductions: MessageInitShape<typeof ReductionsSchema>): Promise<FrameResult | undefined> => {
      const set = toRegionSet((this.asked = shapes), model.scale);
      const { frames, flatField } = this.base;
      const inspection = { regions: { case: "regionSet" as const, value: set }, frames: framesOf(set, reductions, frames), flatField, reductions };
      return (await this.inspection.reduce({ frame, inspection }, { signal: this.abort.signal })).result;
    };
    const shape = model.shape;
    if (shape) {
      // With the regions that its limits and its reference name.
      const others = model.shapes.filter((s) => s !== shape && (s.name === shape.reference?.region || shape.limits.some((l) => l.includes(`"${s.name}"`))));
      const one = await ask([shape, ...others.map((s) => ({ ...s, limits: [], reference: undefined }))], this.wanted(shown, true));
      if (this.model.shape === shape || this.model.shape?.name === shape.name) this.detail = one?.regions[0];
      if (moving && this.detail) this.stage.marks[model.chosen] = markOf(this.detail);
      performance.mark("numbers", { detail: revision });
    } else {
      this.detail = undefined;
    }
    if (!moving) {
      this.result = await ask(model.shapes, this.wanted([S.COUNT], false));
      this.stage.marks = this.result?.regions.map((r) => markOf(r)) ?? [];
      if (this.message.classList.contains("error")) this.tell("");
    }
    this.stage.found = this.detail?.blobs?.blobs.map((b) => b.contour.map((ring) => ring.xy)) ?? [];
    this.stage.update();
    this.showNumbers();
  }

  // What is shown.

  private changed(moving: boolean): void {
    this.moving = moving;
    this.stage.update();
    this.undo.disabled = !this.model.canUndo;
    this.redo.disabled = !this.model.canRedo;
    for (const b of this.shapeButtons) b.disabled = !this.model.shape;
    if (!moving) {
      this.showList();
      this.showRegion();
      this.blobForm.show(this.model.blobs);
      this.showSave();
    }
    this.measure();
  }

  private showTools(): void {
    for (const [tool, b] of this.tools) b.setAttribute("aria-pressed", String(tool === this.stage.tool));
  }

  private showList(): void {
    const { shapes, chosen } = this.model;
    const held = this.list.contains(document.activeElement);
    if (!shapes.length) {
      set(this.list, h("p", { class: "empty" }, t.noRegions));
      return;
    }
    set(this.list, shapes.map((s, i) => {
      const mark = (this.stage.marks[i] ?? "none") as Mark;
      return h("button", { "aria-pressed": String(i === chosen), "data-mark": mark, onclick: () => this.model.choose(i) }, badgeOf(mark), h("span", { class: "name" }, s.name));
    }));
    const now = this.list.children[chosen] as HTMLElement | undefined;
    if (held) now?.focus();
    now?.scrollIntoView({ block: "nearest" });
  }

  private showRegion(): void {
    const s = this.model.shape;
    this.region.hidden = !s;
    if (!s) return;
    if (document.activeElement !== this.nameInput) this.nameInput.value = s.name;
    this.evenOdd.checked = s.evenOdd;
    this.active = Math.min(this.active, Math.max(0, s.limits.length - 1));
    this.showLimits();
  }

  private showLimits(): void {
    const s = this.model.shape;
    if (!s) return;
    const at = [...this.limitRows.querySelectorAll("input")].indexOf(document.activeElement as HTMLInputElement);
    if (this.limitRows.children.length !== s.limits.length || !s.limits.length || at < 0) {
      set(this.limitRows, s.limits.length === 0 && h("p", { class: "empty" }, t.noLimits), s.limits.map((_, k) => this.limitRow(k)));
    }
    [...this.limitRows.querySelectorAll(".limitrow")].forEach((row, k) => {
      const r = this.detail?.limits[k]?.expression === s.limits[k] ? this.detail?.limits[k] : undefined;
      const input = row.querySelector("input")!;
      if (document.activeElement !== input) input.value = s.limits[k]!;
      row.classList.toggle("on", k === this.active);
      const holder = row.querySelector<HTMLElement>(".mark")!;
      setBadge(holder, r ? markOf(r) : "waiting");
      put(row.querySelector(".why")!, limitText(r));
    });
    this.showEnds();
  }

  private limitRow(k: number): HTMLElement {
    const input = h("input", { "aria-label": t.limit(k + 1), maxlength: 256, spellcheck: "false" });
    input.addEventListener("focus", () => {
      this.active = k;
      this.showLimits();
    });
    input.addEventListener("change", () => this.model.edit(() => (this.model.shape!.limits[k] = input.value.trim())));
    return h("div", { class: "limitrow" }, h("span", { class: "mark" }), input,
      h("button", { class: "icon", "aria-label": t.removeLimit(k + 1), title: t.removeLimit(k + 1), onclick: () => this.model.edit(() => this.model.shape!.limits.splice(k, 1)) }, "×"),
      h("span", { class: "why" }));
  }

  private showEnds(): void {
    const s = this.model.shape;
    const expression = s?.limits[this.active];
    const b = boundsOf(expression ?? "");
    const channel = this.channelOf(b.quantity);
    const counts = channel?.histogram?.counts.map(Number) ?? [];
    const axis = expression === undefined || onAxis.test(b.quantity.trim());
    this.limitEnds.hidden = !s;
    this.plot.element.hidden = !axis || !counts.length;
    put(this.limitEnds.querySelector("h4")!, expression ?? t.histogram(s?.name ?? ""));
    for (const [input, v] of [[this.low, b.low], [this.high, b.high]] as const) {
      input.disabled = expression === undefined;
      if (document.activeElement !== input) input.value = v === undefined ? "" : String(v);
    }
    if (axis) this.plot.show(counts, expression === undefined ? { quantity: "" } : b, t.histogram(s?.name ?? ""));
  }

  private channelOf(quantity: string): ChannelStatistics | undefined {
    const letter = onAxis.exec(quantity.trim())?.[1]?.[0]?.toLowerCase();
    const all = this.detail?.channels ?? [];
    if (!letter || all.length < 2) return all[0];
    return all["rgba".indexOf(letter)] ?? all[0];
  }

  private showNumbers(): void {
    setBadge(this.verdict, this.result ? markOf(this.result) : "waiting");
    if (!this.moving) {
      [...this.list.querySelectorAll<HTMLElement>("button")].forEach((b, i) => {
        const mark = (this.stage.marks[i] ?? "none") as Mark;
        if (b.dataset.mark === mark) return;
        b.dataset.mark = mark;
        b.firstElementChild!.replaceWith(badgeOf(mark));
      });
    }
    const r = this.detail;
    const values = (f: (c: ChannelStatistics) => number | undefined): string => r!.channels.map((c) => short(f(c))).join(" · ");
    const rows: [string, string][] = r ? [
      [text.live.statistics.count!, short(r.count)],
      [text.live.statistics.mean!, values((c) => c.mean)],
      [text.live.statistics.stddev!, values((c) => c.stddev)],
      [text.live.statistics.min!, values((c) => c.min)],
      [text.live.statistics.max!, values((c) => c.max)],
      [text.live.statistics.median!, values((c) => c.median)],
      ...measured(r),
    ] : [];
    set(this.numbers, rows.map(([k, v]) => h("div", null, h("dt", null, k), h("dd", null, v))));
    this.showLimits();
  }

  // Regions and limits.

  private rename(): void {
    const name = this.nameInput.value.trim();
    const s = this.model.shape;
    if (!s || !name || name === s.name) {
      this.showRegion();
      return;
    }
    this.model.edit(() => {
      s.name = "";
      s.name = this.model.unused(name);
    });
    this.nameInput.value = s.name;
  }

  private addLimit(quantity: string): void {
    const s = this.model.shape;
    if (!s) return;
    const c = this.detail?.channels[0];
    const v = { mean: c?.mean, stddev: c?.stddev, min: c?.min, max: c?.max, median: c?.median }[quantity];
    // Around what this frame has: to be dragged where it belongs.
    let expression = `${quantity} <= 25`;
    if (quantity === "blobs") expression = "blobs <= 0";
    else if (quantity.includes("blob")) expression = `${quantity} <= 25`;
    else if (quantity === "stddev") expression = `stddev <= ${Math.ceil((v ?? 10) * 1.5 + 1)}`;
    else if (!quantity.startsWith("count")) expression = withBounds(quantity, Math.max(0, Math.floor((v ?? 120) - 15)), Math.ceil((v ?? 120) + 15));
    this.active = s.limits.length;
    this.model.edit(() => s.limits.push(expression));
  }

  private setEnds(low: number | undefined, high: number | undefined, done: boolean): void {
    const s = this.model.shape;
    const old = s?.limits[this.active];
    if (!s || old === undefined || (low === undefined && high === undefined)) return;
    this.model.begin();
    this.model.move(() => (s.limits[this.active] = withBounds(boundsOf(old).quantity, low, high, boundsOf(old).unit)));
    this.showLimits();
    if (done) this.model.commit();
  }

  private async import(file: File): Promise<void> {
    this.tell("");
    try {
      const r = await readFile(file, this.frameName);
      this.model.edit(() => {
        this.model.shapes = r.shapes;
        this.model.scale = r.scale ?? this.model.scale;
        this.model.blobs = r.blobs ?? this.model.blobs;
        this.base.drawnOn = r.drawnOn;
        this.model.chosen = r.shapes.length ? 0 : -1;
        this.model.vertex = null;
      });
      if (!this.recipeName.value && namePattern.test(r.name)) this.recipeName.value = r.name;
      if (r.warnings?.length) this.tell(t.leftOut(r.warnings[0]!, r.warnings.length - 1));
      this.showSave();
    } catch (err) {
      this.fail(err);
    }
  }

  private async export(format: Format): Promise<void> {
    this.tell("");
    const { shapes, scale, blobs } = this.model;
    const { reductions, frames, flatField } = this.base;
    try {
      const frame = { name: this.frameName, width: this.stage.width, height: this.stage.height };
      const type = { svg: "image/svg+xml", png: "image/png" }[format as string] ?? "application/json";
      const file = new Blob([await write(format, this.recipeName.value, shapes, frame, scale, this.drawnOn(), blobs)], { type });
      download(file, `${this.recipeName.value || "regions"}${ends[format]}`);
      if (format === "png") this.tell(t.namesLost);
      else if (format === "svg" && shapes.some((s) => s.limits.length)) this.tell(t.limitsLost);
      else if (format !== "polyscan" && scale) this.tell(t.scaleLost);
      else if (format !== "polyscan" && blobs) this.tell(t.blobsLost);
      else if (reductions?.cooccurrence || reductions?.correlations.length || Object.keys(frames ?? {}).length || flatField) this.tell(t.moreLost);
    } catch (err) {
      this.fail(err);
    }
  }

  // Teach and try.

  private teachCard(): HTMLElement {
    for (const input of [this.good, this.bad]) {
      input.addEventListener("change", () => {
        if (input === this.good && !this.resident && input.files?.[0]) void this.load(input.files[0]);
      });
    }
    return h("section", { class: "card teach", "aria-label": t.teach },
      h("h2", null, t.teach),
      h("div", { class: "fields" }, field(t.good, this.good), field(t.bad, this.bad), field(t.newest, this.newest)),
      h("div", { class: "fields" },
        h("label", { class: "field" }, h("span", null, t.margin), this.marginValue),
        h("label", { class: "field" }, h("span", { class: "unseen" }, t.margin), this.marginKind),
        h("fieldset", null, h("legend", null, t.about), [...this.about].map(([q, box]) => h("label", { class: "check" }, box, h("span", null, q))))),
      h("div", { class: "add" }, this.teachButton, this.tryButton, this.progress),
      this.outcome);
  }

  private async files(): Promise<Labelled[]> {
    const of = (input: HTMLInputElement, label: FrameLabel): Labelled[] => [...(input.files ?? [])].map((file) => ({ file, label }));
    const kept = await this.line.newest(Number(this.newest.value));
    const without = kept.all - kept.parts.length;
    this.leftOut = without > 0 ? t.noPicture(without, kept.all) : "";
    const labels = kept.parts.map(({ file, verdict }) => ({ file, label: verdict === Verdict.PASS ? FrameLabel.GOOD : FrameLabel.BAD }));
    return [...of(this.good, FrameLabel.GOOD), ...of(this.bad, FrameLabel.BAD), ...labels];
  }

  private async working<T>(files: Labelled[], f: (progress: (done: number) => void) => Promise<T>): Promise<T | undefined> {
    this.tell("");
    if (!this.model.shapes.length) {
      this.fail(new Error(t.needRegions));
      return undefined;
    }
    this.teachButton.disabled = this.tryButton.disabled = true;
    set(this.outcome);
    try {
      return await f((done) => put(this.progress, t.working(done, files.length)));
    } catch (err) {
      this.fail(err);
      return undefined;
    } finally {
      put(this.progress, "");
      this.teachButton.disabled = !may("teach");
      this.tryButton.disabled = !may("teach");
    }
  }

  private async teach(): Promise<void> {
    const files = await this.files().catch((err: unknown) => this.fail(err));
    if (!files) return;
    if (files.filter((f) => f.label === FrameLabel.GOOD).length < 2) {
      this.fail(new Error(`${t.needGood} ${this.leftOut}`.trim()));
      return;
    }
    const n = Number(this.marginValue.value);
    const margin = this.marginKind.value === "sigma" ? { kind: { case: "sigma" as const, value: n } } : { kind: { case: "quantile" as const, value: { percent: 0, sharePercent: n } } };
    const about = [...this.about].filter(([, box]) => box.checked).map(([q]) => q);
    const res = await this.working(files, (progress) => send(TeachService.method.teach,
      { message: { case: "open" as const, value: { regions: { case: "draft", value: this.draft("draft") }, quantities: about, margin } } },
      files, (frame, label) => ({ message: { case: "frame" as const, value: frame }, label }), progress));
    if (res) this.showTaught(res);
  }

  private showTaught(res: TeachResponse): void {
    const learned = fromRegions(res.recipe?.regionSet?.regions ?? []);
    const done = h("p", { role: "status" });
    const take = h("button", { class: "primary", onclick: () => {
      const limits = new Map(learned.map((s) => [s.name, s.limits]));
      this.model.edit(() => {
        for (const s of this.model.shapes) s.limits = limits.get(s.name) ?? s.limits;
      });
      put(done, t.taken);
    } }, t.take);
    set(this.outcome,
      h("h3", null, t.learned),
      tally(res.tally),
      this.leftOut && h("p", { class: "note" }, this.leftOut),
      res.warnings.map((w) => h("p", { class: "note" }, w)),
      h("div", { class: "add" }, take, done),
      table("taught", t.learned, [t.region, t.goodHave, t.limits, t.caught], res.limits.map((l) => [
        l.regionName, `${short(l.least)} – ${short(l.greatest)}`, l.expression || `${l.quantity}: ${t.noLimit}`, l.badRejected ? String(l.badRejected) : "",
      ])));
  }

  private async try(): Promise<void> {
    const files = await this.files().catch((err: unknown) => this.fail(err));
    if (!files) return;
    if (!files.length) {
      this.fail(new Error(`${t.needFrames} ${this.leftOut}`.trim()));
      return;
    }
    const beside = this.base.version ? { name: this.base.name, version: this.base.version } : undefined;
    const res = await this.working(files, (progress) => send(TeachService.method.try,
      { message: { case: "open" as const, value: { regions: { case: "draft", value: this.draft("draft") }, beside } } },
      files, (frame, label) => ({ message: { case: "frame" as const, value: frame }, label }), progress));
    if (res) this.showTried(res, files, beside?.version ?? 0n);
  }

  /** showTried lists frames that did not pass before those that did. The name of a frame opens it. */
  private showTried(res: TryResponse, files: Labelled[], version: bigint): void {
    const passed = (f: JudgedFrame): number => Number(f.verdict === Verdict.PASS);
    const head = [t.frameName, t.is, t.now, ...(version ? [t.beside(version)] : []), t.why];
    set(this.outcome,
      h("h3", null, t.tried),
      tally(res.tally),
      this.leftOut && h("p", { class: "note" }, this.leftOut),
      res.beside && h("p", null, t.beside(version), ": ", tallyText(res.beside)),
      table("tried", t.tried, head, [...res.frames].sort((a, b) => passed(a) - passed(b)).map((f) => [
        h("button", { class: "small link", title: t.openFrame, onclick: () => void this.load(files[f.index]!.file).then(() => this.stage.element.scrollIntoView({ block: "nearest" })) }, f.frameId),
        t.labels[f.label] ?? "",
        badge(markOf(f)),
        ...(version ? [badge(markOf({ verdict: f.beside }))] : []),
        f.failed.map((r) => `${r.regionName}: ${r.reason}`).join("; "),
      ])));
  }

  // Recipes on the server.

  private saveCard(): HTMLElement {
    const open = h("button", { onclick: () => void this.open(this.base.name, BigInt(this.versions.value || 0)) }, t.open);
    if (!may("teach")) {
      for (const b of [this.saveButton, this.teachButton, this.tryButton]) b.disabled = true;
    }
    return h("section", { class: "card save", "aria-label": t.saveTitle },
      h("div", { class: "head" }, h("h2", null, t.saveTitle), this.basedOn),
      !may("teach") && h("p", { class: "note" }, t.notTeach),
      field(t.recipes, this.stored),
      h("div", { class: "add" }, field(t.versions, this.versions, "grow"), open),
      h("div", { class: "add" }, field(t.saveAs, this.recipeName, "grow"), this.saveButton),
      this.conflict);
  }

  private get unsaved(): boolean {
    return this.model.revision !== this.savedRevision && this.model.shapes.length > 0;
  }

  private showSave(): void {
    put(this.basedOn, `${t.based(this.base.version)}${this.unsaved ? `, ${t.unsaved}` : ""}`);
  }

  private async loadRecipes(): Promise<void> {
    try {
      const names: string[] = [];
      let pageToken = "";
      do {
        const res = await this.recipes.listRecipes({ pageSize: 1000, pageToken }, { signal: this.abort.signal });
        names.push(...res.recipes.map((r) => r.name));
        pageToken = res.nextPageToken;
      } while (pageToken);
      set(this.stored, h("option", { value: "" }, t.newRecipe), names.map((n) => h("option", { value: n }, n)));
      this.stored.value = this.base.name;
      let found: { version: bigint; at: string }[] = [];
      if (this.base.name) {
        const res = await this.recipes.listRecipes({ namePrefix: this.base.name, allVersions: true, pageSize: 1000 }, { signal: this.abort.signal });
        found = res.recipes.filter((r) => r.name === this.base.name).map((r) => ({ version: r.version, at: r.createdAt ? timestampDate(r.createdAt).toLocaleString("en-GB") : "" }));
      }
      set(this.versions, found.reverse().map((v) => h("option", { value: v.version }, t.version(v.version, v.at))));
      this.versions.value = String(this.base.version);
    } catch (err) {
      this.fail(err);
    }
  }

  private begin(): void {
    this.base = { name: "", version: 0n, shapes: [], description: "" };
    this.recipeName.value = "";
    this.model.replace([]);
    this.savedRevision = this.model.revision;
    this.showSave();
    void this.loadRecipes();
  }

  private setBase(r: Recipe, shapes: Shape[]): void {
    this.base = { name: r.name, version: r.version, shapes: structuredClone(shapes), blobs: fromSpec(r.reductions?.blobs), description: r.description, reductions: r.reductions, frames: r.frames, flatField: r.flatField, drawnOn: r.regionSet?.drawnOn };
    this.recipeName.value = r.name;
    this.conflict.hidden = true;
    this.savedRevision = this.model.revision;
    this.showSave();
    void this.loadRecipes();
  }

  /** open gets a version, 0 for the latest. What is saved then becomes a new version behind the latest of that name. */
  async open(name: string, version: bigint): Promise<void> {
    this.tell("");
    try {
      const res = await this.recipes.getRecipe({ recipe: { name, version } }, { signal: this.abort.signal });
      const shapes = fromRegions(res.recipe!.regionSet?.regions ?? []);
      this.model.replace(shapes, res.recipe!.regionSet?.scale, fromSpec(res.recipe!.reductions?.blobs));
      this.setBase(res.recipe!, shapes);
      if (version) { // an old one may be opened on purpose, and is saved over the latest
        const latest = await this.recipes.getRecipe({ recipe: { name, version: 0n } }, { signal: this.abort.signal });
        this.latest = latest.recipe!.version;
      } else {
        this.latest = res.recipe!.version;
      }
    } catch (err) {
      this.fail(err);
    }
  }

  /** drawnOn is of the frame that is seen, or else of that which the recipe or the file says. */
  private drawnOn(): Size | undefined {
    return this.resident ? this.frameSize : this.base.drawnOn;
  }

  /** regionSet is the regions with what is said of them all. */
  private regionSet(shapes: Shape[]): RegionSet {
    const on = this.drawnOn();
    const set = toRegionSet(shapes, this.model.scale);
    set.drawnOn = on && create(FrameSizeSchema, { width: on.width, height: on.height });
    return set;
  }

  /** draft is the recipe as it is now. */
  private draft(name: string): Recipe {
    const regionSet = this.regionSet(this.model.shapes), reductions = this.reductions();
    return create(RecipeSchema, {
      name, description: name === this.base.name ? this.base.description : "", regionSet, reductions,
      frames: framesOf(regionSet, this.base.reductions, this.base.frames), flatField: this.base.flatField,
    });
  }

  private async save(expected = this.latest): Promise<void> {
    const name = this.recipeName.value.trim();
    this.tell("");
    if (!namePattern.test(name)) {
      this.fail(new Error(t.needName));
      this.recipeName.focus();
      return;
    }
    if (!this.model.shapes.length) {
      this.fail(new Error(t.needRegions));
      return;
    }
    const shapes = structuredClone(this.model.shapes);
    const mine = name === this.base.name;
    try {
      const recipe = this.draft(name);
      const res = await this.recipes.putRecipe({ recipe, expectedVersion: mine ? expected : 0n });
      this.latest = res.recipe!.version;
      this.setBase({ ...recipe, version: this.latest }, shapes);
      this.tell(t.saved(name, res.recipe!.version));
    } catch (err) {
      if (ConnectError.from(err).code === Code.Aborted) await this.showConflict(name, shapes);
      else this.fail(err);
    }
  }

  private async showConflict(name: string, mine: Shape[]): Promise<void> {
    try {
      const theirs = (await this.recipes.getRecipe({ recipe: { name, version: 0n } })).recipe!;
      const known = name === this.base.name;
      const before = known ? this.base.shapes : [];
      const said = (b: Blobs | undefined): string[] => (b ? [blobsText(b)] : []);
      const rest = (r: Partial<Pick<Recipe, "reductions" | "frames" | "flatField">>): string[] => {
        const reductions = r.reductions && clone(ReductionsSchema, r.reductions);
        delete reductions?.blobs;
        const asked = reductions ? toJsonString(ReductionsSchema, reductions) : "{}";
        return [asked, JSON.stringify(Object.entries(r.frames ?? {}).sort()), r.flatField?.sha256 ?? ""];
      };
      const list = (title: string, shapes: Shape[], blobs: Blobs | undefined, of: typeof this.base | Recipe): HTMLElement => {
        const d = differences(before, shapes);
        const were = rest(known ? this.base : {});
        rest(of).forEach((v, i) => {
          if (v !== were[i]) d.push({ name: t.rest[i]!, kind: "other", before: [], after: [] });
        });
        const [old, now] = [known ? said(this.base.blobs) : [], said(blobs)];
        if (old.join() !== now.join()) d.push({ name: t.blobs.title, kind: "limits", before: old, after: now });
        return h("div", null, h("h3", null, title), d.length === 0 ? h("p", { class: "empty" }, t.same) : h("ul", { class: "diff" }, d.map((x) =>
          h("li", null, h("b", null, x.name), ` ${t.kinds[x.kind]} `, x.before.map((l) => h("del", null, l)), x.after.map((l) => h("ins", null, l))))));
      };
      this.conflict.hidden = false;
      const over = h("button", { onclick: () => void this.save(theirs.version) }, t.saveOver);
      set(this.conflict,
        h("p", { class: "alarm", role: "alert" }, t.conflict(theirs.version)),
        h("div", { class: "both" }, list(t.yours, mine, this.model.blobs, this.base), list(t.theirs, fromRegions(theirs.regionSet?.regions ?? []), fromSpec(theirs.reductions?.blobs), theirs)),
        h("div", { class: "add" }, h("button", { onclick: () => void this.open(name, 0n) }, t.takeTheirs), over));
      if (name !== this.base.name) this.base = { ...this.base, name, version: 0n, shapes: [] };
      over.focus();
    } catch (err) {
      this.fail(err);
    }
  }
}

function badgeOf(mark: Mark): HTMLElement {
  const b = badge(mark);
  b.lastElementChild!.className = "unseen";
  return b;
}

function limitText(r: LimitResult | undefined): string {
  if (!r) return "";
  return r.reason || (r.value === undefined ? "" : `${t.measured}: ${short(r.value)}`);
}

function tallyText(n: Tally): string {
  return t.tally(n.goodPassed, n.goodPassed + n.goodFailed, n.badFailed, n.badPassed + n.badFailed);
}

function tally(n: Tally | undefined): HTMLElement | undefined {
  return n && h("p", { class: "headline" }, tallyText(n));
}

function table(id: string, caption: string, head: string[], rows: (string | HTMLElement)[][]): HTMLElement {
  return h("div", { class: "scroll tall", id, tabindex: 0, role: "region", "aria-label": caption },
    h("table", null, h("thead", null, h("tr", null, head.map((c) => h("th", { scope: "col" }, c)))),
      h("tbody", null, rows.map((r) => h("tr", null, r.map((c, i) => (i === 0 ? h("th", { scope: "row" }, c) : h("td", null, c))))))));
}

export default page;
