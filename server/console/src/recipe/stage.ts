// The stage: the frame with its regions over it, drawn and edited by mouse, pen, finger and keyboard.

import { h } from "../dom";
import { text } from "../text";
import { near, View } from "../view";
import { boxOf, circle, coarse, grid, inShape, rectangle, type Model, type Vertex } from "./model";

export type Tool = "select" | "polygon" | "rectangle" | "circle";
export type Use = "new" | "hole" | "cut" | "join";

const t = text.recipe;

/** Stage is the picture and what is drawn on it. */
export class Stage extends View {
  tool: Tool = "select";
  use: Use = "new";
  /** Verdicts of regions by index, for their colours. */
  marks: string[] = [];
  /** Outlines of the blobs of the chosen region, each of rings. */
  found: number[][][] = [];
  /** Called with what a screen reader should say. */
  say: (what: string) => void = () => {};
  toolChanged: () => void = () => {};
  private draft: number[] = []; // the polygon that is drawn; with the place of the pointer behind
  private pointer: [number, number] = [0, 0];
  private begun: [number, number] | null = null; // where a rectangle or circle begins that is drawn by keys
  private drag: { kind: "pan" | "move" | "rectangle" | "circle"; x: number; y: number; id: number } | null = null;

  constructor(private readonly model: Model) {
    super(t.stage, t.editor, "stage-keys");
    this.overlay.addEventListener("dblclick", () => this.close());
  }

  /** show sets the frame. */
  override async show(file: Blob, scale = 1): Promise<void> {
    await super.show(file, scale);
    this.pointer = [coarse(this.width / 2), coarse(this.height / 2)];
  }

  setTool(tool: Tool): void {
    this.tool = tool;
    this.draft = [];
    this.begun = null;
    this.overlay.dataset.tool = tool;
    this.toolChanged();
    this.render();
  }

  protected override drawn(size: number): Element[] {
    const children: Element[] = [];
    this.model.shapes.forEach((_, i) => {
      if (i !== this.model.chosen) children.push(...this.shape(i));
    });
    const s = this.model.shape;
    if (s) {
      children.push(...this.shape(this.model.chosen));
      if (this.found.length) {
        const d = this.found.map((rings) => path(rings, true)).join("");
        children.push(h("path", { class: "shadow", d }), h("path", { class: "blobs", d, "fill-rule": "evenodd" }));
      }
      const crowded = s.rings.reduce((n, r) => n + r.length / 2, 0) > 400;
      s.rings.forEach((xy, ring) => {
        for (let i = 0; i < xy.length / 2; i++) {
          const on = this.model.vertex?.ring === ring && this.model.vertex.i === i;
          if (crowded && !on) continue;
          children.push(h("circle", { class: on ? "vertex on" : "vertex", cx: xy[2 * i], cy: xy[2 * i + 1], r: (on ? 8 : 5) * size }));
        }
      });
    }
    if (this.draft.length) {
      children.push(h("path", { class: "draft", d: path([this.draft], this.tool !== "polygon") }));
      for (let i = 0; i + 1 < this.draft.length - 2; i += 2) children.push(h("circle", { class: "vertex", cx: this.draft[i], cy: this.draft[i + 1], r: 5 * size }));
    }
    if (this.tool !== "select") {
      const [x, y] = this.pointer;
      children.push(h("path", { class: "cross", d: `M${x - 14 * size} ${y}h${28 * size}M${x} ${y - 14 * size}v${28 * size}` }));
    }
    return children;
  }

  private shape(i: number): Element[] {
    const s = this.model.shapes[i]!;
    if (s.made) return []; // the server knows its pixels
    const d = s.mask ? border(s.mask) : path(s.rings, true);
    const mark = this.marks[i] ?? "none";
    const on = i === this.model.chosen ? " on" : "";
    const look = `outline ${mark}${on}`;
    const out = s.mask ? [h("path", { class: "shadow", d }), h("path", { class: look, d: squares(s.mask), style: "stroke: none", "data-name": s.name }), h("path", { class: look, d, style: "fill: none" })]
      : [h("path", { class: "shadow", d }), h("path", { class: look, d, "fill-rule": s.evenOdd ? "evenodd" : "nonzero", "data-name": s.name })];
    if (mark === "fail") {
      // A cross besides the colour, at the upper right.
      const b = boxOf(s);
      const r = 6 / this.scale;
      out.push(h("path", { class: "failcross", d: `M${b.right - r} ${b.top - r}l${2 * r} ${2 * r}m0 ${-2 * r}l${-2 * r} ${2 * r}` }));
    }
    return out;
  }

  /** vertexAt is the nearest vertex of the chosen region, if one is near. */
  private vertexAt(x: number, y: number): Vertex | null {
    let best: Vertex | null = null;
    let least = near / this.scale;
    this.model.shape?.rings.forEach((xy, ring) => {
      for (let i = 0; i < xy.length / 2; i++) {
        const d = Math.hypot(xy[2 * i]! - x, xy[2 * i + 1]! - y);
        if (d < least) {
          least = d;
          best = { ring, i };
        }
      }
    });
    return best;
  }

  /** edgeAt is the vertex before the edge of the chosen region that is near. */
  private edgeAt(x: number, y: number): Vertex | null {
    let best: Vertex | null = null;
    let least = (near / 2) / this.scale;
    this.model.shape?.rings.forEach((xy, ring) => {
      for (let i = 0; i < xy.length / 2; i++) {
        const j = (2 * i + 2) % xy.length;
        const [ax, ay, bx, by] = [xy[2 * i]!, xy[2 * i + 1]!, xy[j]!, xy[j + 1]!];
        const along = Math.min(1, Math.max(0, ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / ((bx - ax) ** 2 + (by - ay) ** 2 || 1)));
        const d = Math.hypot(ax + along * (bx - ax) - x, ay + along * (by - ay) - y);
        if (d < least) {
          least = d;
          best = { ring, i };
        }
      }
    });
    return best;
  }

  /** shapeAt is the region at a place: the chosen one before others, small ones before large ones. */
  private shapeAt(x: number, y: number): number {
    const shape = this.model.shape;
    if (shape && inShape(shape, x, y)) return this.model.chosen;
    let best = -1;
    let least = Infinity;
    this.model.shapes.forEach((s, i) => {
      const b = boxOf(s);
      const size = (b.right - b.left) * (b.bottom - b.top);
      if (size < least && inShape(s, x, y)) {
        least = size;
        best = i;
      }
    });
    return best;
  }

  protected override down(e: PointerEvent): void {
    if (!this.width) return;
    this.overlay.focus({ preventScroll: true });
    const [x, y] = this.place(e);
    const px = coarse(x);
    const py = coarse(y);
    this.pointer = [px, py];
    if (e.button === 1 || e.button === 2) {
      this.hold(e, "pan", x, y);
    } else if (this.tool === "polygon") {
      const n = this.draft.length;
      if (n >= 8 && Math.hypot(this.draft[0]! - x, this.draft[1]! - y) < near / this.scale) this.close();
      else this.addPoint(px, py);
    } else if (this.tool !== "select") {
      this.hold(e, this.tool, px, py);
    } else {
      this.pick(e, x, y);
    }
    this.render();
  }

  private pick(e: PointerEvent, x: number, y: number): void {
    const v = this.vertexAt(x, y);
    const edge = v ? null : this.edgeAt(x, y);
    if (v) {
      this.model.choose(this.model.chosen, v);
    } else if (edge && e.altKey) {
      this.model.begin();
      this.model.insert(edge);
    } else {
      const i = this.shapeAt(x, y);
      this.model.choose(i);
      if (i < 0) {
        this.hold(e, "pan", x, y);
        return;
      }
    }
    this.model.begin();
    this.hold(e, "move", x, y);
  }

  private hold(e: PointerEvent, kind: NonNullable<Stage["drag"]>["kind"], x: number, y: number): void {
    this.overlay.setPointerCapture(e.pointerId);
    this.drag = { kind, x, y, id: e.pointerId };
  }

  protected override moved(e: PointerEvent): void {
    const [x, y] = this.place(e);
    const d = this.drag;
    if (d && d.id !== e.pointerId) return;
    if (d?.kind === "pan") {
      this.pan(d.x - x, d.y - y);
    } else if (d?.kind === "move") {
      const [dx, dy] = [coarse(x - d.x), coarse(y - d.y)];
      if (dx || dy) {
        this.model.move(() => this.model.shift(dx, dy));
        d.x += dx;
        d.y += dy;
      }
    } else {
      this.pointer = [coarse(x), coarse(y)];
      if (d) this.draft = this.ring(d.kind as Tool, d.x, d.y);
      else if (this.tool === "polygon" && this.draft.length) this.draft.splice(-2, 2, ...this.pointer);
      else if (this.tool === "select") return;
    }
    this.render();
  }

  private ring(tool: Tool, x: number, y: number): number[] {
    const [px, py] = this.pointer;
    return tool === "circle" ? circle(x, y, Math.hypot(px - x, py - y)) : rectangle(x, y, px, py);
  }

  protected override up(e: PointerEvent): void {
    const d = this.drag;
    if (!d || d.id !== e.pointerId) return;
    this.drag = null;
    if (d.kind === "move") {
      this.model.commit();
    } else if (d.kind !== "pan") {
      const far = Math.hypot(this.pointer[0] - d.x, this.pointer[1] - d.y) >= 1;
      const ring = this.ring(d.kind, d.x, d.y);
      this.draft = [];
      if (far) this.finish(ring);
    }
    this.render();
  }

  protected override letGo(): void {
    if (this.drag?.kind === "move") this.model.commit();
    else if (this.drag) this.draft = [];
    else if (this.tool === "polygon") this.draft.splice(-4, this.draft.length > 4 ? 2 : 4); // the point that the finger placed
    this.drag = null;
    this.render();
  }

  private addPoint(x: number, y: number): void {
    if (this.draft.length) this.draft.splice(-2, 2, x, y, x, y);
    else this.draft = [x, y, x, y];
    this.say(t.placed(this.draft.length / 2 - 1, x, y));
    this.render();
  }

  /** close ends a polygon; a corner that was clicked twice is one. */
  private close(): void {
    if (this.tool !== "polygon") return;
    const xy: number[] = [];
    for (let i = 0; i < this.draft.length - 2; i += 2) {
      if (i === 0 || this.draft[i] !== xy.at(-2) || this.draft[i + 1] !== xy.at(-1)) xy.push(this.draft[i]!, this.draft[i + 1]!);
    }
    this.draft = [];
    if (xy.length >= 6) this.finish(xy);
    else this.say(t.tooFew);
    this.render();
  }

  private finish(xy: number[]): void {
    if (this.use === "hole") {
      if (!this.model.shape) this.say(t.chooseFirst);
      else if (!this.model.cut(xy)) this.say(t.holeOutside);
      else this.say(t.cut(this.model.shape.name));
    } else if (this.use === "cut") {
      if (!this.model.shape) this.say(t.chooseFirst);
      else this.say(this.model.cutOut(xy) ? t.cutOut(this.model.shape.name) : t.cutNothing);
    } else if (this.use === "join") {
      this.model.join(xy);
    } else {
      this.model.add(xy);
      this.say(t.added(this.model.shape!.name));
    }
    this.setTool("select");
  }

  protected override key(e: KeyboardEvent): void {
    if (!this.width) return;
    const step = e.shiftKey ? 10 : e.altKey ? 1 / 8 : 1;
    const arrows: Record<string, [number, number]> = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
    const arrow = arrows[e.key];
    const command = e.ctrlKey || e.metaKey;
    if (arrow) {
      this.arrow(arrow[0], arrow[1]);
    } else if (command && e.key.toLowerCase() === "z") {
      if (e.shiftKey) this.model.redo();
      else this.model.undo();
    } else if (command && e.key.toLowerCase() === "y") {
      this.model.redo();
    } else if (command && e.key.toLowerCase() === "d") {
      this.model.copies([[10, 10]]);
    } else if (command || e.key === "Tab") {
      return;
    } else if (e.key === "Enter" || e.key === " ") {
      this.enter(e.key === "Enter");
    } else if (e.key === "Escape") {
      this.draft = [];
      this.begun = null;
      if (this.tool !== "select") this.setTool("select");
      else this.model.choose(this.model.vertex ? this.model.chosen : -1);
    } else if (e.key === "Delete" || e.key === "Backspace") {
      this.model.remove();
    } else if (e.key === "Insert" || e.key.toLowerCase() === "i") {
      const v = this.model.vertex;
      if (v) this.model.edit(() => this.model.insert(v));
    } else if (e.key === "." || e.key === ",") {
      this.model.stepVertex(e.key === "." ? 1 : -1);
      this.sayVertex();
    } else if (e.key === "]" || e.key === "[") {
      this.model.stepShape(e.key === "]" ? 1 : -1);
      if (this.model.shape) this.say(this.model.shape.name);
    } else if (!this.zoomKey(e.key)) {
      const tool = ({ p: "polygon", r: "rectangle", c: "circle", v: "select" } as Record<string, Tool>)[e.key.toLowerCase()];
      if (!tool) return;
      this.setTool(tool);
      this.say(t.tools[tool]);
    }
    e.preventDefault();
    e.stopPropagation();
  }

  private arrow(dx: number, dy: number): void {
    if (this.tool === "select") {
      this.model.edit(() => this.model.shift(dx, dy));
      this.sayVertex();
      return;
    }
    this.pointer = [grid(Math.min(this.width, Math.max(0, this.pointer[0] + dx))), grid(Math.min(this.height, Math.max(0, this.pointer[1] + dy)))];
    if (this.tool === "polygon" && this.draft.length) this.draft.splice(-2, 2, ...this.pointer);
    else if (this.begun) this.draft = this.ring(this.tool, ...this.begun);
    this.say(`${this.pointer[0]}, ${this.pointer[1]}`);
    this.render();
  }

  /** enter places what is drawn by keys; finish says that Enter closes a polygon whose point is there already. */
  private enter(finish: boolean): void {
    const [x, y] = this.pointer;
    if (this.tool === "polygon") {
      const n = this.draft.length;
      if (finish && n >= 4 && this.draft[n - 4] === x && this.draft[n - 3] === y) this.close();
      else this.addPoint(x, y);
    } else if (this.tool !== "select") {
      if (this.begun) {
        const ring = this.ring(this.tool, ...this.begun);
        this.begun = null;
        this.draft = [];
        this.finish(ring);
      } else {
        this.begun = [x, y];
        this.say(t.placed(1, x, y));
      }
      this.render();
    }
  }

  private sayVertex(): void {
    const s = this.model.shape;
    const v = this.model.vertex;
    if (!s) return;
    if (v) this.say(t.vertex(v.i + 1, s.rings[v.ring]![2 * v.i]!, s.rings[v.ring]![2 * v.i + 1]!));
    else this.say(t.at(s.name, boxOf(s).left, boxOf(s).top));
  }
}

/** squares are the pixels of a mask. */
export function squares(mask: number[]): string {
  let d = "";
  for (let i = 0; i < mask.length; i += 3) d += `M${mask[i + 1]} ${mask[i]}H${mask[i + 2]}v1H${mask[i + 1]}Z`;
  return d;
}

/** border is the lines around the pixels of a mask. */
function border(mask: number[]): string {
  const rows = new Map<number, number[]>(); // the ends of runs
  let d = "";
  for (let i = 0; i < mask.length; i += 3) {
    const [y, x0, x1] = [mask[i]!, mask[i + 1]!, mask[i + 2]!];
    d += `M${x0} ${y}v1M${x1} ${y}v1`;
    rows.set(y, [...(rows.get(y) ?? []), x0, x1]);
  }
  for (const [y, ends] of rows) {
    // Between two rows, what only one of them has: each end turns that on or off.
    const sides = rows.has(y + 1) ? [[y + 1, rows.get(y + 1)!]] as const : [[y + 1, []]] as const;
    for (const [at, other] of rows.has(y - 1) ? sides : [...sides, [y, []] as const]) {
      const turns = [...ends, ...other].sort((a, b) => a - b);
      for (let i = 0; i < turns.length; i += 2) if (turns[i] !== turns[i + 1]) d += `M${turns[i]} ${at}H${turns[i + 1]}`;
    }
  }
  return d;
}

function path(rings: number[][], closed: boolean): string {
  return rings.map((xy) => {
    let d = "";
    for (let i = 0; i + 1 < xy.length; i += 2) d += `${i ? "L" : "M"}${xy[i]} ${xy[i + 1]}`;
    return closed ? d + "Z" : d;
  }).join("");
}
