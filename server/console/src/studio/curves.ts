// The tab Curves: a drawing, and its picture as it is drawn.

import { client, errorText } from "../api";
import { download, field, h, set, text as put } from "../dom";
import { short, time } from "../format";
import { DiffusionMethod, DiffusionService, type Curve as CurveMessage, type SolveResponse } from "../gen/polyscan/v1/diffusion_pb";
import { Encoding, PixelFormat } from "../gen/polyscan/v1/frame_pb";
import { Line } from "../line";
import { imageOf, pngOf } from "../pixels";
import { text } from "../text";
import { milliseconds } from "../watch";
import { CurveStage, type Tool } from "./curvestage";
import { colorsOf, Drawing, hex, type Curve, mostSide, read, rgb, segments, sides, write, type Side } from "./drawing";
import { Edit, restTime } from "./edit";
import type { Tab } from "./tab";

const t = text.studio;
const rateTime = 1000; // ms that the rate is of
const slow = 50; // ms that a picture may take for 20 to come in a second
const beside = 3; // pixels from a curve to where its colours are taken: those nearer are of the edge itself

/** levels are a colour as the server rounds it, which single precision doesn't hold. */
const levels = (c: { red: number; green: number; blue: number }): [number, number, number] =>
  [c.red, c.green, c.blue].map((v) => Math.round(100 * v) / 100) as [number, number, number];

const curveOf = (c: CurveMessage): Omit<Curve, "id"> => {
  const colors = (stops: CurveMessage["left"]): Curve["left"] => stops.map((s) => [s.at, ...levels(s)]);
  return {
    points: c.xy,
    left: colors(c.left),
    right: colors(c.right),
    blur: c.blur.map((s) => [s.at, s.sigma]),
    barrier: c.barrier,
  };
};

export const curves: Tab = (root) => {
  const drawing = new Drawing();
  const stage = new CurveStage(drawing);
  const edit = new Edit(drawing);
  // While something is dragged and pictures take longer than that, they have half the width and height.
  const small = new Edit(drawing, 0.5);
  let pace = 0; // milliseconds that a picture of the whole canvas takes while something is dragged, about
  let following = false; // by small pictures
  let rest = 0; // timer until the drawing rests
  let shown: ImageData | null = null;
  let saved = 0;
  let times: number[] = [];
  let blob = Promise.resolve(); // pictures that are decoded, in order

  const status = h("p", { class: "unseen", role: "status", "aria-live": "polite" });
  const message = h("p", { class: "message error", role: "alert", hidden: true });
  const tools = new Map<Tool, HTMLButtonElement>();
  const rate = h("strong", { class: "rate" });
  const facts = h("dl", { class: "numbers" });
  const undo = h("button", { onclick: () => drawing.undo() }, text.recipe.undo);
  const redo = h("button", { onclick: () => drawing.redo() }, text.recipe.redo);
  const remove = h("button", { onclick: () => drawing.remove() }, text.recipe.remove);
  const list = h("select", { size: 6, "aria-label": t.curvesOf });
  const panel = h("section", { class: "card curve", "aria-label": t.curve });
  const width = h("input", { type: "number", min: 1, max: mostSide, value: 512 });
  const height = h("input", { type: "number", min: 1, max: mostSide, value: 512 });
  const left = h("input", { type: "color", value: "#ffb000" });
  const right = h("input", { type: "color", value: "#0b3c8c" });
  const method = h(
    "select",
    null,
    t.methods.map((name, i) => h("option", { value: i + 1 }, name)),
  );
  const tolerance = h("input", { type: "number", min: 0.001, max: 255, step: "any", value: 0.25 });
  const form = h(
    "select",
    null,
    h("option", { value: Encoding.RAW }, t.raw),
    h("option", { value: Encoding.PNG }, t.png),
  );

  // A picture to draw over.
  let template: ImageData | null = null;
  let overlaid: ImageBitmap | null = null;
  const opacity = h("input", { type: "range", id: "template-opacity", min: 0, max: 100, value: 50, disabled: true });
  const takeColors = h("input", { type: "checkbox", checked: true, disabled: true });
  opacity.addEventListener("input", () => stage.setTemplate(overlaid, Number(opacity.value) / 100));

  // Its curves, as the server finds them.
  let extracting: AbortController | null = null;
  const detail = (name: string, min: number, max: number, value: number): HTMLInputElement =>
    h("input", { type: "number", id: `extract-${name}`, min, max, step: "any", value });
  const steep = detail("threshold", 0.1, 1000, 20);
  const long = detail("length", 2, 1 << 20, 20);
  const share = detail("pixels", 0, 100, 5);
  const extract = h("button", { class: "primary", disabled: true }, t.extract);
  const extractCurves = async (picture: ImageData): Promise<void> => {
    const mine = (extracting = new AbortController());
    root.toggleAttribute("data-extracting", true);
    put(extract, t.stopExtract);
    put(status, t.extracting);
    fail("");
    try {
      const r = await client(DiffusionService).extract(
        {
          frame: {
            encoding: Encoding.RAW,
            layout: { width: picture.width, height: picture.height, pixelFormat: PixelFormat.RGBA8 },
            source: { case: "data", value: new Uint8Array(picture.data.buffer) },
          },
          options: { threshold: Number(steep.value), length: Math.round(Number(long.value)), maxPixels: Number(share.value) / 100 },
        },
        { signal: mine.signal },
      );
      if (mine !== extracting) return;
      const curves = (r.drawing?.curves ?? []).map(curveOf);
      const pixels = (r.drawing?.pixels ?? []).map((p) => [p.x, p.y, ...levels(p)]);
      drawing.replace(curves, pixels);
      stage.setTool("select");
      const found = t.extracted(curves.length, pixels.length, r.psnr);
      put(status, found);
      put(extractFound, found);
    } catch (err) {
      if (!mine.signal.aborted) fail(errorText(err));
      else put(status, t.extractStopped);
    } finally {
      if (mine === extracting) {
        extracting = null;
        root.toggleAttribute("data-extracting", false);
        put(extract, t.extract);
      }
    }
  };
  const extractFound = h("p", { class: "help" });
  extract.addEventListener("click", () => {
    if (extracting) extracting.abort();
    else if (template) void extractCurves(template);
  });
  const setTemplate = (image: ImageBitmap | null): void => {
    stage.setTemplate(image, Number(opacity.value) / 100);
    overlaid = image;
    template = null;
    extracting?.abort();
    opacity.disabled = takeColors.disabled = extract.disabled = !image;
    if (!image) return;
    const c = new OffscreenCanvas(image.width, image.height).getContext("2d")!;
    c.drawImage(image, 0, 0);
    template = c.getImageData(0, 0, image.width, image.height);
  };

  const fail = (why: string): void => {
    message.hidden = why === "";
    put(message, why);
  };

  const showPixels = (pixels: ImageData, r: SolveResponse, took: number): void => {
    if (!following) shown = pixels;
    stage.showPixels(pixels, drawing.width, drawing.height);
    const now = performance.now();
    times = [...times.filter((at) => at > now - rateTime), now];
    put(rate, t.rate(times.length));
    performance.mark("picture", {
      detail: { revision: drawing.revision, width: pixels.width, took, solve: milliseconds(r.compute), cycles: r.cycles },
    });
    showFacts(r, took);
  };

  // Nobody reads numbers that change more often.
  let last: [SolveResponse, number] | null = null;
  let timer = 0;
  const showFacts = (...now: [SolveResponse, number]): void => {
    last = now;
    timer ||= window.setTimeout(() => {
      timer = 0;
      const [r, took] = last!;
      const rows: [string, string][] = [
        [t.solved, time(milliseconds(r.compute))],
        [t.took, time(took)],
        [t.cycles, short(r.cycles)],
        [t.error, r.errorUnknown ? "–" : short(r.estimate)],
        [t.given, short(r.givenPixels)],
        [t.void, short(r.voidPixels)],
      ];
      set(
        facts,
        rows.map(([k, v]) => h("div", null, h("dt", null, k), h("dd", null, v))),
      );
    }, 100);
  };

  edit.failed = small.failed = fail;
  edit.changed = () => root.toggleAttribute("data-busy", edit.busy || following);
  const follow = (moving: boolean): void => {
    clearTimeout(rest);
    const was = following;
    following = moving && pace > slow;
    if (following) {
      rest = window.setTimeout(() => follow(false), restTime);
      edit.hold(); // or it would make pictures that nobody sees, each of them exact
      small.sync(true);
    } else {
      small.hold();
      edit.sync(moving);
    }
    if (was !== following) edit.changed();
  };
  /** timed keeps the pace, of which a picture of a quarter of the pixels says less well. */
  const timed = (took: number, weight: number): void => {
    pace = pace ? pace + weight * (took - pace) : took;
  };
  small.picture = (r, took) => {
    if (!following) return;
    timed(4 * took, 0.1);
    show(r, took);
  };
  edit.picture = (r, took) => {
    if (r.cycles === 1 && edit.busy) timed(took, 0.5);
    if (!following) show(r, took);
  };
  const show = (r: SolveResponse, took: number): void => {
    if (r.picture?.encoding !== Encoding.PNG) {
      showPixels(imageOf(r.picture), r, took);
      return;
    }
    const data = r.picture.source.value as Uint8Array<ArrayBuffer>;
    blob = blob
      .then(async () => {
        const image = await createImageBitmap(new Blob([data], { type: "image/png" }));
        const c = new OffscreenCanvas(image.width, image.height).getContext("2d")!;
        c.drawImage(image, 0, 0);
        image.close();
        showPixels(c.getImageData(0, 0, c.canvas.width, c.canvas.height), r, took);
      })
      .catch((err: unknown) => fail(String(err)));
  };

  const options = (): void => {
    edit.options = {
      method: Number(method.value) as DiffusionMethod,
      tolerance: Number(tolerance.value) || 0,
      encoding: Number(form.value) as Encoding,
    };
    small.options = edit.options;
    small.end();
    pace = 0;
    edit.reopen();
  };
  for (const input of [method, tolerance, form]) input.addEventListener("change", options);

  // What is chosen.

  const showList = (): void => {
    if (
      list.options.length !== drawing.curves.length ||
      drawing.curves.some((c, i) => list.options[i]!.text !== c.id)
    ) {
      set(
        list,
        drawing.curves.map((c, i) => h("option", { value: i }, c.id)),
      );
    }
    list.selectedIndex = drawing.chosen;
    list.disabled = !drawing.curves.length;
  };
  list.addEventListener("change", () => drawing.choose(list.selectedIndex));

  const stopRow = (side: Side, i: number): HTMLElement => {
    const c = drawing.curve!;
    const label = t.stopOf(t.sides[side], i + 1);
    const where = h("input", {
      type: "number",
      min: 0,
      max: segments(c),
      step: 0.05,
      value: c[side][i]![0],
      "aria-label": t.placeOf(label),
    });
    where.addEventListener("change", () =>
      drawing.edit(() => {
        drawing.part = { kind: side, i };
        drawing.slide(Number(where.value));
      }),
    );
    const value =
      side === "blur"
        ? h("input", {
            type: "number",
            min: 0,
            max: 100,
            step: 0.5,
            value: c.blur[i]![1],
            "aria-label": t.sigmaOf(label),
          })
        : h("input", { type: "color", value: hex(c[side][i]!), "aria-label": t.colorOf(label) });
    const change = (): void => {
      if (side === "blur") c.blur[i]![1] = Math.min(100, Math.max(0, Number(value.value)));
      else c[side][i] = [c[side][i]![0], ...rgb(value.value)];
    };
    // While the colour is being chosen the picture follows.
    value.addEventListener("input", () => {
      drawing.begin();
      drawing.move(change);
    });
    value.addEventListener("change", () => drawing.commit());
    return h(
      "div",
      { class: "stoprow" },
      where,
      value,
      h(
        "button",
        {
          class: "icon",
          "aria-label": t.removeStop(label),
          title: t.removeStop(label),
          onclick: () => {
            drawing.choose(drawing.chosen, { kind: side, i });
            drawing.remove();
          },
        },
        "×",
      ),
    );
  };

  const showPanel = (): void => {
    const c = drawing.curve;
    panel.hidden = !c;
    if (!c) return;
    // Who works in the panel stays where they are.
    const all = (): HTMLElement[] => [...panel.querySelectorAll<HTMLElement>("input, button")];
    const at = all().indexOf(document.activeElement as HTMLElement);
    const barrier = h("input", { type: "checkbox", checked: c.barrier });
    barrier.addEventListener("change", () => {
      if (!barrier.checked && !c.left.length && !c.right.length) {
        barrier.checked = true;
        fail(t.needColor);
        return;
      }
      drawing.edit(() => (c.barrier = barrier.checked));
    });
    set(
      panel,
      h("h2", null, c.id),
      h("label", { class: "check" }, barrier, h("span", null, t.barrier)),
      sides.map((side) =>
        h(
          "div",
          { class: "stops", role: "group", "aria-label": t.sides[side] },
          h("h3", null, t.sides[side]),
          c[side].map((_, i) => stopRow(side, i)),
          h("button", { class: "small", onclick: () => drawing.addStop(side) }, t.add[side]),
        ),
      ),
    );
    if (at >= 0) all()[Math.min(at, all().length - 1)]?.focus();
  };

  drawing.changed = (moving) => {
    stage.resize(drawing.width, drawing.height);
    stage.update();
    undo.disabled = !drawing.canUndo;
    redo.disabled = !drawing.canRedo;
    remove.disabled = !drawing.curve;
    if (!moving) {
      showList();
      showPanel();
    }
    if (!drawing.curves.length && !drawing.pixels.length) {
      stage.clear();
      shown = null;
    }
    follow(moving);
  };
  stage.say = (what) => put(status, what);
  stage.toolChanged = () => {
    for (const [tool, b] of tools) b.setAttribute("aria-pressed", String(tool === stage.tool));
  };
  stage.made = (points) => {
    const colors = template && takeColors.checked ? colorsOf(template, points, beside) : null;
    drawing.add(points, colors?.left ?? [[0, ...rgb(left.value)]], colors?.right ?? [[0, ...rgb(right.value)]]);
    put(status, text.recipe.added(drawing.curve!.id));
  };

  // Files.

  const sizes = (): [number, number] =>
    [width, height].map((i) => Math.min(mostSide, Math.max(1, Math.round(Number(i.value)) || 1))) as [number, number];
  const begin = (w: number, c: number, from?: ReturnType<typeof read>): void => {
    fail("");
    small.end();
    pace = 0;
    edit.end();
    setTemplate(null);
    put(extractFound, "");
    stage.clear();
    shown = null;
    drawing.start(w, c, from?.curves, from?.pixels);
    saved = drawing.revision;
    [width.value, height.value] = [String(w), String(c)];
    stage.fit();
  };
  /** openTemplate begins a drawing over a picture, of its size or as large as the page makes canvases. */
  const openTemplate = async (f: File): Promise<void> => {
    try {
      let image = await createImageBitmap(f, { colorSpaceConversion: "none" });
      const shrink = mostSide / Math.max(image.width, image.height);
      if (shrink < 1) {
        const small = await createImageBitmap(image, { resizeWidth: Math.round(image.width * shrink), resizeHeight: Math.round(image.height * shrink), resizeQuality: "medium" });
        image.close();
        image = small;
      }
      begin(image.width, image.height);
      setTemplate(image);
    } catch (err) {
      fail(err instanceof Error ? err.message : String(err));
    }
  };
  const line = new Line({ part: openTemplate, picture: openTemplate, failed: (err) => fail(errorText(err)) });
  const pictureFile = h("input", {
    type: "file",
    id: "template",
    class: "unseen",
    tabindex: -1,
    accept: "image/*",
    "aria-label": t.openTemplate,
  });
  pictureFile.addEventListener("change", () => {
    if (pictureFile.files?.[0]) void openTemplate(pictureFile.files[0]);
    pictureFile.value = "";
  });
  const open = async (f: File): Promise<void> => {
    try {
      const packed = new Uint8Array(await f.slice(0, 2).arrayBuffer());
      const gzip = packed[0] === 0x1f && packed[1] === 0x8b;
      const d = read(await (gzip ? new Response(f.stream().pipeThrough(new DecompressionStream("gzip"))) : f).text());
      begin(d.width, d.height, d);
    } catch (err) {
      fail(err instanceof Error ? err.message : String(err));
    }
  };
  const file = h("input", {
    type: "file",
    id: "drawing",
    class: "unseen",
    tabindex: -1,
    accept: ".json,.gz",
    "aria-label": t.open,
  });
  file.addEventListener("change", () => {
    if (file.files?.[0]) void open(file.files[0]);
    file.value = "";
  });
  const save = (): void => {
    download(new Blob([write(drawing)], { type: "application/json" }), "drawing.json");
    saved = drawing.revision;
  };
  for (const tool of ["select", "draw"] as Tool[]) {
    tools.set(
      tool,
      h(
        "button",
        {
          onclick: () => {
            stage.setTool(tool);
            stage.focus();
          },
        },
        t.tools[tool],
      ),
    );
  }

  root.append(
    h(
      "div",
      { class: "toolbar", role: "toolbar", "aria-label": text.recipe.toolbar },
      file,
      pictureFile,
      h("button", { class: "primary", onclick: () => file.click() }, t.open),
      h("button", { onclick: () => pictureFile.click() }, t.openTemplate),
      [...tools.values()],
      undo,
      redo,
      remove,
      h("button", { onclick: save }, t.save),
      h(
        "button",
        {
          onclick: () => {
            if (shown) void pngOf(shown).then((b) => download(b, "picture.png"));
          },
        },
        t.savePng,
      ),
    ),
    h(
      "div",
      { class: "columns" },
      h(
        "div",
        { class: "left" },
        h(
          "section",
          { class: "card framecard", "aria-label": t.canvas },
          h("div", { class: "head" }, rate, stage.zoomButtons()),
          line.element,
          message,
          stage.element,
          h(
            "details",
            { class: "keys" },
            h("summary", null, text.recipe.keysTitle),
            h("p", { id: "curve-keys" }, t.keys),
            h("p", null, t.mouse),
          ),
        ),
        h("section", { class: "card", "aria-label": t.numbers }, facts),
      ),
      h(
        "div",
        { class: "right" },
        h(
          "section",
          { class: "card" },
          h("h2", null, t.curvesOf),
          list,
          h("div", { class: "fields" }, field(t.newLeft, left), field(t.newRight, right)),
          h("label", { class: "check" }, takeColors, h("span", null, t.takeColors)),
          field(t.templateOpacity, opacity),
        ),
        h(
          "section",
          { class: "card", "aria-label": t.extractTitle },
          h("h2", null, t.extractTitle),
          h("p", { class: "help" }, t.extractHelp),
          h("div", { class: "fields" }, field(t.threshold, steep), field(t.edgeLength, long), field(t.besides, share)),
          extract,
          extractFound,
        ),
        panel,
        h(
          "section",
          { class: "card" },
          h("h2", null, t.solver),
          field(t.method, method),
          h("div", { class: "fields" }, field(t.tolerance, tolerance), field(t.pictures, form)),
        ),
        h(
          "section",
          { class: "card" },
          h("h2", null, t.canvas),
          h(
            "div",
            { class: "fields" },
            field(t.width, width),
            field(t.height, height),
            h("button", { onclick: () => begin(...sizes()) }, t.begin),
          ),
        ),
      ),
    ),
    status,
  );
  put(rate, t.rate(0));
  stage.setTool("select");
  begin(512, 512);
  const ticks = setInterval(() => {
    times = times.filter((at) => at > performance.now() - rateTime);
    put(rate, t.rate(times.length));
  }, 1000);
  const leaving = (ev: BeforeUnloadEvent): void => {
    if (drawing.revision !== saved) ev.preventDefault();
  };
  window.addEventListener("beforeunload", leaving);
  return () => {
    clearInterval(ticks);
    clearTimeout(timer);
    window.removeEventListener("beforeunload", leaving);
    clearTimeout(rest);
    extracting?.abort();
    small.end();
    edit.end();
    line.end();
    stage.end();
  };
};
