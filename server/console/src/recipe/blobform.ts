// The form in which blobs are described.

import { field, h, set, text as put } from "../dom";
import { BlobThreshold, MorphKind } from "../gen/polyscan/v1/region_pb";
import { text } from "../text";
import { blobsText, channels, morphs, noBlobs, type Blobs, type Step } from "./blobs";

const t = text.recipe.blobs;
const mostSteps = 8; // opening and closing count as two

/** BlobForm shows what blobs are, and says what they shall be. */
export class BlobForm {
  /** Called with what the user made of it; undefined finds no blobs. */
  changed: (b: Blobs | undefined) => void = () => {};
  private blobs = noBlobs();
  private readonly number = (min?: number): HTMLInputElement => this.input(h("input", { type: "number", step: "any", min }));
  private readonly unit = this.input(h("select", null, t.units.map((label, i) => h("option", { value: [BlobThreshold.VALUES, BlobThreshold.PERCENTILES, BlobThreshold.DEVIATIONS][i] }, label))));
  private readonly ends = { lower: this.number(), upper: this.number(), strongLower: this.number(), strongUpper: this.number() };
  private readonly channel = this.input(h("select", null, h("option", { value: 0 }, t.oneChannel), channels.slice(1).map(([name, value]) => h("option", { value }, name))));
  private readonly minArea = this.number(0);
  private readonly sides = this.input(h("input", { type: "checkbox" }));
  private readonly steps = h("div", { class: "steps" });
  private readonly said = h("span", { class: "help" });
  private readonly add = h("button", { onclick: () => this.edit((b) => b.steps.push({ kind: MorphKind.OPEN, width: 0, height: 0, radius: 1 })) }, t.addStep);
  private readonly rest = h("div", { class: "blobrest" },
    h("div", { class: "fields" }, field(t.strongLow, this.ends.strongLower), field(t.strongHigh, this.ends.strongUpper)),
    h("div", { class: "fields" }, field(t.channel, this.channel), field(t.minArea, this.minArea)),
    h("label", { class: "check" }, this.sides, h("span", null, t.sides)),
    h("h3", null, t.steps), this.steps, h("div", { class: "add" }, this.add));
  readonly element = h("section", { class: "card blobform", "aria-label": t.title },
    h("details", null, h("summary", null, h("b", null, t.title), " ", this.said),
      h("p", { class: "help" }, t.help),
      h("div", { class: "fields" }, field(t.low, this.ends.lower), field(t.high, this.ends.upper), field(t.unit, this.unit)),
      this.rest));

  private input<T extends HTMLInputElement | HTMLSelectElement>(e: T): T {
    e.addEventListener("change", () => this.edit(() => this.read()));
    return e;
  }

  private edit(f: (b: Blobs) => void): void {
    f(this.blobs);
    const { lower, upper } = this.blobs;
    this.changed(lower === undefined && upper === undefined ? undefined : this.blobs);
  }

  private read(): void {
    const b = this.blobs;
    for (const [name, input] of Object.entries(this.ends)) b[name as keyof typeof this.ends] = input.value === "" ? undefined : Number(input.value);
    b.threshold = Number(this.unit.value);
    b.channel = Number(this.channel.value);
    b.minArea = Math.max(0, Math.round(Number(this.minArea.value)));
    b.fourConnected = this.sides.checked;
  }

  show(b: Blobs | undefined): void {
    this.blobs = b ? structuredClone(b) : noBlobs();
    const { threshold, channel, minArea, fourConnected, steps } = this.blobs;
    for (const [name, input] of Object.entries(this.ends)) {
      const v = this.blobs[name as keyof typeof this.ends];
      if (document.activeElement !== input || !b) input.value = v === undefined ? "" : String(v);
    }
    this.unit.value = String(threshold || BlobThreshold.VALUES);
    this.channel.value = String(channel > 1 ? channel : 0);
    this.minArea.value = minArea ? String(minArea) : "";
    this.sides.checked = fourConnected;
    this.rest.hidden = !b;
    put(this.said, b ? blobsText(b) : t.none);
    const took = steps.reduce((n, s) => n + (s.kind > MorphKind.DILATE ? 2 : 1), 0);
    this.add.disabled = took + 2 > mostSteps;
    if (!this.steps.contains(document.activeElement) || this.steps.children.length !== steps.length) set(this.steps, steps.map((s, i) => this.step(s, i)));
  }

  private step(s: Step, i: number): HTMLElement {
    const kind = h("select", { "aria-label": t.step(i + 1) }, morphs.map(([name, value]) => h("option", { value, selected: value === s.kind }, name)));
    const brush = h("select", { "aria-label": t.brush(i + 1) }, t.brushes.map((name, k) => h("option", { value: k, selected: k === (s.radius ? 0 : 1) }, name)));
    const size = (label: string, v: number, most: number): HTMLInputElement => h("input", { type: "number", min: 1, max: most, step: s.radius ? 1 : 2, value: v, "aria-label": label });
    const a = size(s.radius ? t.radius : t.width, s.radius || s.width, s.radius ? 31 : 63);
    const b = size(t.height, s.height, 63);
    const change = (): void => {
      const disc = Number(brush.value) === 0;
      const was = s.radius > 0;
      const [w, c] = [Number(a.value), Number(b.value)];
      const side = disc !== was ? (was ? 2 * w + 1 : Math.max(1, w >> 1)) : w;
      this.edit((all) => (all.steps[i] = { kind: Number(kind.value), radius: disc ? side : 0, width: disc ? 0 : side, height: disc ? 0 : was ? side : c }));
    };
    for (const e of [kind, brush, a, b]) e.addEventListener("change", change);
    brush.addEventListener("change", () => {
      brush.blur(); // so that the sizes that go with it come
      this.show(this.blobs);
    });
    return h("div", { class: "add" }, kind, brush, a, !s.radius && b,
      h("button", { class: "icon", "aria-label": t.removeStep(i + 1), title: t.removeStep(i + 1), onclick: () => this.edit((all) => all.steps.splice(i, 1)) }, "×"));
  }
}
