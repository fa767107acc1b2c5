// The curves that are drawn, with undo, and what is done to them: no elements, no calls.

import { grid } from "../recipe/model";
import { text } from "../text";
import { Undo } from "../undo";

/** Color is a stop of a side: its place along the curve, and red, green and blue, 0 to 255. */
export type Color = [at: number, red: number, green: number, blue: number];
/** Blur is its place along the curve, and pixels. */
export type Blur = [at: number, sigma: number];

/** Curve is as the file has it; points are x0, y0, x1, y1, ... of 3n+1 control points. */
export interface Curve {
  id: string;
  points: number[];
  left: Color[];
  right: Color[];
  blur: Blur[];
  barrier: boolean;
}

/** Side is which stops are meant. */
export type Side = "left" | "right" | "blur";
export const sides: Side[] = ["left", "right", "blur"];

/** Part is a control point or a stop of the chosen curve. */
export interface Part {
  kind: "point" | Side;
  i: number;
}

export const mostSide = 4096; // of a canvas that the page makes

export const segments = (c: Curve): number => (c.points.length / 2 - 1) / 3;

/** at is a place on a curve and its direction there. */
export function at(c: Curve, where: number): { x: number; y: number; dx: number; dy: number } {
  const n = segments(c);
  const k = Math.min(n - 1, Math.max(0, Math.floor(where)));
  const s = where - k;
  const u = 1 - s;
  const p = c.points.slice(6 * k, 6 * k + 8);
  const f = (o: number): number =>
    u ** 3 * p[o]! + 3 * u * u * s * p[o + 2]! + 3 * u * s * s * p[o + 4]! + s ** 3 * p[o + 6]!;
  const d = (o: number): number =>
    u * u * (p[o + 2]! - p[o]!) + 2 * u * s * (p[o + 4]! - p[o + 2]!) + s * s * (p[o + 6]! - p[o + 4]!);
  let [dx, dy] = [d(0), d(1)];
  if (Math.hypot(dx, dy) < 1e-9) [dx, dy] = [p[6]! - p[0]!, p[7]! - p[1]!];
  const length = Math.hypot(dx, dy) || 1;
  return { x: f(0), y: f(1), dx: dx / length, dy: dy / length };
}

/** nearest is the place of a curve that is nearest to a point, and how far away it is. */
export function nearest(c: Curve, x: number, y: number): { at: number; distance: number } {
  const best = { at: 0, distance: Infinity };
  const look = (where: number): void => {
    const p = at(c, where);
    const d = Math.hypot(p.x - x, p.y - y);
    if (d < best.distance) Object.assign(best, { at: where, distance: d });
  };
  const n = segments(c);
  for (let i = 0; i <= 16 * n; i++) look(i / 16);
  for (let step = 1 / 32; step > 1e-3; step /= 2) {
    const middle = best.at;
    look(Math.max(0, middle - step));
    look(Math.min(n, middle + step));
  }
  return best;
}

/** mix is what holds at a place between stops. */
function mix<T extends number[]>(stops: T[], where: number): T | undefined {
  const after = stops.findIndex((s) => s[0]! > where);
  const a = stops[after < 0 ? stops.length - 1 : Math.max(0, after - 1)];
  const b = after < 0 ? a : stops[after];
  if (!a || !b) return undefined;
  const k = b[0]! > a[0]! ? Math.min(1, Math.max(0, (where - a[0]!) / (b[0]! - a[0]!))) : 0;
  return a.map((v, i) => (i ? v + k * (b[i]! - v) : where)) as T;
}

/** through makes a curve that goes through points: each way between two bends as its neighbours lie. */
export function through(xy: number[]): number[] {
  const n = xy.length / 2;
  const p = (i: number, o: number): number => xy[2 * Math.min(n - 1, Math.max(0, i)) + o]!;
  const out = [xy[0]!, xy[1]!];
  for (let i = 0; i + 1 < n; i++) {
    for (const o of [0, 1]) out.push(grid(p(i, o) + (p(i + 1, o) - p(i - 1, o)) / 6));
    for (const o of [0, 1]) out.push(grid(p(i + 1, o) - (p(i + 2, o) - p(i, o)) / 6));
    out.push(p(i + 1, 0), p(i + 1, 1));
  }
  return out;
}

/** thin leaves out points of a line that is drawn by hand, such that it stays within so many pixels. */
export function thin(xy: number[], within: number): number[] {
  const n = xy.length / 2;
  if (n < 3) return xy;
  const [ax, ay, bx, by] = [xy[0]!, xy[1]!, xy[2 * n - 2]!, xy[2 * n - 1]!];
  let worst = within;
  let split = 0;
  for (let i = 1; i < n - 1; i++) {
    const along = Math.min(
      1,
      Math.max(
        0,
        ((xy[2 * i]! - ax) * (bx - ax) + (xy[2 * i + 1]! - ay) * (by - ay)) / ((bx - ax) ** 2 + (by - ay) ** 2 || 1),
      ),
    );
    const d = Math.hypot(ax + along * (bx - ax) - xy[2 * i]!, ay + along * (by - ay) - xy[2 * i + 1]!);
    if (d > worst) [worst, split] = [d, i];
  }
  if (!split) return [ax, ay, bx, by];
  return [...thin(xy.slice(0, 2 * split + 2), within).slice(0, -2), ...thin(xy.slice(2 * split), within)];
}

export class Drawing extends Undo {
  width = 512;
  height = 512;
  curves: Curve[] = [];
  chosen = -1;
  part: Part | null = null;

  /** What pixels were, and which of that they are: there may be many, so what can be undone has a number for them. */
  private given: number[][][] = [[]];
  private now = 0;

  get curve(): Curve | undefined {
    return this.curves[this.chosen];
  }

  /** pixels are given under the curves; x, y, red, green and blue of each. */
  get pixels(): number[][] {
    return this.given[this.now]!;
  }

  /** pixelsOf tells pixels from those that there were before. */
  get pixelsOf(): number {
    return this.now;
  }

  protected override snapshot(): string {
    return JSON.stringify({ curves: this.curves, chosen: this.chosen, now: this.now });
  }

  protected override restore(s: string): void {
    Object.assign(this, JSON.parse(s));
    this.part = null;
  }

  /** start empties the canvas. */
  start(width: number, height: number, curves: Curve[] = [], pixels: number[][] = []): void {
    Object.assign(this, { width, height, curves, chosen: curves.length ? 0 : -1, part: null });
    this.given = [pixels];
    this.now = 0;
    this.forget();
  }

  /** replace puts others in the place of all curves and pixels. */
  replace(curves: Omit<Curve, "id">[], pixels: number[][]): void {
    this.edit(() => {
      this.curves = curves.map((c, i) => ({ ...c, id: `curve ${i + 1}` }));
      this.now = this.given.push(pixels) - 1;
      this.chosen = curves.length ? 0 : -1;
      this.part = null;
    });
  }

  choose(i: number, part: Part | null = null): void {
    if (this.chosen === i && this.part?.kind === part?.kind && this.part?.i === part?.i) return;
    this.chosen = i;
    this.part = part;
    this.changed(false);
  }

  private unused(): string {
    const taken = new Set(this.curves.map((c) => c.id));
    for (let n = this.curves.length + 1; ; n++) if (!taken.has(`curve ${n}`)) return `curve ${n}`;
  }

  /** add puts a curve over all others, and chooses it. */
  add(points: number[], left: Color[], right: Color[]): void {
    this.edit(() => {
      this.curves.push({ id: this.unused(), points, left, right, blur: [], barrier: false });
      this.chosen = this.curves.length - 1;
      this.part = null;
    });
  }

  /** shift moves the chosen point, with its handles where it is on the curve, or the whole curve. */
  shift(dx: number, dy: number): void {
    const c = this.curve;
    if (!c) return;
    const points = [...c.points];
    const one = (i: number): void => {
      if (i < 0 || 2 * i >= points.length) return;
      points[2 * i] = grid(points[2 * i]! + dx);
      points[2 * i + 1] = grid(points[2 * i + 1]! + dy);
    };
    const part = this.part?.kind === "point" ? this.part.i : -1;
    if (part < 0) for (let i = 0; i < points.length / 2; i++) one(i);
    else if (part % 3) one(part);
    else [part - 1, part, part + 1].forEach(one);
    c.points = points;
  }

  /** slide moves the chosen stop along the curve, not beyond its neighbours. */
  slide(to: number): void {
    const c = this.curve;
    const p = this.part;
    if (!c || !p || p.kind === "point") return;
    const stops: number[][] = c[p.kind];
    const low = stops[p.i - 1]?.[0] ?? 0;
    const high = stops[p.i + 1]?.[0] ?? segments(c);
    stops[p.i]![0] = Math.round(Math.min(high, Math.max(low, to)) * 1000) / 1000;
  }

  /** addStop puts one where the gap is largest, with what holds there, and chooses it. */
  addStop(side: Side): void {
    const c = this.curve;
    if (!c) return;
    this.edit(() => {
      const stops: number[][] = c[side];
      const ends = [...(stops[0]?.[0] === 0 ? [] : [0]), ...stops.map((s) => s[0]!), segments(c)];
      let where = 0;
      let gap = -1;
      if (stops.length)
        for (let i = 0; i + 1 < ends.length; i++) {
          if (ends[i + 1]! - ends[i]! <= gap) continue;
          gap = ends[i + 1]! - ends[i]!;
          // At an end, as far as nothing is there.
          where = i === ends.length - 2 ? segments(c) : i === 0 && stops[0]![0] !== 0 ? 0 : ends[i]! + gap / 2;
        }
      const other = side === "blur" ? [where, 4] : [where, 128, 128, 128];
      const made = mix(stops, where) ?? mix(side === "left" ? c.right : side === "right" ? c.left : [], where) ?? other;
      const i = stops.findIndex((s) => s[0]! > where);
      const k = i < 0 ? stops.length : i;
      stops.splice(k, 0, made);
      this.part = { kind: side, i: k };
    });
  }

  /** remove takes away the chosen stop, a point of several, or the curve. */
  remove(): void {
    const c = this.curve;
    if (!c) return;
    this.edit(() => {
      const p = this.part;
      this.part = null;
      if (p && p.kind !== "point") {
        const rest = c.left.length + c.right.length - (p.kind === "blur" ? 0 : 1);
        if (rest > 0 || c.barrier)
          c[p.kind].splice(p.i, 1); // a curve has a colour, or is a barrier
        else this.part = p;
      } else if (p && segments(c) > 1) {
        this.removePoint(c, Math.round(p.i / 3));
      } else {
        this.curves.splice(this.chosen, 1);
        this.chosen = Math.min(this.chosen, this.curves.length - 1);
      }
    });
  }

  private removePoint(c: Curve, k: number): void {
    const n = segments(c);
    const from = k === 0 ? 0 : k === n ? 6 * n - 4 : 6 * k - 2;
    c.points = c.points.filter((_, i) => i < from || i >= from + 6);
    // Two segments become one, or the first or last is gone.
    const map = (a: number): number =>
      k === 0
        ? Math.max(0, a - 1)
        : k === n
          ? Math.min(n - 1, a)
          : a <= k - 1
            ? a
            : a >= k + 1
              ? a - 1
              : k - 1 + (a - k + 1) / 2;
    this.remap(c, map);
  }

  private remap(c: Curve, map: (at: number) => number): void {
    for (const side of sides) for (const s of c[side] as number[][]) s[0] = map(s[0]!);
  }

  /** split puts a point into the middle of the segment of a place, and chooses it. The curve stays where it is. */
  split(where: number): void {
    const c = this.curve;
    if (!c) return;
    this.edit(() => {
      const k = Math.min(segments(c) - 1, Math.floor(where));
      const p = c.points.slice(6 * k, 6 * k + 8);
      const half = (a: number[], b: number[]): number[] => [grid((a[0]! + b[0]!) / 2), grid((a[1]! + b[1]!) / 2)];
      const q = [0, 2, 4, 6].map((i) => p.slice(i, i + 2));
      const [ab, bc, cd] = [half(q[0]!, q[1]!), half(q[1]!, q[2]!), half(q[2]!, q[3]!)];
      const [abc, bcd] = [half(ab, bc), half(bc, cd)];
      c.points.splice(6 * k + 2, 4, ...ab, ...abc, ...half(abc, bcd), ...bcd, ...cd);
      this.remap(c, (a) => (a <= k ? a : a >= k + 1 ? a + 1 : k + 2 * (a - k)));
      this.part = { kind: "point", i: 3 * k + 3 };
    });
  }

  /** step chooses the next control point or stop of the curve, or the one before. */
  stepPart(by: number): void {
    const c = this.curve;
    if (!c) return;
    const all: Part[] = Array.from({ length: c.points.length / 2 }, (_, i) => ({ kind: "point", i }));
    for (const kind of sides) c[kind].forEach((_, i) => all.push({ kind, i }));
    const now = all.findIndex((p) => p.kind === this.part?.kind && p.i === this.part.i);
    this.choose(this.chosen, all[now < 0 ? (by > 0 ? 0 : all.length - 1) : (now + by + all.length) % all.length]!);
  }
}

/** colorsOf are stops for both sides of a curve, from a picture: what it has beside the ends of each segment and in its
 * middle, so many pixels away. */
export function colorsOf(picture: ImageData, points: number[], distance: number): { left: Color[]; right: Color[] } {
  const c = { points } as Curve;
  const side = (sign: number): Color[] =>
    Array.from({ length: 2 * segments(c) + 1 }, (_, i): Color => {
      const p = at(c, i / 2);
      const x = Math.min(picture.width - 1, Math.max(0, Math.floor(p.x + sign * p.dy * distance)));
      const y = Math.min(picture.height - 1, Math.max(0, Math.floor(p.y - sign * p.dx * distance)));
      const k = 4 * (y * picture.width + x);
      return [i / 2, picture.data[k]!, picture.data[k + 1]!, picture.data[k + 2]!];
    });
  return { left: side(1), right: side(-1) };
}

/** rgb reads a colour as an input has it. */
export function rgb(hex: string): [number, number, number] {
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)) as [number, number, number];
}

export function hex(c: number[]): string {
  return `#${c
    .slice(-3)
    .map((v) =>
      Math.round(Math.min(255, Math.max(0, v)))
        .toString(16)
        .padStart(2, "0"),
    )
    .join("")}`;
}

interface File {
  version: number;
  width: number;
  height: number;
  curves: {
    id?: string;
    points: [number, number][];
    left?: Color[];
    right?: Color[];
    blur?: Blur[];
    barrier?: boolean;
  }[];
  pixels?: number[][];
}

const whole = (v: unknown): v is number => Number.isInteger(v) && (v as number) >= 1;
const table = (v: unknown, columns: number): boolean =>
  v === undefined ||
  (Array.isArray(v) && v.every((r) => Array.isArray(r) && r.length === columns && r.every(Number.isFinite)));

/** read reads a file of curves as polyscan writes it. The server checks what the numbers are. */
export function read(content: string): { width: number; height: number; curves: Curve[]; pixels: number[][] } {
  let f: File;
  try {
    f = JSON.parse(content) as File;
  } catch {
    throw new Error(text.studio.unreadable);
  }
  const good =
    f?.version === 1 &&
    whole(f.width) &&
    whole(f.height) &&
    Array.isArray(f.curves) &&
    table(f.pixels, 5) &&
    f.curves.every(
      (c) =>
        c &&
        table(c.points, 2) &&
        c.points?.length > 3 &&
        c.points.length % 3 === 1 &&
        table(c.left, 4) &&
        table(c.right, 4) &&
        table(c.blur, 2),
    );
  if (!good) throw new Error(text.studio.unreadable);
  const taken = new Set<string>();
  const curves = f.curves.map((c, i): Curve => {
    let id = c.id || `curve ${i + 1}`;
    for (let n = 2; taken.has(id); n++) id = `curve ${i + 1}.${n}`;
    taken.add(id);
    return {
      id,
      points: c.points.flat(),
      left: c.left ?? [],
      right: c.right ?? [],
      blur: c.blur ?? [],
      barrier: c.barrier ?? false,
    };
  });
  return { width: f.width, height: f.height, curves, pixels: f.pixels ?? [] };
}

/** write makes a file of curves: one curve a line. */
export function write(d: Drawing): string {
  const lines = d.curves.map((c) =>
    JSON.stringify({
      id: c.id,
      points: Array.from({ length: c.points.length / 2 }, (_, i) => c.points.slice(2 * i, 2 * i + 2)),
      ...(c.left.length && { left: c.left }),
      ...(c.right.length && { right: c.right }),
      ...(c.blur.length && { blur: c.blur }),
      ...(c.barrier && { barrier: true }),
    }),
  );
  const pixels = d.pixels.length ? `,\n"pixels": ${JSON.stringify(d.pixels)}` : "";
  return `{"version": 1, "width": ${d.width}, "height": ${d.height}, "curves": [\n${lines.join(",\n")}\n]${pixels}}\n`;
}
