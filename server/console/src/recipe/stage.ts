// The stage: the frame with its regions over it, drawn and edited by mouse, pen, finger and keyboard.

import { h, onFrame, set } from "../dom";
import { text } from "../text";
import { boxOf, circle, coarse, grid, inShape, rectangle, type Model, type Vertex } from "./model";

export type Tool = "select" | "polygon" | "rectangle" | "circle";
export type Use = "new" | "hole" | "join";

const t = text.recipe;
const near = 12; // CSS pixels within which a vertex is meant
const mostPixels = 64e6; // of a picture in full; a larger one is shown smaller

/** Stage is the picture and what is drawn on it. */
export class Stage {
  readonly element: HTMLElement;
  tool: Tool = "select";
  use: Use = "new";
  /** Verdicts of regions by index, for their colours. */
  marks: string[] = [];
  /** Called with what a screen reader should say. */
  say: (what: string) => void = () => {};
  toolChanged: () => void = () => {};
  width = 0;
  height = 0;
  private picture: ImageBitmap | null = null;
  private readonly canvas = h("canvas", { "aria-hidden": "true" });
  private readonly overlay = h("svg", {
    tabindex: 0, role: "application", "aria-label": t.stage, "aria-describedby": "stage-keys", "aria-roledescription": t.editor, preserveAspectRatio: "none",
  }) as SVGSVGElement;
  // What of the picture is seen: its pixel at the upper left, and CSS pixels for one of its pixels.
  private left = 0;
  private top = 0;
  private scale = 1;
  private draft: number[] = []; // the polygon that is drawn; with the place of the pointer behind
  private pointer: [number, number] = [0, 0];
  private begun: [number, number] | null = null; // where a rectangle or circle begins that is drawn by keys
  private drag: { kind: "pan" | "move" | "rectangle" | "circle"; x: number; y: number; id: number } | null = null;
  private readonly render = onFrame(() => this.draw());
  private readonly observer = new ResizeObserver(() => {
    this.fit();
  });
  private readonly retheme = (): void => this.render();

  constructor(private readonly model: Model) {
    this.element = h("div", { class: "editor" }, this.canvas, this.overlay);
    const o = this.overlay;
    o.addEventListener("pointerdown", (e) => this.down(e));
    o.addEventListener("pointermove", (e) => this.moved(e));
    o.addEventListener("pointerup", (e) => this.up(e));
    o.addEventListener("pointercancel", (e) => this.up(e));
    o.addEventListener("dblclick", () => this.close());
    o.addEventListener("keydown", (e) => this.key(e));
    o.addEventListener("wheel", (e) => {
      e.preventDefault();
      const [x, y] = this.place(e);
      this.zoom(Math.exp(-e.deltaY / 400), x, y);
    }, { passive: false });
    o.addEventListener("contextmenu", (e) => e.preventDefault());
    this.observer.observe(this.element);
    window.addEventListener("theme", this.retheme);
  }

  end(): void {
    this.observer.disconnect();
    window.removeEventListener("theme", this.retheme);
    this.picture?.close();
  }

  /** show sets the frame. */
  async show(file: Blob): Promise<void> {
    let picture = await createImageBitmap(file);
    this.width = picture.width;
    this.height = picture.height;
    if (picture.width * picture.height > mostPixels) {
      const shrink = Math.sqrt(mostPixels / (picture.width * picture.height));
      const small = await createImageBitmap(picture, { resizeWidth: Math.round(picture.width * shrink), resizeQuality: "medium" });
      picture.close();
      picture = small;
    }
    this.picture?.close();
    this.picture = picture;
    this.pointer = [coarse(this.width / 2), coarse(this.height / 2)];
    this.fit();
  }

  setTool(tool: Tool): void {
    this.tool = tool;
    this.draft = [];
    this.begun = null;
    this.overlay.dataset.tool = tool;
    this.toolChanged();
    this.render();
  }

  focus(): void {
    this.overlay.focus();
  }

  /** fit shows all of the picture. */
  fit(): void {
    const { clientWidth: w, clientHeight: c } = this.element;
    if (!this.width || !w || !c) return;
    this.scale = Math.min(w / this.width, c / this.height);
    this.left = (this.width - w / this.scale) / 2;
    this.top = (this.height - c / this.scale) / 2;
    this.render();
  }

  /** zoom keeps a place of the picture where it is; by default the middle. */
  zoom(by: number, x = this.left + this.element.clientWidth / 2 / this.scale, y = this.top + this.element.clientHeight / 2 / this.scale): void {
    if (!this.width) return;
    const least = Math.min(this.element.clientWidth / this.width, this.element.clientHeight / this.height) / 2;
    const scale = Math.min(64, Math.max(least, this.scale * by));
    this.left = x - ((x - this.left) * this.scale) / scale;
    this.top = y - ((y - this.top) * this.scale) / scale;
    this.scale = scale;
    this.render();
  }

  update(): void {
    this.render();
  }

  private place(e: MouseEvent): [number, number] {
    const r = this.overlay.getBoundingClientRect();
    return [this.left + (e.clientX - r.left) / this.scale, this.top + (e.clientY - r.top) / this.scale];
  }

  private draw(): void {
    const { clientWidth: w, clientHeight: c } = this.element;
    const ratio = devicePixelRatio;
    if (this.canvas.width !== Math.round(w * ratio) || this.canvas.height !== Math.round(c * ratio)) {
      this.canvas.width = Math.round(w * ratio);
      this.canvas.height = Math.round(c * ratio);
    }
    const g = this.canvas.getContext("2d")!;
    g.setTransform(1, 0, 0, 1, 0, 0);
    g.clearRect(0, 0, this.canvas.width, this.canvas.height);
    if (this.picture) {
      // Only what is seen is drawn, whatever the size of the picture.
      const k = this.picture.width / this.width;
      const x0 = Math.max(0, this.left);
      const y0 = Math.max(0, this.top);
      const x1 = Math.min(this.width, this.left + w / this.scale);
      const y1 = Math.min(this.height, this.top + c / this.scale);
      if (x1 > x0 && y1 > y0) {
        const s = this.scale * ratio;
        g.imageSmoothingEnabled = this.scale < 3;
        g.drawImage(this.picture, x0 * k, y0 * k, (x1 - x0) * k, (y1 - y0) * k, (x0 - this.left) * s, (y0 - this.top) * s, (x1 - x0) * s, (y1 - y0) * s);
      }
    }
    this.overlay.setAttribute("viewBox", `${this.left} ${this.top} ${w / this.scale} ${c / this.scale}`);
    const children: Element[] = [];
    const size = 1 / this.scale;
    this.model.shapes.forEach((_, i) => {
      if (i !== this.model.chosen) children.push(...this.shape(i));
    });
    const s = this.model.shape;
    if (s) {
      children.push(...this.shape(this.model.chosen));
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
    set(this.overlay as unknown as HTMLElement, children);
  }

  private shape(i: number): Element[] {
    const s = this.model.shapes[i]!;
    const d = path(s.rings, true);
    const mark = this.marks[i] ?? "none";
    const on = i === this.model.chosen ? " on" : "";
    const out = [h("path", { class: "shadow", d }), h("path", { class: `outline ${mark}${on}`, d, "fill-rule": s.evenOdd ? "evenodd" : "nonzero", "data-name": s.name })];
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

  private down(e: PointerEvent): void {
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

  private moved(e: PointerEvent): void {
    const [x, y] = this.place(e);
    const d = this.drag;
    if (d && d.id !== e.pointerId) return;
    if (d?.kind === "pan") {
      this.left += d.x - x;
      this.top += d.y - y;
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

  private up(e: PointerEvent): void {
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
    } else if (this.use === "join") {
      this.model.join(xy);
    } else {
      this.model.add(xy);
      this.say(t.added(this.model.shape!.name));
    }
    this.setTool("select");
  }

  private key(e: KeyboardEvent): void {
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
    } else if (e.key === "+" || e.key === "-") {
      this.zoom(e.key === "+" ? 1.25 : 0.8);
    } else if (e.key === "0") {
      this.fit();
    } else {
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

function path(rings: number[][], closed: boolean): string {
  return rings.map((xy) => {
    let d = "";
    for (let i = 0; i + 1 < xy.length; i += 2) d += `${i ? "L" : "M"}${xy[i]} ${xy[i + 1]}`;
    return closed ? d + "Z" : d;
  }).join("");
}
