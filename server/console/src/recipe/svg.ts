// Shapes of an SVG file as regions: what clients/regionfile reads of one, with the same vertices. The browser reads the
// XML; nothing of the file is drawn, run or fetched. What would make other regions than a viewer shows is an error, and
// what gives none is left out and said.

import { text } from "../text";
import type { Shape } from "./model";

const t = text.recipe.svg;
const space = "http://www.w3.org/2000/svg";
const inkscape = "http://www.inkscape.org/namespaces/inkscape";
const tolerance = 1 / 16; // pixels from a curve to the ring
const mostVertices = 1 << 20;
const mostNested = 256;

// (x, y) becomes (a x + c y + e, b x + d y + f).
type Matrix = [a: number, b: number, c: number, d: number, e: number, f: number];
type Point = [x: number, y: number];
const identity: Matrix = [1, 0, 0, 1, 0, 0];

const times = (m: Matrix, n: Matrix): Matrix => [
  m[0] * n[0] + m[2] * n[1], m[1] * n[0] + m[3] * n[1], m[0] * n[2] + m[2] * n[3], m[1] * n[2] + m[3] * n[3],
  m[0] * n[4] + m[2] * n[5] + m[4], m[1] * n[4] + m[3] * n[5] + m[5],
];
const apply = (m: Matrix, [x, y]: Point): Point => [m[0] * x + m[2] * y + m[4], m[1] * x + m[3] * y + m[5]];

/** sincos is exact for quarter turns, so that whole pixels stay whole. */
function sincos(degrees: number): [number, number] {
  const quarter = degrees / 90;
  if (Number.isInteger(quarter)) return [[0, 1], [1, 0], [0, -1], [-1, 0]][((quarter % 4) + 4) % 4] as [number, number];
  return [Math.sin((degrees * Math.PI) / 180), Math.cos((degrees * Math.PI) / 180)];
}

/** Outline collects the subpaths of an element as rings in pixels. */
class Outline {
  rings: number[][] = [];
  lost = 0; // subpaths without area
  cur: Point = [0, 0];
  private start: Point = [0, 0];
  private ring: number[] = [];

  /** left is how many vertices the file may still have. */
  constructor(readonly m: Matrix, private readonly left: { vertices: number }) {}

  private emit([x, y]: Point): void {
    if (!(Math.abs(x) < 1 << 22 && Math.abs(y) < 1 << 22)) throw new Error(t.far);
    if (this.ring.at(-2) === x && this.ring.at(-1) === y) return;
    if (--this.left.vertices < 0) throw new Error(t.vertices(mostVertices));
    this.ring.push(x, y);
  }

  finish(): void {
    const r = this.ring;
    const drawn = r.length > 2;
    if (drawn && r[0] === r.at(-2) && r[1] === r.at(-1)) r.length -= 2;
    if (r.length >= 6) this.rings.push(r);
    else if (drawn) this.lost++;
    this.ring = [];
  }

  close(): void {
    this.finish();
    this.cur = this.start;
  }

  move(p: Point): void {
    this.finish();
    this.start = this.cur = p;
  }

  private begin(): void {
    if (this.ring.length) return;
    this.start = this.cur;
    this.emit(apply(this.m, this.cur));
  }

  line(p: Point): void {
    this.begin();
    this.cur = p;
    this.emit(apply(this.m, p));
  }

  /** chords emits n points of a curve, at equal steps; the last is given. */
  private chords(n: number, at: (s: number) => Point, last: Point): void {
    const most = Math.max(1, Math.ceil(n));
    if (!(most <= mostVertices)) throw new Error(t.vertices(mostVertices));
    for (let i = 1; i < most; i++) this.emit(at(i / most));
    this.emit(last);
  }

  /** curve is a quadratic or cubic Bézier from the current point. */
  curve(...control: Point[]): void {
    const p = [this.cur, ...control].map((q) => apply(this.m, q));
    const bend = (i: number): number => Math.hypot(p[i]![0] - 2 * p[i + 1]![0] + p[i + 2]![0], p[i]![1] - 2 * p[i + 1]![1] + p[i + 2]![1]);
    if (p.some(([x, y]) => !(Math.abs(x) < 1 << 22 && Math.abs(y) < 1 << 22))) throw new Error(t.far);
    this.begin();
    const cubic = p.length === 4;
    const n = Math.sqrt((cubic ? 3 * Math.max(bend(0), bend(1)) : bend(0)) / (4 * tolerance));
    const at = (u: number): Point => {
      const s = 1 - u;
      const weights = cubic ? [s * s * s, 3 * s * s * u, 3 * s * u * u, u * u * u] : [s * s, 2 * s * u, u * u];
      return [0, 1].map((k) => weights.reduce((sum, w, i) => sum + w * p[i]![k]!, 0)) as Point;
    };
    this.chords(n, at, p.at(-1)!);
    this.cur = control.at(-1)!;
  }

  /** step is the largest angle on the unit circle whose chord stays within the tolerance under a map to pixels. */
  private step([a, b, c, d]: Matrix): number {
    const s = (Math.hypot(a + d, b - c) + Math.hypot(a - d, b + c)) / 2;
    return s <= tolerance ? Math.PI : 4 * Math.asin(Math.sqrt(tolerance / s / 2));
  }

  /** unitArc is the image of an arc of the unit circle, from the current point to p. */
  unitArc(unit: Matrix, from: number, delta: number, p: Point): void {
    this.begin();
    const m = times(this.m, unit);
    this.chords(Math.abs(delta) / this.step(m), (s) => apply(m, [Math.cos(from + delta * s), Math.sin(from + delta * s)]), apply(this.m, p));
    this.cur = p;
  }

  arc(rx: number, ry: number, rotation: number, large: boolean, sweep: boolean, p: Point): void {
    const [x, y] = p;
    const [cx, cy] = this.cur;
    if (cx === x && cy === y) return;
    [rx, ry] = [Math.abs(rx), Math.abs(ry)];
    if (!rx || !ry) return this.line(p);
    const [sin, cos] = sincos(rotation);
    // Where the ellipse is the unit circle, half the chord is h, and the centre its middle plus a multiple of its normal.
    const [dx, dy] = [(cx - x) / 2, (cy - y) / 2];
    let [hx, hy] = [(cos * dx + sin * dy) / rx, (cos * dy - sin * dx) / ry];
    let half = Math.hypot(hx, hy);
    if (half > 1) {
      [rx, ry, hx, hy] = [rx * half, ry * half, hx / half, hy / half];
      half = 1;
    }
    const apothem = Math.sqrt((1 - half) * (1 + half));
    let delta = 2 * Math.atan2(half, apothem);
    const off = (large === sweep ? -1 : 1) * (apothem / half);
    if (large) delta = 2 * Math.PI - delta;
    if (!sweep) delta = -delta;
    const [ux, uy] = [off * hy, -off * hx];
    const unit: Matrix = [cos * rx, sin * rx, -sin * ry, cos * ry, 0, 0];
    const c = apply(unit, [ux, uy]);
    [unit[4], unit[5]] = [(cx + x) / 2 + c[0], (cy + y) / 2 + c[1]];
    this.unitArc(unit, Math.atan2(hy - uy, hx - ux), delta, p);
  }

  ellipse(cx: number, cy: number, rx: number, ry: number): void {
    const m = times(this.m, [rx, 0, 0, ry, cx, cy]);
    const n = Math.max(8, Math.ceil((2 * Math.PI) / this.step(m)));
    if (!(n <= mostVertices)) throw new Error(t.vertices(mostVertices));
    for (let i = 0; i < n; i++) this.emit(apply(m, [Math.cos((2 * Math.PI * i) / n), Math.sin((2 * Math.PI * i) / n)]));
    this.finish();
  }

  polygon(points: Point[]): void {
    points.forEach((p, i) => (i ? this.line(p) : this.move(p)));
    this.finish();
  }
}

/** round is a circle as a ring, as fine as shapes of files are. */
export function round(x: number, y: number, r: number): number[] {
  const to = new Outline(identity, { vertices: mostVertices });
  to.ellipse(x, y, r, r);
  return to.rings[0] ?? [];
}

const numberPattern = /[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?/y;

/** Scanner reads an attribute from left to right. */
class Scanner {
  at = 0;
  constructor(readonly s: string) {
    this.gap();
  }
  get done(): boolean {
    return this.at >= this.s.length;
  }
  get next(): string {
    return this.s[this.at] ?? "";
  }
  fail(): never {
    throw new Error(t.syntax(this.s.slice(0, 40), this.at));
  }
  /** gap is white space. */
  gap(): void {
    while (/[ \t\n\r\f]/.test(this.next)) this.at++;
  }
  /** comma is white space with at most one comma in it, and says whether there was one. */
  comma(): boolean {
    this.gap();
    if (this.next !== ",") return false;
    this.at++;
    this.gap();
    return true;
  }
  number(): number {
    numberPattern.lastIndex = this.at;
    const found = numberPattern.exec(this.s)?.[0];
    if (found === undefined || !Number.isFinite(Number(found))) this.fail();
    this.at += found.length;
    return Number(found);
  }
  numbers(n: number): number[] {
    return Array.from({ length: n }, (_, i) => {
      if (i) this.comma();
      return this.number();
    });
  }
  flag(): boolean {
    this.comma();
    if (this.next !== "0" && this.next !== "1") this.fail();
    return this.s[this.at++] === "1";
  }
}

function path(d: string, to: Outline): void {
  const s = new Scanner(d);
  if (s.done || d === "none") return;
  if (!/[mM]/.test(s.next)) s.fail();
  let [p, start, control]: Point[] = [[0, 0], [0, 0], [0, 0]];
  let last = ""; // the kind of curve that control is of
  while (!s.done) {
    const command = s.next;
    let upper = command.toUpperCase();
    if (!/[MLHVCSQTAZ]/.test(upper)) s.fail();
    s.at++;
    if (upper === "Z") {
      to.close();
      [p, last] = [start!, ""];
      s.gap();
      continue;
    }
    s.gap();
    for (;;) {
      const [ox, oy]: Point = command === upper || (command === "M" && upper === "L") ? [0, 0] : p!;
      const q = (n: number): Point[] => {
        const a = s.numbers(2 * n);
        return Array.from({ length: n }, (_, i): Point => [ox + a[2 * i]!, oy + a[2 * i + 1]!]);
      };
      const mirrored = (kind: string): Point => (last === kind ? [2 * p![0] - control![0], 2 * p![1] - control![1]] : p!);
      let kind = "";
      switch (upper) {
        case "M":
          [p] = q(1);
          start = p;
          to.move(p!);
          break;
        case "L":
          [p] = q(1);
          to.line(p!);
          break;
        case "H":
          p = [ox + s.number(), p![1]];
          to.line(p);
          break;
        case "V":
          p = [p![0], oy + s.number()];
          to.line(p);
          break;
        case "C":
        case "S": {
          const c = upper === "C" ? q(3) : [mirrored("C"), ...q(2)];
          [kind, control, p] = ["C", c[1], c[2]];
          to.curve(...c);
          break;
        }
        case "Q":
        case "T": {
          const c = upper === "Q" ? q(2) : [mirrored("Q"), ...q(1)];
          [kind, control, p] = ["Q", c[0], c[1]];
          to.curve(...c);
          break;
        }
        case "A": {
          const [rx, ry, rotation] = s.numbers(3);
          const [large, sweep] = [s.flag(), s.flag()];
          s.comma();
          [p] = q(1);
          to.arc(rx!, ry!, rotation!, large, sweep, p!);
        }
      }
      last = kind;
      if (upper === "M") upper = "L"; // further pairs are lines
      if (!s.comma() && !/[\d.+-]/.test(s.next)) break;
    }
  }
}

function points(v: string): Point[] {
  const s = new Scanner(v);
  const out: Point[] = [];
  while (!s.done) {
    if (out.length) s.comma();
    out.push(s.numbers(2) as Point);
    s.gap();
  }
  return out;
}

function transform(v: string): Matrix {
  const s = new Scanner(v);
  let m = identity;
  if (v.trim() === "none") return m;
  while (!s.done) {
    const [whole, name] = /^([A-Za-z]+)[ \t\n\r\f]*\([ \t\n\r\f]*/.exec(s.s.slice(s.at)) ?? s.fail();
    s.at += whole.length;
    const a: number[] = [];
    while (s.next !== ")") {
      if (a.length) s.comma();
      a.push(s.number());
      s.gap();
    }
    s.at++;
    const [sin, cos] = sincos(a[0] ?? 0);
    const turn: Matrix = [cos, sin, -sin, cos, 0, 0];
    const makes: Record<string, () => Matrix> = {
      matrix6: () => a as Matrix,
      translate1: () => [1, 0, 0, 1, a[0]!, 0],
      translate2: () => [1, 0, 0, 1, a[0]!, a[1]!],
      scale1: () => [a[0]!, 0, 0, a[0]!, 0, 0],
      scale2: () => [a[0]!, 0, 0, a[1]!, 0, 0],
      rotate1: () => turn,
      rotate3: () => times(times([1, 0, 0, 1, a[1]!, a[2]!], turn), [1, 0, 0, 1, -a[1]!, -a[2]!]),
      skewX1: () => [1, 0, Math.tan((a[0]! * Math.PI) / 180), 1, 0, 0],
      skewY1: () => [1, Math.tan((a[0]! * Math.PI) / 180), 0, 1, 0, 0],
    };
    m = times(m, (makes[`${name}${a.length}`] ?? s.fail.bind(s))());
    s.comma();
  }
  return m;
}

/** State is what the children of an element inherit. */
interface State {
  m: Matrix;
  evenOdd: boolean;
  hidden: boolean;
}

const moving = ["transform-origin", "transform-box", "translate", "rotate", "scale"];
const reshaping = ["d", "x", "y", "width", "height", "cx", "cy", "r", "rx", "ry"];
const notDrawn = /^(defs|symbol|clipPath|mask|marker|pattern|.*Gradient|meshgradient|hatch|solidcolor|filter|metadata|style|script|title|desc|view|cursor|font|font-face|animate.*|set|discard|color-profile|image)$/;

/** readSvg makes regions of a file, and says what it left out. */
export function readSvg(content: string): { name: string; shapes: Shape[]; warnings: string[] } {
  const doc = new DOMParser().parseFromString(content, "image/svg+xml");
  const root = doc.documentElement;
  if (doc.querySelector("parsererror")) throw new Error(t.xml);
  if (root.localName !== "svg" || ![space, null, ""].includes(root.namespaceURI)) throw new Error(text.recipe.unreadable);
  const shapes: Shape[] = [];
  const warnings: string[] = [];
  const left = { vertices: mostVertices };
  const words = (s: string | null | undefined): string => (s ?? "").trim().split(/\s+/).join(" ");
  const titleOf = (e: Element): string => words([...e.children].find((c) => c.localName === "title")?.textContent);

  const walk = (e: Element, from: State, depth: number): void => {
    if (depth > mostNested) throw new Error(t.nested(mostNested));
    if (![space, null, ""].includes(e.namespaceURI)) return;
    const id = e.getAttribute("id");
    const place = id ? `<${e.localName} id="${id}">` : `<${e.localName}>`;
    const fail = (why: string): never => {
      throw new Error(`${place}: ${why}`);
    };
    const styles = new Map((e.getAttribute("style") ?? "").split(";").filter((d) => d.includes(":")).map((d) => {
      const cut = d.indexOf(":");
      return [d.slice(0, cut).trim().toLowerCase(), d.slice(cut + 1).split("!")[0]!.trim()];
    }));
    const property = (name: string): string => styles.get(name) ?? (e.getAttribute(name) ?? "").trim();
    /** length is in px; undefined where it isn't given. */
    const length = (name: string): number | undefined => {
      const v = (e.getAttribute(name) ?? "").trim();
      if (v === "" || v === "auto") return undefined;
      const s = new Scanner(v);
      const n = s.number();
      return ["", "px"].includes(v.slice(s.at)) ? n : fail(t.unit(name, v));
    };

    const shape = ["path", "polygon", "polyline", "rect", "circle", "ellipse"].includes(e.localName);
    if (!shape && !["svg", "g", "a", "switch"].includes(e.localName)) {
      if (e.localName === "style" && [...moving, ...reshaping, "transform", "fill-rule", "display", "visibility"].some((p) => new RegExp(`(^|[{; }/])${p} *:`).test(e.textContent ?? ""))) warnings.push(t.sheet);
      if (!notDrawn.test(e.localName) && !from.hidden && property("display") !== "none") warnings.push(t.skipped(place));
      return;
    }
    for (const p of [...moving, "transform"]) {
      const v = p === "transform" ? (styles.get(p) ?? "") : property(p);
      if (v && v !== "none") fail(t.style(p));
    }
    const state = { ...from };
    try {
      if (e.hasAttribute("transform")) state.m = times(state.m, transform(e.getAttribute("transform")!));
      const fill = property("fill-rule");
      if (fill && fill !== "inherit") {
        if (fill !== "nonzero" && fill !== "evenodd") throw new Error(t.style("fill-rule"));
        state.evenOdd = fill === "evenodd";
      }
      if (property("visibility")) state.hidden = property("visibility") === "inherit" ? from.hidden : property("visibility") !== "visible";
      if (property("display") === "none") return;
      if (["clip-path", "mask"].some((p) => property(p) && property(p) !== "none")) warnings.push(t.clipped(place));
      if (e.localName === "svg") state.m = times(state.m, viewport(e, length, e === root));
      if (shape && !state.hidden) {
        for (const p of reshaping) if (styles.get(p)) throw new Error(t.style(p));
        const to = new Outline(state.m, left);
        draw(e, length, to);
        if (to.lost || !to.rings.length) warnings.push(t.flat(place));
        const label = words(e.getAttributeNS(inkscape, "label") ?? e.getAttribute("inkscape:label"));
        if (to.rings.length) shapes.push({ name: label || titleOf(e) || (id ?? "").trim(), rings: to.rings, evenOdd: state.evenOdd, limits: [] });
      }
    } catch (err) {
      fail((err as Error).message);
    }
    if (!shape) for (const child of e.children) walk(child, state, depth + 1);
  };
  walk(root, { m: identity, evenOdd: false, hidden: false }, 1);
  return { name: titleOf(root), shapes, warnings };
}

/** viewport maps what is inside an svg element. */
function viewport(e: Element, length: (name: string) => number | undefined, root: boolean): Matrix {
  const side = (name: string): number | undefined => {
    if ((e.getAttribute(name) ?? "").trim() === "100%") return undefined;
    const v = length(name);
    if (v !== undefined && !(v > 0)) throw new Error(t.unit(name, String(v)));
    return v;
  };
  let m = root ? identity : ([1, 0, 0, 1, length("x") ?? 0, length("y") ?? 0] as Matrix);
  let [w, h] = [side("width"), side("height")];
  const box = (e.getAttribute("viewBox") ?? "").trim();
  if (!box) return m;
  const s = new Scanner(box);
  const [x, y, bw, bh] = s.numbers(4) as [number, number, number, number];
  s.gap();
  if (!s.done || !(bw > 0 && bh > 0) || (!root && (w === undefined || h === undefined))) throw new Error(t.viewBox);
  if (w === undefined && h === undefined) [w, h] = [bw, bh];
  w ??= (h! * bw) / bh;
  h ??= (w * bh) / bw;
  let [sx, sy] = [w / bw, h / bh];
  let [fx, fy] = [0, 0]; // the share of the room left over that goes before the picture
  const aspect = (e.getAttribute("preserveAspectRatio") ?? "").trim().replace(/^defer(\s+|$)/, "") || "xMidYMid";
  const found = /^(?:none|x(Min|Mid|Max)Y(Min|Mid|Max))(?:\s+(meet|slice))?$/.exec(aspect);
  if (!found) throw new Error(t.viewBox);
  if (found[1]) {
    const share: Record<string, number> = { Min: 0, Mid: 0.5, Max: 1 };
    [fx, fy] = [share[found[1]]!, share[found[2]!]!];
    sx = sy = found[3] === "slice" ? Math.max(sx, sy) : Math.min(sx, sy);
  }
  m = times(m, [sx, 0, 0, sy, fx * (w - sx * bw) - sx * x, fy * (h - sy * bh) - sy * y]);
  return m;
}

/** draw adds the outline of a shape. */
function draw(e: Element, length: (name: string) => number | undefined, to: Outline): void {
  const of = (name: string): number => length(name) ?? 0;
  const radii = (a: string, b: string): Point => {
    const [rx, ry] = [length(a), length(b)];
    if ((rx ?? 0) < 0 || (ry ?? 0) < 0) throw new Error(t.negative);
    return [rx ?? ry ?? 0, ry ?? rx ?? 0];
  };
  switch (e.localName) {
    case "path":
      path(e.getAttribute("d") ?? "", to);
      to.finish();
      return;
    case "polygon":
    case "polyline":
      to.polygon(points(e.getAttribute("points") ?? ""));
      return;
    case "rect": {
      const [x, y, w, h] = [of("x"), of("y"), of("width"), of("height")];
      let [rx, ry] = radii("rx", "ry");
      if (w < 0 || h < 0) throw new Error(t.negative);
      if (!w || !h) return;
      [rx, ry] = [Math.min(rx, w / 2), Math.min(ry, h / 2)];
      if (!rx || !ry) {
        to.polygon([[x, y], [x + w, y], [x + w, y + h], [x, y + h]]);
        return;
      }
      to.move([x + rx, y]);
      const corners: [number, number, number, number][] = [
        [x + w - rx, y, x + w, y + ry], [x + w, y + h - ry, x + w - rx, y + h], [x + rx, y + h, x, y + h - ry], [x, y + ry, x + rx, y],
      ];
      corners.forEach(([ax, ay, bx, by], i) => {
        to.line([ax, ay]);
        const centre: Point = [i < 2 ? x + w - rx : x + rx, i === 1 || i === 2 ? y + h - ry : y + ry];
        to.unitArc([rx, 0, 0, ry, ...centre], ((i - 1) * Math.PI) / 2, Math.PI / 2, [bx, by]);
      });
      to.close();
      return;
    }
    default: {
      const [rx, ry] = e.localName === "circle" ? radii("r", "r") : radii("rx", "ry");
      if (rx && ry) to.ellipse(of("cx"), of("cy"), rx, ry);
    }
  }
}
