// The tab Fill and background: what regions cover, replaced by what is around it.

import { client, errorText } from "../api";
import { download, field, h, set, text as put } from "../dom";
import { short, time } from "../format";
import { DiffusionService, type FillReport } from "../gen/polyscan/v1/diffusion_pb";
import { Encoding, type Frame } from "../gen/polyscan/v1/frame_pb";
import { latest } from "../latest";
import { imageOf, pngOf } from "../pixels";
import { readFile } from "../recipe/files";
import { Model, toRegionSet } from "../recipe/model";
import { Stage, type Tool, type Use } from "../recipe/stage";
import { text } from "../text";
import { View } from "../view";
import { milliseconds } from "../watch";
import { OpenFrame } from "./frame";
import type { Tab } from "./tab";

const t = text.studio;
const r = text.recipe;

export const fill: Tab = (root) => {
  const model = new Model();
  const stage = new Stage(model);
  const view = new View(t.result, t.viewer, "fill-keys");
  const service = client(DiffusionService);
  const abort = new AbortController();
  let shown: ImageData | null = null;

  const status = h("p", { class: "unseen", role: "status", "aria-live": "polite" });
  const message = h("p", { class: "message", role: "alert", hidden: true });
  const info = h("p", { class: "help" }, t.noFrame);
  const facts = h("dl", { class: "numbers" });
  const tell = (what: string, error = false): void => {
    message.hidden = what === "";
    message.className = error ? "message error" : "message";
    put(message, what);
  };
  const fail = (err: unknown): void => {
    if (!abort.signal.aborted) tell(errorText(err), true);
  };

  const shows = h(
    "fieldset",
    { onchange: () => run() },
    h("legend", null, t.show),
    Object.entries(t.shows).map(([value, name], i) =>
      h(
        "label",
        { class: "check" },
        h("input", { type: "radio", name: "show", value, checked: i === 0 }),
        h("span", null, name),
      ),
    ),
  );

  const compute = async (): Promise<void> => {
    if (!frame.resident || abort.signal.aborted) return;
    const what = shows.querySelector<HTMLInputElement>("input:checked")!.value;
    const regions = model.shapes.length
      ? { case: "regionSet" as const, value: toRegionSet(model.shapes, model.scale) }
      : { case: undefined };
    const raw = { encoding: Encoding.RAW };
    const signal = abort.signal;
    let report: FillReport | undefined;
    let picture: Frame | undefined;
    if (what === "filled") {
      ({ report, picture } = await service.fillHoles({ frame: frame.frame, holes: regions, output: raw }, { signal }));
    } else {
      const residual = what === "residual";
      const b = await service.background(
        {
          frame: frame.frame,
          foreground: regions,
          background: residual ? { omit: true } : raw,
          residual: residual ? raw : { omit: true },
        },
        { signal },
      );
      report = b.report;
      picture = residual ? b.residual : b.background;
    }
    shown = imageOf(picture);
    view.showPixels(shown);
    tell(report?.filledPixels ? "" : t.noHoles);
    performance.mark("filled", { detail: { revision: model.revision, what } });
    const rows: [string, string][] = [
      [t.filled, short(report?.filledPixels)],
      [t.error, report?.errorUnknown ? "–" : short(report?.estimate)],
      [t.cycles, short(report?.cycles)],
      [t.computed, time(milliseconds(report?.compute))],
    ];
    set(
      facts,
      rows.map(([k, v]) => h("div", null, h("dt", null, k), h("dd", null, v))),
    );
  };
  const run = latest(compute, fail);
  const frame = new OpenFrame(
    "fill-frame",
    (f) => stage.show(f),
    () => {
      put(info, `${frame.name}, ${r.frameSize(stage.width, stage.height)}`);
      run();
    },
    fail,
  );

  const tools = new Map<Tool, HTMLButtonElement>();
  for (const tool of ["select", "polygon", "rectangle", "circle"] as Tool[]) {
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
        r.tools[tool],
      ),
    );
  }
  const undo = h("button", { onclick: () => model.undo() }, r.undo);
  const redo = h("button", { onclick: () => model.redo() }, r.redo);
  const remove = h("button", { onclick: () => model.remove() }, r.remove);
  const use = h(
    "select",
    null,
    Object.entries(r.uses).map(([value, label]) => h("option", { value }, label)),
  );
  use.addEventListener("change", () => (stage.use = use.value as Use));
  const file = h("input", {
    type: "file",
    id: "fill-regions",
    class: "unseen",
    tabindex: -1,
    accept: ".json,.geojson,.svg,.png",
    "aria-label": r.import,
  });
  file.addEventListener("change", () => {
    const chosen = file.files?.[0];
    if (!chosen) return;
    void readFile(chosen, frame.name)
      .then(({ shapes, scale, warnings }) => {
        model.replace(shapes, scale);
        if (warnings?.length) tell(r.leftOut(warnings[0]!, warnings.length - 1));
      })
      .catch((err: unknown) => tell(err instanceof Error ? err.message : String(err), true));
    file.value = "";
  });
  model.changed = () => {
    stage.update();
    undo.disabled = !model.canUndo;
    redo.disabled = !model.canRedo;
    remove.disabled = !model.shape;
    run();
  };
  stage.say = (what) => put(status, what);
  stage.toolChanged = () => {
    for (const [tool, b] of tools) b.setAttribute("aria-pressed", String(tool === stage.tool));
  };

  root.append(
    h(
      "div",
      { class: "toolbar", role: "toolbar", "aria-label": r.toolbar },
      frame.button,
      file,
      [...tools.values()],
      field(r.use, use, "inline"),
      undo,
      redo,
      remove,
      h("button", { onclick: () => file.click() }, r.import),
      h(
        "button",
        {
          onclick: () => {
            if (shown) void pngOf(shown).then((b) => download(b, `${frame.stem}.png`));
          },
        },
        t.savePng,
      ),
    ),
    frame.line.element,
    message,
    h(
      "div",
      { class: "both" },
      h(
        "section",
        { class: "card framecard", "aria-label": t.frame },
        h("div", { class: "head" }, info, stage.zoomButtons()),
        stage.element,
        h(
          "details",
          { class: "keys" },
          h("summary", null, r.keysTitle),
          h("p", { id: "stage-keys" }, r.keys),
          h("p", null, r.mouse),
        ),
      ),
      h(
        "section",
        { class: "card framecard", "aria-label": t.result },
        h("div", { class: "head" }, shows, view.zoomButtons()),
        view.element,
        h("p", { class: "help", id: "fill-keys" }, t.pictureKeys),
      ),
    ),
    h("section", { class: "card", "aria-label": t.numbers }, facts, h("p", { class: "help" }, t.fillHelp)),
    status,
  );
  stage.setTool("select");
  model.changed(false);
  return () => {
    abort.abort();
    frame.end();
    stage.end();
    view.end();
  };
};
