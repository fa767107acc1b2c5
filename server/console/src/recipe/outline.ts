// Outlines of what regions cover: for what is cut out of them, and to know whether two fill rules agree.

import { contains, grid, inShape, type Shape } from "./model";

type Edge = [number, number, number, number];

function edgesOf(rings: number[][]): Edge[] {
  return rings.flatMap((xy) =>
    Array.from({ length: xy.length / 2 }, (_, i): Edge => {
      const j = (2 * i + 2) % xy.length;
      return [xy[2 * i]!, xy[2 * i + 1]!, xy[j]!, xy[j + 1]!];
    }),
  );
}

const onto = 1e-9; // of an edge's length: what is nearer lies on it

/** meet tells where along each of two edges they meet: pairs of shares; of edges on one line those of their ends. */
function meet(e: Edge, f: Edge): [number, number][] {
  const [ex, ey, fx, fy] = [e[2] - e[0], e[3] - e[1], f[2] - f[0], f[3] - f[1]];
  const [ox, oy] = [f[0] - e[0], f[1] - e[1]];
  const cross = ex * fy - ey * fx;
  const el = ex * ex + ey * ey;
  const fl = fx * fx + fy * fy;
  if (!el || !fl) return [];
  const within = (v: number): boolean => v >= -onto && v <= 1 + onto;
  if (Math.abs(cross) > onto * Math.sqrt(el * fl)) {
    const s = (ox * fy - oy * fx) / cross;
    const u = (ox * ey - oy * ex) / cross;
    return within(s) && within(u) ? [[s, u]] : [];
  }
  if (Math.abs(ox * ey - oy * ex) > onto * el) return [];
  const out: [number, number][] = [];
  const along = (x: number, y: number): number => ((x - e[0]) * ex + (y - e[1]) * ey) / el;
  const back = (x: number, y: number): number => ((x - f[0]) * fx + (y - f[1]) * fy) / fl;
  for (const [x, y] of [[f[0], f[1]], [f[2], f[3]], [e[0], e[1]], [e[2], e[3]]] as const) {
    const [s, u] = [along(x, y), back(x, y)];
    if (within(s) && within(u)) out.push([s, u]);
  }
  return out;
}

function pairs(edges: Edge[], found: (i: number, j: number, s: number, u: number) => void): void {
  edges.forEach((e, i) => {
    const [l, r, t, b] = [Math.min(e[0], e[2]), Math.max(e[0], e[2]), Math.min(e[1], e[3]), Math.max(e[1], e[3])];
    for (let j = i + 1; j < edges.length; j++) {
      const f = edges[j]!;
      if (Math.max(f[0], f[2]) < l || Math.min(f[0], f[2]) > r || Math.max(f[1], f[3]) < t || Math.min(f[1], f[3]) > b) continue;
      for (const [s, u] of meet(e, f)) found(i, j, s, u);
    }
  });
}

/** simple says that no edges meet but at their common vertices: each fill rule then covers the same, but for holes. */
export function simple(rings: number[][]): boolean {
  let is = true;
  const end = (v: number): boolean => v < onto || v > 1 - onto;
  pairs(edgesOf(rings), (_, __, s, u) => (is &&= end(s) && end(u)));
  return is;
}

/** without is the outline of a region less what a ring covers, which goes clockwise on the screen around what is
 * covered: it is the same by each fill rule. Where edges meet, vertices are on the server's grid. It is null where that
 * grid is too coarse for what there is. */
export function without(shape: Shape, ring: number[]): number[][] | null {
  const edges = edgesOf([...shape.rings, ring]);
  const cuts = edges.map(() => [0, 1]);
  pairs(edges, (i, j, s, u) => {
    cuts[i]!.push(s);
    cuts[j]!.push(u);
  });
  const inside = (x: number, y: number): boolean => inShape(shape, x, y) && !contains(ring, x, y);
  const aside = 1e-4; // px to either side of an edge, where it is seen what it parts
  const next = new Map<string, Map<string, [number, number]>>();
  edges.forEach(([ax, ay, bx, by], i) => {
    const [dx, dy] = [bx - ax, by - ay];
    const length = Math.hypot(dx, dy);
    if (!length) return;
    const shares = cuts[i]!.map((s) => Math.min(1, Math.max(0, s))).sort((a, b) => a - b);
    const [nx, ny] = [(-dy / length) * aside, (dx / length) * aside];
    const at = (s: number): [number, number] =>
      s === 0 ? [ax, ay] : s === 1 ? [bx, by] : [grid(ax + s * dx), grid(ay + s * dy)];
    for (let k = 0; k + 1 < shares.length; k++) {
      const [s, u] = [shares[k]!, shares[k + 1]!];
      let [p, q] = [at(s), at(u)];
      if (String(p) === String(q)) continue;
      const [mx, my] = [ax + ((s + u) / 2) * dx, ay + ((s + u) / 2) * dy];
      const right = inside(mx + nx, my + ny);
      if (right === inside(mx - nx, my - ny)) continue;
      if (!right) [p, q] = [q, p];
      // What goes there and back covers nothing.
      if (next.get(String(q))?.delete(String(p))) continue;
      if (!next.has(String(p))) next.set(String(p), new Map());
      next.get(String(p))!.set(String(q), q);
    }
  });
  const rings: number[][] = [];
  for (const [from, ends] of next) {
    while (ends.size) {
      const xy = from.split(",").map(Number);
      for (let at = from; ; ) {
        const ways = next.get(at);
        const way = ways?.entries().next().value;
        if (!way) return null;
        ways!.delete(way[0]);
        if (way[0] === from) break;
        xy.push(...way[1]);
        at = way[0];
      }
      if (xy.length >= 6) rings.push(xy);
    }
  }
  return rings;
}
