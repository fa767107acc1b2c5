// The tab Low-poly: a frame as triangles, with sliders.

import { client, errorText } from "../api";
import { download, field, h, set, text as put } from "../dom";
import { short, time } from "../format";
import { Encoding } from "../gen/polyscan/v1/frame_pb";
import { ConvertStage, LowPolyService } from "../gen/polyscan/v1/lowpoly_pb";
import { latest } from "../latest";
import { imageOf, pngOf } from "../pixels";
import { text } from "../text";
import { View } from "../view";
import { milliseconds } from "../watch";
import { OpenFrame } from "./frame";
import type { Tab } from "./tab";

const t = text.studio;

/** difference is the root of the mean squared difference of two pictures' colours. */
function difference(a: ImageData, b: ImageData): number {
  let sum = 0;
  for (let i = 0; i < a.data.length; i += 4) for (let k = i; k < i + 3; k++) sum += (a.data[k]! - b.data[k]!) ** 2;
  return Math.sqrt(sum / (0.75 * a.data.length));
}

export const lowpoly: Tab = (root) => {
  const view = new View(t.tabs.lowpoly!, t.viewer, "poly-keys");
  const service = client(LowPolyService);
  const abort = new AbortController();
  let shown: ImageData | null = null;
  let original: ImageData | null = null; // as the browser reads the file

  const message = h("p", { class: "message error", role: "alert", hidden: true });
  const info = h("p", { class: "help" }, t.noFrame);
  const facts = h("dl", { class: "numbers" });
  const fail = (err: unknown): void => {
    if (abort.signal.aborted) return;
    message.hidden = false;
    put(message, errorText(err));
  };

  const sliders: HTMLElement[] = [];
  /** slider is labelled, and says its value: 0 is automatic, and where it goes below that none. */
  const slider = (
    id: string,
    label: string,
    min: number,
    max: number,
    value: number,
    of: (v: number) => number = (v) => v,
  ): (() => number) => {
    const input = h("input", { type: "range", id, min, max, value, step: 1 });
    const out = h("output", { for: id });
    const say = (): void => {
      const v = of(Number(input.value));
      const words = v > 0 ? v.toLocaleString("en") : v < 0 ? t.none : id === "seed" ? "0" : t.automatic;
      put(out, words);
      input.setAttribute("aria-valuetext", words);
    };
    input.addEventListener("input", () => {
      say();
      run();
    });
    say();
    sliders.push(h("div", { class: "slider" }, h("label", { for: id }, label), out, input));
    return () => of(Number(input.value));
  };
  const choice = (label: string, names: string[], first: number): [HTMLElement, () => number] => {
    const input = h(
      "select",
      null,
      names.map((name, i) => h("option", { value: i + first }, name)),
    );
    input.addEventListener("change", () => run());
    return [field(label, input), () => Number(input.value)];
  };
  // Each step of the slider is some 4 % more vertices.
  const vertices = slider("vertices", t.vertices, 0, 230, 162, (v) => Math.max(4, Math.round(4 * Math.exp(v / 25))));
  const seed = slider("seed", t.seed, 0, 100, 0);
  const floor = slider("floor", t.floor, 0, 16, 0, (v) => (v ? 2 ** (v - 1) : 0));
  const spacing = slider("spacing", t.spacing, -1, 64, 0);
  const cell = slider("cell", t.cell, -1, 512, 0);
  const border = slider("border", t.border, 0, 512, 0);
  const stages = t.stages.map((name, i) =>
    h(
      "label",
      { class: "check" },
      h("input", { type: "radio", name: "stage", value: i + 1, checked: i === 0 }),
      h("span", null, name),
    ),
  );
  const stage = h("fieldset", { onchange: () => run() }, h("legend", null, t.stageOf), stages);
  const [shadingField, shading] = choice(t.shading, t.shadings, 1);
  const [voronoiField, voronoi] = choice(t.voronoi, t.voronois, 0);
  const [routeField, route] = choice(t.route, t.routes, 1);

  const options = () => ({
    vertices: vertices(),
    seed: BigInt(seed()),
    floor: floor(),
    spacing: spacing(),
    cell: cell(),
    border: border(),
    color: shading(),
    voronoi: voronoi(),
    route: route(),
    stage: Number(stage.querySelector<HTMLInputElement>("input:checked")!.value) as ConvertStage,
  });

  const convert = async (): Promise<void> => {
    if (!frame.resident || abort.signal.aborted) return;
    const asked = options();
    const begun = performance.now();
    const r = await service.convert(
      { frame: frame.frame, options: asked, encoding: Encoding.RAW },
      { signal: abort.signal },
    );
    const took = performance.now() - begun;
    shown = imageOf(r.picture);
    view.showPixels(shown);
    message.hidden = true;
    performance.mark("lowpoly", { detail: { vertices: Number(r.vertices) } });
    const comparable =
      asked.stage === ConvertStage.SHADED && original?.width === shown.width && original.height === shown.height;
    const rows: [string, string][] = [
      [t.vertices, short(r.vertices)],
      [t.triangles, short(r.triangles)],
      [t.difference, comparable ? short(difference(original!, shown)) : "–"],
      [t.computed, time(milliseconds(r.compute))],
      [t.whole, time(took)],
    ];
    set(
      facts,
      rows.map(([k, v]) => h("div", null, h("dt", null, k), h("dd", null, v))),
    );
  };
  const run = latest(convert, fail);
  const frame = new OpenFrame(
    "lowpoly-frame",
    async (f) => {
      await view.show(f);
      // What is larger takes too long to compare.
      if (view.width * view.height > 16e6) original = null;
      else {
        const image = await createImageBitmap(f, { colorSpaceConversion: "none" });
        const c = new OffscreenCanvas(image.width, image.height).getContext("2d", { willReadFrequently: true })!;
        c.drawImage(image, 0, 0);
        image.close();
        original = c.getImageData(0, 0, c.canvas.width, c.canvas.height);
      }
    },
    () => {
      put(info, `${frame.name}, ${text.recipe.frameSize(view.width, view.height)}`);
      run();
    },
    fail,
  );

  const saveSvg = async (): Promise<void> => {
    const r = await service.convert(
      { frame: frame.frame, options: options(), svg: true, noPicture: true },
      { signal: abort.signal },
    );
    download(new Blob([r.svg as Uint8Array<ArrayBuffer>], { type: "image/svg+xml" }), `${frame.stem}.svg`);
  };

  root.append(
    h(
      "div",
      { class: "toolbar", role: "toolbar", "aria-label": text.recipe.toolbar },
      frame.button,
      h(
        "button",
        {
          onclick: () => {
            if (shown) void pngOf(shown).then((b) => download(b, `${frame.stem}.png`));
          },
        },
        t.savePng,
      ),
      h(
        "button",
        {
          onclick: () => {
            if (frame.resident) void saveSvg().catch(fail);
          },
        },
        t.saveSvg,
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
          { class: "card framecard", "aria-label": t.result },
          h("div", { class: "head" }, info, view.zoomButtons()),
          frame.line.element,
          message,
          view.element,
          h("p", { class: "help", id: "poly-keys" }, t.pictureKeys),
        ),
        h("section", { class: "card", "aria-label": t.numbers }, facts),
      ),
      h(
        "div",
        { class: "right" },
        h(
          "section",
          { class: "card", "aria-label": t.tabs.lowpoly },
          stage,
          sliders,
          shadingField,
          voronoiField,
          routeField,
        ),
      ),
    ),
  );
  return () => {
    abort.abort();
    frame.end();
    view.end();
  };
};
