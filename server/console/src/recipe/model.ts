// The regions that are edited, with undo, and what is done to them: no elements, no calls.

import { create } from "@bufbuild/protobuf";
import { FillRule, MaskSchema, RegionSchema, RegionSetSchema, RingSchema, type Region, type RegionSet, type Scale } from "../gen/polyscan/v1/region_pb";
import { Undo } from "../undo";
import type { Blobs } from "./blobs";
import { without } from "./outline";

/** Shape is a region. Rings are x0, y0, x1, y1, ... in pixels. */
export interface Shape {
  name: string;
  rings: number[][];
  /** The pixels, where there are no rings: y, x0, x1, ... of runs. */
  mask?: number[];
  /** What it is made of, where it has neither; kept as it came. */
  made?: string;
  evenOdd: boolean;
  limits: string[];
  /** What the distribution is compared with; kept as it came. */
  reference?: { region?: string; counts?: number[][] };
}

/** ScaleLike is mm per pixel, and the place that is (0, 0). */
export type ScaleLike = Pick<Scale, "x" | "y"> & { origin?: { x: number; y: number } };

/** Vertex is the i-th of a ring of the chosen shape. */
export interface Vertex {
  ring: number;
  i: number;
}

/** grid rounds to what the server rounds to. */
export const grid = (v: number): number => Math.round(v * 256) / 256;

/** coarse is for vertices that are placed by hand. */
export const coarse = (v: number): number => Math.round(v * 8) / 8;

/** twiceArea is positive for rings that go clockwise on the screen. */
export function twiceArea(xy: number[]): number {
  let sum = 0;
  for (let i = 0, j = xy.length - 2; i < xy.length; j = i, i += 2) sum += xy[j]! * xy[i + 1]! - xy[i]! * xy[j + 1]!;
  return sum;
}

/** areaOf is of an outline, whose holes go the other way, twice. */
const areaOf = (rings: number[][]): number => rings.reduce((sum, xy) => sum + twiceArea(xy), 0);

/** windings is how often a ring goes around a point. */
function windings(xy: number[], x: number, y: number): number {
  let n = 0;
  for (let i = 0, j = xy.length - 2; i < xy.length; j = i, i += 2) {
    if (xy[i + 1]! > y !== xy[j + 1]! > y && x < ((xy[j]! - xy[i]!) * (y - xy[i + 1]!)) / (xy[j + 1]! - xy[i + 1]!) + xy[i]!) n += xy[i + 1]! > y ? 1 : -1;
  }
  return n;
}

/** contains says whether a point is in a ring, by the even-odd rule. */
export function contains(xy: number[], x: number, y: number): boolean {
  return windings(xy, x, y) % 2 !== 0;
}

export function reversed(xy: number[]): number[] {
  const out: number[] = [];
  for (let i = xy.length - 2; i >= 0; i -= 2) out.push(xy[i]!, xy[i + 1]!);
  return out;
}

export interface Box {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

export function boxOf(s: Shape): Box {
  const b = { left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity };
  for (const xy of s.rings) {
    for (let i = 0; i < xy.length; i += 2) {
      b.left = Math.min(b.left, xy[i]!);
      b.right = Math.max(b.right, xy[i]!);
      b.top = Math.min(b.top, xy[i + 1]!);
      b.bottom = Math.max(b.bottom, xy[i + 1]!);
    }
  }
  const runs = s.mask ?? [];
  for (let i = 0; i < runs.length; i += 3) {
    b.left = Math.min(b.left, runs[i + 1]!);
    b.right = Math.max(b.right, runs[i + 2]!);
    b.top = Math.min(b.top, runs[i]!);
    b.bottom = Math.max(b.bottom, runs[i]! + 1);
  }
  return s.rings.length || runs.length ? b : { left: 0, top: 0, right: 0, bottom: 0 };
}

/** inShape says whether a point is in a region, by its fill rule. */
export function inShape(s: Shape, x: number, y: number): boolean {
  const runs = s.mask ?? [];
  for (let i = 0; i < runs.length; i += 3) if (Math.floor(y) === runs[i] && x >= runs[i + 1]! && x < runs[i + 2]!) return true;
  let winding = 0;
  for (const xy of s.rings) winding += windings(xy, x, y);
  return s.evenOdd ? winding % 2 !== 0 : winding !== 0;
}

/** mirrored is a mask with x for sumX - x, and y for sumY - y. */
function mirrored(mask: number[], sumX?: number, sumY?: number): number[] {
  const runs = Array.from({ length: mask.length / 3 }, (_, i) => {
    const [y, x0, x1] = mask.slice(3 * i, 3 * i + 3) as [number, number, number];
    return [sumY === undefined ? y : sumY - 1 - y, sumX === undefined ? x0 : sumX - x1, sumX === undefined ? x1 : sumX - x0];
  });
  return runs.sort((a, b) => a[0]! - b[0]! || a[1]! - b[1]!).flat();
}

export function rectangle(x0: number, y0: number, x1: number, y1: number): number[] {
  const [l, r, t, b] = [Math.min(x0, x1), Math.max(x0, x1), Math.min(y0, y1), Math.max(y0, y1)];
  return [l, t, r, t, r, b, l, b];
}

/** circle is a polygon within 1/16 px of the circle, of 12 to 256 vertices. */
export function circle(x: number, y: number, r: number): number[] {
  const n = Math.min(256, Math.max(12, Math.ceil(Math.PI / Math.acos(Math.max(0, 1 - 1 / (16 * Math.max(r, 0.25)))))));
  return Array.from({ length: n }, (_, i) => (2 * Math.PI * i) / n).flatMap((a) => [grid(x + r * Math.cos(a)), grid(y + r * Math.sin(a))]);
}

export class Model extends Undo {
  shapes: Shape[] = [];
  /** What pixels are in mm; kept as it came. */
  scale?: ScaleLike;
  /** What blobs are; undefined finds none. */
  blobs?: Blobs;
  chosen = -1;
  vertex: Vertex | null = null;
  get shape(): Shape | undefined {
    return this.shapes[this.chosen];
  }

  protected override snapshot(): string {
    return JSON.stringify({ shapes: this.shapes, chosen: this.chosen, scale: this.scale, blobs: this.blobs });
  }

  protected override restore(s: string): void {
    const { shapes, chosen, scale, blobs } = JSON.parse(s) as { shapes: Shape[]; chosen: number; scale?: ScaleLike; blobs?: Blobs };
    this.shapes = shapes;
    this.scale = scale;
    this.blobs = blobs;
    this.chosen = chosen;
    this.vertex = null;
  }

  /** replace is for what was loaded: there is nothing to undo. */
  replace(shapes: Shape[], scale?: ScaleLike, blobs?: Blobs): void {
    this.shapes = shapes;
    this.scale = scale;
    this.blobs = blobs;
    this.chosen = shapes.length ? 0 : -1;
    this.vertex = null;
    this.forget();
  }

  choose(i: number, vertex: Vertex | null = null): void {
    if (this.chosen === i && this.vertex?.ring === vertex?.ring && this.vertex?.i === vertex?.i) return;
    this.chosen = i;
    this.vertex = vertex;
    this.changed(false);
  }

  /** unused is a name that no region has: the one that is wanted, or that and a number. */
  unused(wanted: string): string {
    const taken = new Set(this.shapes.map((s) => s.name));
    if (!taken.has(wanted)) return wanted;
    const stem = wanted.replace(/ \d+$/, "");
    for (let n = 2; ; n++) if (!taken.has(`${stem} ${n}`)) return `${stem} ${n}`;
  }

  /** add makes a region of a ring, and chooses it. */
  add(xy: number[]): void {
    this.edit(() => {
      this.shapes.push({ name: this.unused(`region ${this.shapes.length + 1}`), rings: [twiceArea(xy) < 0 ? reversed(xy) : xy], evenOdd: false, limits: [] });
      this.chosen = this.shapes.length - 1;
      this.vertex = null;
    });
  }

  /** cut makes a ring a hole of the chosen region. It returns false where the ring isn't inside: it would add there. */
  cut(xy: number[]): boolean {
    const s = this.shape;
    if (!s || s.mask || s.made) return false;
    for (let i = 0; i < xy.length; i += 2) if (!inShape(s, xy[i]!, xy[i + 1]!)) return false;
    const outer = s.rings.find((r) => contains(r, xy[0]!, xy[1]!))!;
    this.edit(() => s.rings.push(!s.evenOdd && twiceArea(xy) > 0 === twiceArea(outer) > 0 ? reversed(xy) : xy));
    return true;
  }

  /** cutOut takes what a ring covers from the chosen region. It returns false where that is nothing, or all of it. */
  cutOut(xy: number[]): boolean {
    const s = this.shape;
    const rings = s && !s.mask && !s.made ? without(s, xy) : undefined;
    if (!rings?.length || areaOf(rings) >= areaOf(without(s!, [])!)) return false;
    this.edit(() => {
      s!.rings = rings;
      this.vertex = null;
    });
    return true;
  }

  /** join adds a ring to the chosen region; where that is a mask or made of others, it is a region of its own. */
  join(xy: number[]): void {
    const s = this.shape;
    if (!s || s.mask || s.made) return this.add(xy);
    this.edit(() => s.rings.push(twiceArea(xy) > 0 === twiceArea(s.rings[0]!) > 0 ? xy : reversed(xy)));
  }

  private rest: [number, number] = [0, 0];

  /** shift moves the chosen vertex, or the whole region; a mask by whole pixels, once all that it was to move comes to
   * one. */
  shift(dx: number, dy: number): void {
    const s = this.shape;
    if (!s) return;
    if (s.mask) {
      this.rest = [this.rest[0] + dx, this.rest[1] + dy];
      const [x, y] = this.rest.map(Math.round) as [number, number];
      this.rest = [this.rest[0] - x, this.rest[1] - y];
      s.mask = s.mask.map((v, k) => v + (k % 3 ? x : y));
      return;
    }
    if (this.vertex) {
      const xy = s.rings[this.vertex.ring]!;
      xy[2 * this.vertex.i] = grid(xy[2 * this.vertex.i]! + dx);
      xy[2 * this.vertex.i + 1] = grid(xy[2 * this.vertex.i + 1]! + dy);
      return;
    }
    s.rings = s.rings.map((xy) => xy.map((v, k) => grid(v + (k % 2 ? dy : dx))));
  }

  /** remove deletes the chosen vertex, its ring where it has no more than three, or the region. */
  remove(): void {
    const s = this.shape;
    if (!s) return;
    this.edit(() => {
      const v = this.vertex;
      this.vertex = null;
      if (v && s.rings[v.ring]!.length > 6) {
        s.rings[v.ring]!.splice(2 * v.i, 2);
      } else if (v && s.rings.length > 1) {
        s.rings.splice(v.ring, 1);
      } else {
        this.shapes.splice(this.chosen, 1);
        this.chosen = Math.min(this.chosen, this.shapes.length - 1);
      }
    });
  }

  /** insert adds a vertex behind the i-th of a ring, in the middle of the edge, and chooses it. */
  insert(at: Vertex): void {
    const xy = this.shape!.rings[at.ring]!;
    const next = (2 * at.i + 2) % xy.length;
    xy.splice(2 * at.i + 2, 0, grid((xy[2 * at.i]! + xy[next]!) / 2), grid((xy[2 * at.i + 1]! + xy[next + 1]!) / 2));
    this.vertex = { ring: at.ring, i: at.i + 1 };
  }

  /** copies adds moved copies of the chosen region, and chooses the last. */
  copies(moves: [number, number][]): void {
    const s = this.shape;
    if (!s || !moves.length) return;
    this.edit(() => {
      for (const [dx, dy] of moves) {
        this.shapes.push({ ...structuredClone(s), name: this.unused(s.name) });
        this.chosen = this.shapes.length - 1;
        this.vertex = null;
        this.shift(dx, dy);
      }
    });
  }

  /** mirror flips the chosen region about its middle. */
  mirror(horizontally: boolean): void {
    const s = this.shape;
    if (!s) return;
    const b = boxOf(s);
    this.edit(() => {
      // The other way round, or holes would be none any more beside rings of other regions' direction.
      if (s.mask) s.mask = mirrored(s.mask, horizontally ? b.left + b.right : undefined, horizontally ? undefined : b.top + b.bottom);
      s.rings = s.rings.map((xy) => reversed(xy.map((v, k) => (k % 2 ? (horizontally ? v : grid(b.top + b.bottom - v)) : horizontally ? grid(b.left + b.right - v) : v))));
    });
  }

  /** stepVertex chooses the next vertex, or the one before, through all rings. */
  stepVertex(by: number): void {
    const s = this.shape;
    if (!s) return;
    const all = s.rings.flatMap((xy, ring) => Array.from({ length: xy.length / 2 }, (_, i) => ({ ring, i })));
    const now = all.findIndex((v) => v.ring === this.vertex?.ring && v.i === this.vertex.i);
    this.choose(this.chosen, all[now < 0 ? (by > 0 ? 0 : all.length - 1) : (now + by + all.length) % all.length]!);
  }

  stepShape(by: number): void {
    const n = this.shapes.length;
    if (n) this.choose((this.chosen + by + n) % n);
  }
}

export function toRegion(s: Shape): Region {
  return create(RegionSchema, {
    name: s.name,
    rings: s.rings.map((xy) => create(RingSchema, { xy })),
    mask: s.mask && create(MaskSchema, { runs: s.mask }),
    shape: s.made,
    fillRule: s.evenOdd ? FillRule.EVEN_ODD : FillRule.NON_ZERO,
    limits: s.limits,
    reference: s.reference && { region: s.reference.region, counts: s.reference.counts?.map((counts) => ({ counts })) },
  });
}

/**
 * framesOf are the frames to compare with that a limit of the regions or a correlation speaks of: the server refuses
 * others, since the limit that was meant is missing.
 */
export function framesOf(set: RegionSet, reductions?: { correlations?: { frame?: string }[] }, frames: Record<string, string> = {}): Record<string, string> {
  const spoken = (name: string) =>
    set.regions.some((r) => r.limits.some((l) => l.includes(JSON.stringify(name)))) || reductions?.correlations?.some((c) => c.frame === name);
  return Object.fromEntries(Object.entries(frames).filter(([name]) => spoken(name)));
}

export function toRegionSet(shapes: Shape[], scale?: ScaleLike): RegionSet {
  return create(RegionSetSchema, { regions: shapes.map(toRegion), scale: scale && { x: scale.x, y: scale.y, origin: scale.origin && { x: scale.origin.x, y: scale.origin.y } } });
}

export function fromRegions(regions: Region[]): Shape[] {
  return regions.map((r) => ({
    name: r.name, rings: r.rings.map((g) => [...g.xy]), mask: r.mask && [...r.mask.runs], made: r.shape || undefined, evenOdd: r.fillRule === FillRule.EVEN_ODD, limits: [...r.limits],
    reference: r.reference && (r.reference.region ? { region: r.reference.region } : { counts: r.reference.counts.map((c) => [...c.counts]) }),
  }));
}

/** Difference is what makes another version of a recipe of one. */
export interface Difference {
  name: string;
  kind: "added" | "removed" | "moved" | "limits" | "other";
  before: string[];
  after: string[];
}

/** differences compares regions by their names. */
export function differences(before: Shape[], after: Shape[]): Difference[] {
  const old = new Map(before.map((s) => [s.name, s]));
  const out: Difference[] = [];
  for (const s of after) {
    const o = old.get(s.name);
    old.delete(s.name);
    if (!o) {
      out.push({ name: s.name, kind: "added", before: [], after: s.limits });
      continue;
    }
    if (JSON.stringify([o.rings, o.mask, o.made, o.evenOdd]) !== JSON.stringify([s.rings, s.mask, s.made, s.evenOdd])) out.push({ name: s.name, kind: "moved", before: [], after: [] });
    if (JSON.stringify(o.limits) !== JSON.stringify(s.limits)) {
      out.push({ name: s.name, kind: "limits", before: o.limits.filter((l) => !s.limits.includes(l)), after: s.limits.filter((l) => !o.limits.includes(l)) });
    }
  }
  for (const o of old.values()) out.push({ name: o.name, kind: "removed", before: o.limits, after: [] });
  return out;
}
