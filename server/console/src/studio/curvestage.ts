// The canvas with the curves over it, drawn and edited by mouse, pen, finger and keyboard.

import { h } from "../dom";
import { coarse } from "../recipe/model";
import { text } from "../text";
import { near, View } from "../view";
import { at, hex, nearest, segments, sides, thin, through, type Curve, type Drawing, type Part } from "./drawing";

export type Tool = "select" | "draw";

const t = text.studio;
const beside = 14; // CSS pixels from the curve to the stops of its sides

/** CurveStage draws the curves, and changes them. */
export class CurveStage extends View {
  tool: Tool = "select";
  /** Called with what a screen reader should say. */
  say: (what: string) => void = () => {};
  toolChanged: () => void = () => {};
  /** Called with the points that a new curve goes through. */
  made: (points: number[]) => void = () => {};
  private draft: number[] = []; // points that were placed
  private stroke: number[] = []; // what the mouse or the pen draws now
  private pointer: [number, number] = [0, 0];
  private drag: { kind: "pan" | "move" | "slide" | "stroke"; x: number; y: number; id: number } | null = null;

  constructor(private readonly drawing: Drawing) {
    super(t.stage, t.editor, "curve-keys");
    this.overlay.addEventListener("dblclick", () => this.finish());
  }

  setTool(tool: Tool): void {
    this.tool = tool;
    this.draft = [];
    this.overlay.dataset.tool = tool;
    this.pointer = [coarse(this.width / 2), coarse(this.height / 2)];
    this.toolChanged();
    this.render();
  }

  protected override drawn(size: number): Element[] {
    const { curves, chosen, curve } = this.drawing;
    // All that aren't chosen are one element: files may have thousands.
    const others = curves.filter((_, i) => i !== chosen);
    const paths = (barrier: boolean): string =>
      others
        .filter((c) => c.barrier === barrier)
        .map(path)
        .join("");
    const out = [h("rect", { class: "canvasedge", x: 0, y: 0, width: this.width, height: this.height })];
    for (const [d, kind] of [
      [paths(false), ""],
      [paths(true), " barrier"],
    ] as const) {
      if (d) out.push(h("path", { class: "curveshadow", d }), h("path", { class: `curveline${kind}`, d }));
    }
    if (curve) out.push(...this.chosenOne(curve, size));
    const line = this.stroke.length > 2 ? this.stroke : this.draft;
    if (line.length) {
      const live = this.stroke.length > 2 ? line : through([...line, ...this.pointer]);
      out.push(h("path", { class: "draft open", d: this.stroke.length > 2 ? polyline(live) : path({ points: live }) }));
      for (let i = 0; i < this.draft.length; i += 2)
        out.push(h("circle", { class: "vertex", cx: this.draft[i], cy: this.draft[i + 1], r: 5 * size }));
    }
    if (this.tool === "draw") {
      const [x, y] = this.pointer;
      out.push(
        h("path", { class: "cross", d: `M${x - 14 * size} ${y}h${28 * size}M${x} ${y - 14 * size}v${28 * size}` }),
      );
    }
    return out;
  }

  private chosenOne(c: Curve, size: number): Element[] {
    const d = path(c);
    const out = [
      h("path", { class: "curveshadow", d }),
      h("path", { class: `curveline on${c.barrier ? " barrier" : ""}`, d }),
    ];
    const p = c.points;
    const n = p.length / 2;
    const on = (kind: Part["kind"], i: number): boolean =>
      this.drawing.part?.kind === kind && this.drawing.part.i === i;
    if (n <= 400) {
      let arms = "";
      for (let i = 0; i < n; i += 3)
        for (const k of [i - 1, i + 1])
          if (k > 0 && k < n) arms += `M${p[2 * i]} ${p[2 * i + 1]}L${p[2 * k]} ${p[2 * k + 1]}`;
      out.push(h("path", { class: "arm", d: arms }));
      for (let i = 0; i < n; i++) {
        const r = (on("point", i) ? 8 : 5.5) * size;
        const type = on("point", i) ? "vertex on" : i % 3 ? "vertex handle" : "vertex";
        out.push(
          i % 3
            ? h("circle", { class: type, cx: p[2 * i], cy: p[2 * i + 1], r })
            : h("rect", { class: type, x: p[2 * i]! - r, y: p[2 * i + 1]! - r, width: 2 * r, height: 2 * r }),
        );
      }
    }
    for (const kind of sides) {
      c[kind].forEach((s, i) => {
        const { x, y } = this.stopAt(c, kind, i);
        const { x: ax, y: ay } = at(c, s[0]);
        if (kind === "blur") out.push(h("path", { class: "arm", d: `M${ax} ${ay}L${x} ${y}` }));
        const dot = h("circle", {
          class: `stop ${kind}${on(kind, i) ? " on" : ""}`,
          cx: x,
          cy: y,
          r: (on(kind, i) ? 9 : 7) * size,
        });
        // The page's policy allows no style in the markup; this way it does.
        if (kind !== "blur") (dot as SVGElement).style.fill = hex(s);
        out.push(dot);
      });
    }
    return out;
  }

  /** stopAt is where a stop is shown: beside the curve, and blurs behind the stops of the right side. */
  private stopAt(c: Curve, kind: "left" | "right" | "blur", i: number): { x: number; y: number } {
    const p = at(c, c[kind][i]![0]);
    const off = (kind === "left" ? beside : kind === "right" ? -beside : -2.5 * beside) / this.scale;
    return { x: p.x + p.dy * off, y: p.y - p.dx * off };
  }

  /** partAt is the stop or point of the chosen curve that is near; points before stops on them. */
  private partAt(x: number, y: number): Part | null {
    const c = this.drawing.curve;
    if (!c) return null;
    let best: Part | null = null;
    let least = near / this.scale;
    const look = (part: Part, px: number, py: number): void => {
      const d = Math.hypot(px - x, py - y);
      if (d < least) [best, least] = [part, d];
    };
    for (let i = 0; i < c.points.length / 2; i++) look({ kind: "point", i }, c.points[2 * i]!, c.points[2 * i + 1]!);
    for (const kind of sides) {
      c[kind].forEach((_, i) => {
        const p = this.stopAt(c, kind, i);
        look({ kind, i }, p.x, p.y);
      });
    }
    return best;
  }

  /** curveAt is the nearest curve that is near, the chosen one before others; -1 without one. */
  private curveAt(x: number, y: number): number {
    const { curves, chosen, curve } = this.drawing;
    const room = near / this.scale;
    if (curve && nearest(curve, x, y).distance < room) return chosen;
    let best = -1;
    let least = room;
    curves.forEach((c, i) => {
      // A curve lies between its control points.
      let [l, r, u, d] = [Infinity, -Infinity, Infinity, -Infinity];
      for (let k = 0; k < c.points.length; k += 2) {
        [l, r] = [Math.min(l, c.points[k]!), Math.max(r, c.points[k]!)];
        [u, d] = [Math.min(u, c.points[k + 1]!), Math.max(d, c.points[k + 1]!)];
      }
      if (x < l - room || x > r + room || y < u - room || y > d + room) return;
      const { distance } = nearest(c, x, y);
      if (distance < least) [best, least] = [i, distance];
    });
    return best;
  }

  private hold(e: PointerEvent, kind: NonNullable<CurveStage["drag"]>["kind"], x: number, y: number): void {
    this.overlay.setPointerCapture(e.pointerId);
    this.drag = { kind, x, y, id: e.pointerId };
  }

  protected override down(e: PointerEvent): void {
    this.overlay.focus({ preventScroll: true });
    const [x, y] = this.place(e);
    this.pointer = [coarse(x), coarse(y)];
    if (e.button === 1 || e.button === 2) this.hold(e, "pan", x, y);
    else if (this.tool === "draw") {
      this.stroke = [...this.pointer];
      this.hold(e, "stroke", x, y);
    } else this.pick(e, x, y);
    this.render();
  }

  private pick(e: PointerEvent, x: number, y: number): void {
    const d = this.drawing;
    const part = this.partAt(x, y);
    if (part) {
      d.choose(d.chosen, part);
    } else {
      const i = this.curveAt(x, y);
      d.choose(i);
      if (i >= 0 && e.altKey) d.split(nearest(d.curve!, x, y).at);
      if (i < 0) {
        this.hold(e, "pan", x, y);
        return;
      }
    }
    d.begin();
    this.hold(e, part && part.kind !== "point" ? "slide" : "move", x, y);
  }

  protected override moved(e: PointerEvent): void {
    const [x, y] = this.place(e);
    const d = this.drag;
    if (d && d.id !== e.pointerId) return;
    if (d?.kind === "pan") this.pan(d.x - x, d.y - y);
    else if (d?.kind === "slide") this.drawing.move(() => this.drawing.slide(nearest(this.drawing.curve!, x, y).at));
    else if (d?.kind === "move") {
      const [dx, dy] = [coarse(x - d.x), coarse(y - d.y)];
      if (!dx && !dy) return;
      this.drawing.move(() => this.drawing.shift(dx, dy));
      d.x += dx;
      d.y += dy;
    } else {
      this.pointer = [coarse(x), coarse(y)];
      if (d) this.stroke.push(...this.pointer);
      else if (this.tool === "select") return;
    }
    this.render();
  }

  protected override up(e: PointerEvent): void {
    const d = this.drag;
    if (!d || d.id !== e.pointerId) return;
    this.drag = null;
    if (d.kind === "move" || d.kind === "slide") this.drawing.commit();
    else if (d.kind === "stroke") {
      const line = thin(this.stroke, 2 / this.scale);
      const [x, y] = this.stroke as [number, number];
      this.stroke = [];
      const far = Math.hypot(this.pointer[0] - x, this.pointer[1] - y) > near / this.scale;
      if ((far || line.length > 4) && !this.draft.length) this.finish(line);
      else this.addPoint(x, y);
    }
    this.render();
  }

  protected override letGo(): void {
    if (this.drag?.kind === "move" || this.drag?.kind === "slide") this.drawing.commit();
    this.stroke = [];
    this.drag = null;
    this.render();
  }

  private addPoint(x: number, y: number): void {
    if (this.draft.at(-2) === x && this.draft.at(-1) === y) return;
    this.draft.push(x, y);
    this.say(text.recipe.placed(this.draft.length / 2, x, y));
    this.render();
  }

  /** finish makes a curve of the points that were placed. */
  private finish(xy = this.draft): void {
    this.draft = [];
    if (this.tool !== "draw" || !xy.length) return;
    if (xy.length < 4) {
      this.say(t.tooFew);
      return;
    }
    this.made(through(xy));
    this.setTool("select");
  }

  protected override key(e: KeyboardEvent): void {
    const d = this.drawing;
    const step = e.shiftKey ? 10 : e.altKey ? 1 / 8 : 1;
    const arrows: Record<string, [number, number]> = {
      ArrowLeft: [-step, 0],
      ArrowRight: [step, 0],
      ArrowUp: [0, -step],
      ArrowDown: [0, step],
    };
    const arrow = arrows[e.key];
    const key = e.key.toLowerCase();
    if (arrow) this.arrow(...arrow);
    else if (e.ctrlKey || e.metaKey) {
      if (key === "y" || (key === "z" && e.shiftKey)) d.redo();
      else if (key === "z") d.undo();
      else return;
    } else if (e.key === "Enter" || e.key === " ") {
      if (this.tool !== "draw") return;
      const [x, y] = this.pointer;
      if (e.key === "Enter" && this.draft.length && this.draft.at(-2) === x && this.draft.at(-1) === y) this.finish();
      else this.addPoint(x, y);
    } else if (e.key === "Escape") {
      if (this.tool === "draw") this.setTool("select");
      else d.choose(d.part ? d.chosen : -1);
    } else if (e.key === "Delete" || e.key === "Backspace") d.remove();
    else if (key === "i" || e.key === "Insert")
      d.split(d.part?.kind === "point" ? Math.min(d.part.i / 3, segments(d.curve!) - 0.01) : 0);
    else if (e.key === "." || e.key === ",") {
      d.stepPart(e.key === "." ? 1 : -1);
      this.sayPart();
    } else if (e.key === "]" || e.key === "[") {
      const n = d.curves.length;
      if (n) d.choose((d.chosen + (e.key === "]" ? 1 : -1) + n) % n);
      if (d.curve) this.say(d.curve.id);
    } else if (key === "l" || key === "r" || key === "b") {
      d.addStop(key === "l" ? "left" : key === "r" ? "right" : "blur");
      this.sayPart();
    } else if (key === "d" || key === "v") {
      this.setTool(key === "d" ? "draw" : "select");
      this.say(t.tools[this.tool]!);
    } else if (!this.zoomKey(e.key)) return;
    e.preventDefault();
    e.stopPropagation();
  }

  private arrow(dx: number, dy: number): void {
    const d = this.drawing;
    if (this.tool === "draw") {
      this.pointer = [
        Math.min(this.width, Math.max(0, this.pointer[0] + dx)),
        Math.min(this.height, Math.max(0, this.pointer[1] + dy)),
      ];
      this.say(`${this.pointer[0]}, ${this.pointer[1]}`);
      this.render();
    } else if (d.curve) {
      const p = d.part;
      d.edit(() => (p && p.kind !== "point" ? d.slide(d.curve![p.kind][p.i]![0] + 0.01 * (dx - dy)) : d.shift(dx, dy)));
      this.sayPart();
    }
  }

  private sayPart(): void {
    const { curve: c, part: p } = this.drawing;
    if (!c) return;
    if (!p) this.say(text.recipe.at(c.id, c.points[0]!, c.points[1]!));
    else if (p.kind === "point") this.say(t.point(p.i + 1, c.points[2 * p.i]!, c.points[2 * p.i + 1]!));
    else this.say(t.stop(t.sides[p.kind], c[p.kind][p.i]![0]));
  }
}

function path(c: { points: number[] }): string {
  const p = c.points;
  let d = `M${p[0]} ${p[1]}`;
  for (let i = 2; i < p.length; i += 6) d += `C${p.slice(i, i + 6).join(" ")}`;
  return d;
}

function polyline(xy: number[]): string {
  let d = "";
  for (let i = 0; i < xy.length; i += 2) d += `${i ? "L" : "M"}${xy[i]} ${xy[i + 1]}`;
  return d;
}
