// Masks of files: PNG, LabelMe's and COCO's, as runs of pixels in a row: y, x0, x1, ... of clients/regionfile.

import { text } from "../text";

const mostPixels = 1 << 28; // of a mask
const mostEdges = 1 << 20;

const bad = (): Error => new Error(text.recipe.unreadable);

/** Labels are the values of an image: samples of gray, indices of a palette, or colours as 0xrrggbb. */
interface Labels {
  width: number;
  height: number;
  coloured: boolean;
  values: Uint32Array;
}

/** png decodes a file as its samples are: a canvas has colours of 8 bits, and neither 16 nor indices of a palette. */
async function png(file: Uint8Array<ArrayBuffer>): Promise<Labels> {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  let [width, height, depth, kind, interlaced, transparent] = [0, 0, 0, 0, 0, false];
  for (let at = 8; at + 12 <= file.length; ) {
    const length = view.getUint32(at);
    const name = String.fromCharCode(...file.subarray(at + 4, at + 8));
    const data = file.subarray(at + 8, at + 8 + length);
    if (name === "IHDR" && length === 13) [width, height, depth, kind, interlaced] = [view.getUint32(at + 8), view.getUint32(at + 12), data[8]!, data[9]!, data[12]!];
    if (name === "IDAT") pieces.push(data);
    if (name === "tRNS") transparent = true;
    at += 12 + length;
  }
  const channels = [1, 0, 3, 1, 2, 0, 4][kind];
  if (!width || !height || !channels || ![1, 2, 4, 8, 16].includes(depth)) throw bad();
  if (width * height > mostPixels) throw new Error(text.recipe.largeMask(mostPixels));
  if (interlaced) throw new Error(text.recipe.interlacedMask);
  const row = Math.ceil((width * channels * depth) / 8);
  const each = Math.max(1, (channels * depth) / 8);
  const plain = await inflated(pieces, (row + 1) * height);
  const coloured = channels > 1 || (kind === 0 && transparent);
  const values = new Uint32Array(width * height);
  let before: Uint8Array = new Uint8Array(row);
  for (let y = 0; y < height; y++) {
    const filter = plain[y * (row + 1)]!;
    const line = plain.subarray(y * (row + 1) + 1, (y + 1) * (row + 1));
    for (let i = 0; i < row; i++) {
      const [a, b, c] = [i < each ? 0 : line[i - each]!, before[i]!, i < each ? 0 : before[i - each]!];
      const p = a + b - c;
      const nearest = Math.abs(p - a) <= Math.abs(p - b) && Math.abs(p - a) <= Math.abs(p - c) ? a : Math.abs(p - b) <= Math.abs(p - c) ? b : c;
      line[i]! += [0, a, b, (a + b) >> 1, nearest][filter] ?? 0;
    }
    before = line;
    const sample = (i: number): number => {
      if (depth === 16) return (line[2 * i]! << 8) | line[2 * i + 1]!;
      if (depth === 8) return line[i]!;
      return (line[(i * depth) >> 3]! >> (8 - depth - ((i * depth) & 7))) & ((1 << depth) - 1);
    };
    // Gray of fewer bits goes from 0 to 255.
    const scale = kind === 0 && depth < 8 ? 255 / ((1 << depth) - 1) : 1;
    const shift = depth === 16 && coloured ? 8 : 0;
    for (let x = 0; x < width; x++) {
      const one = (k: number): number => (sample(x * channels + (channels > 2 ? k : 0)) * scale) >> shift;
      values[y * width + x] = coloured ? (one(0) << 16) | (one(1) << 8) | one(2) : one(0);
    }
  }
  return { width, height, coloured, values };
}

/** inflated are so many bytes of what zlib has compressed; more are not read. */
async function inflated(pieces: Uint8Array<ArrayBuffer>[], bytes: number): Promise<Uint8Array> {
  const out = new Uint8Array(bytes);
  const reader = new Blob(pieces).stream().pipeThrough(new DecompressionStream("deflate")).getReader();
  let at = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done || at + value.length > bytes) break;
      out.set(value, at);
      at += value.length;
    }
  } catch {
    throw bad();
  }
  void reader.cancel().catch(() => {});
  if (at < bytes) throw bad();
  return out;
}

/** labelRuns are the runs of each label but 0, with the first pixel at (x0, y0). */
function labelRuns(l: Labels, x0: number, y0: number): Map<number, number[]> {
  const all = new Map<number, number[]>();
  for (let y = 0; y < l.height; y++) {
    for (let x = 0; x < l.width; ) {
      const v = l.values[y * l.width + x]!;
      const from = x;
      while (x < l.width && l.values[y * l.width + x] === v) x++;
      if (!v) continue;
      const runs = all.get(v) ?? [];
      all.set(v, runs);
      runs.push(y0 + y, x0 + from, x0 + x);
    }
  }
  return all;
}

/** labelImage are the regions of a PNG: one for each value but 0. Photographs are none. */
export async function labelImage(file: Uint8Array<ArrayBuffer>): Promise<{ name: string; mask: number[] }[]> {
  const image = await png(file);
  const all = [...labelRuns(image, 0, 0)].sort(([a], [b]) => a - b);
  const runs = all.reduce((n, [, r]) => n + r.length / 3, 0);
  if (all.length > 32 && runs > image.values.length / 4) throw new Error(text.recipe.photograph);
  const name = (v: number): string => (all.length === 1 ? "mask" : image.coloured ? `label-#${v.toString(16).padStart(6, "0")}` : `label-${v}`);
  return all.map(([v, mask]) => ({ name: name(v), mask }));
}

/** pngMask are the pixels of LabelMe's PNG, in base64, that aren't 0. Its first one is at a point. */
export async function pngMask(base64: string, [px, py]: [number, number]): Promise<number[]> {
  let file: Uint8Array<ArrayBuffer>;
  try {
    file = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  } catch {
    throw bad();
  }
  // Halves to even, as the command line rounds.
  const even = (v: number): number => (v - Math.floor(v) === 0.5 ? 2 * Math.round(v / 2) : Math.round(v));
  return union([...labelRuns(await png(file), even(px), even(py)).values()].flat());
}

/** union are runs that may overlap, as those of a mask are: row by row, and not touching. */
export function union(runs: number[]): number[] {
  const all = Array.from({ length: runs.length / 3 }, (_, i) => runs.slice(3 * i, 3 * i + 3)).sort((a, b) => a[0]! - b[0]! || a[1]! - b[1]!);
  const out: number[] = [];
  for (const [y, x0, x1] of all) {
    if (out.at(-3) === y && x0! <= out.at(-1)!) out[out.length - 1] = Math.max(out.at(-1)!, x1!);
    else out.push(y!, x0!, x1!);
  }
  return out;
}

/** runLengths are the pixels of COCO's run-length data: clear and set ones in turn, down each column. */
export function runLengths(size: unknown, counts: unknown): number[] {
  const [h, w] = Array.isArray(size) ? (size as number[]) : [];
  if (!(Number.isInteger(h) && Number.isInteger(w) && h! > 0 && w! > 0)) throw bad();
  if (h! * w! > mostPixels) throw new Error(text.recipe.largeMask(mostPixels));
  const lengths = typeof counts === "string" ? decompressed(counts) : counts;
  if (!Array.isArray(lengths)) throw bad();
  const rows: number[][] = []; // x0, x1 of each run
  let at = 0;
  (lengths as number[]).forEach((n, k) => {
    if (!(Number.isInteger(n) && n >= 0 && at + n <= w! * h!)) throw bad();
    for (const end = at + n; at < end; at++) {
      if (k % 2 === 0) {
        at = end;
        break;
      }
      const x = Math.floor(at / h!);
      const row = (rows[at - x * h!] ??= []);
      if (row.at(-1) === x) row[row.length - 1] = x + 1;
      else row.push(x, x + 1);
    }
  });
  if (at !== w! * h!) throw bad();
  const out: number[] = [];
  rows.forEach((row, y) => {
    for (let i = 0; i < row.length; i += 2) out.push(y, row[i]!, row[i + 1]!);
  });
  return out;
}

/** decompressed are run lengths of 6 bits a character: 5 of a signed number, lowest first, and one that says that more
 * follow. From the fourth on they are differences to the run two before. */
function decompressed(s: string): number[] {
  const out: number[] = [];
  for (let i = 0; i < s.length; ) {
    let v = 0;
    for (let scale = 1; ; scale *= 32) {
      const c = s.charCodeAt(i++) - 48;
      if (!(c >= 0 && c < 64) || scale > 2 ** 45) throw bad();
      v += (c & 31) * scale;
      if (c & 32) continue;
      if (c & 16) v -= 32 * scale;
      break;
    }
    out.push(v + (out.length > 2 ? out.at(-2)! : 0));
  }
  return out;
}

/** outline are the rings around a mask's pixels, along their borders: clockwise on the screen, holes the other way. */
export function outline(mask: number[]): number[][] {
  const rows = new Map<number, number[]>();
  for (let i = 0; i < mask.length; i += 3) {
    const row = rows.get(mask[i]!) ?? [];
    rows.set(mask[i]!, row);
    row.push(mask[i + 1]!, mask[i + 2]!);
  }
  // Every edge has pixels of the mask on its right.
  const edges: [fromX: number, fromY: number, toX: number, toY: number][] = [];
  for (const y of new Set([...rows.keys()].flatMap((y) => [y, y + 1]))) {
    const above = rows.get(y - 1) ?? [];
    const below = rows.get(y) ?? [];
    for (let k = 0; k < below.length; k += 2) edges.push([below[k]!, y + 1, below[k]!, y], [below[k + 1]!, y, below[k + 1]!, y + 1]);
    // Between two ends of either row nothing changes.
    for (let i = 0, j = 0, since = -Infinity; i < above.length || j < below.length; ) {
      const x = Math.min(above[i] ?? Infinity, below[j] ?? Infinity);
      if (x > since && i % 2 > j % 2) edges.push([x, y, since, y]);
      if (x > since && i % 2 < j % 2) edges.push([since, y, x, y]);
      if (above[i] === x) i++;
      if (below[j] === x) j++;
      since = x;
    }
    if (edges.length > mostEdges) throw new Error(text.recipe.largeMask(mostEdges));
  }
  edges.sort((a, b) => a[1] - b[1] || a[0] - b[0]);
  const from = new Map<string, number[]>();
  edges.forEach(([x, y], i) => {
    const key = `${x} ${y}`;
    from.set(key, [...(from.get(key) ?? []), i]);
  });
  const heading = (i: number): [number, number] => [Math.sign(edges[i]![2] - edges[i]![0]), Math.sign(edges[i]![3] - edges[i]![1])];
  // Where pixels touch with their corners two edges go on: the right turn stays with the pixel of this one.
  const follow = (i: number): number => {
    const all = from.get(`${edges[i]![2]} ${edges[i]![3]}`)!;
    const [dx, dy] = heading(i);
    return all.find((k) => heading(k)[0] === -dy && heading(k)[1] === dx) ?? all[0]!;
  };
  const used = new Uint8Array(edges.length);
  const rings: number[][] = [];
  edges.forEach((_, first) => {
    const ring: number[] = [];
    let last = "";
    for (let i = first; !used[i]; i = follow(i)) {
      used[i] = 1;
      const now = heading(i).join();
      if (now !== last) ring.push(edges[i]![0], edges[i]![1]);
      last = now;
    }
    if (ring.length) rings.push(ring);
  });
  return rings;
}

/** extent is where runs end: the smallest width and height that hold them, from the frame's corner. */
function extent(mask: number[]): [width: number, height: number] {
  let [width, height] = [0, 0];
  for (let i = 0; i < mask.length; i += 3) [width, height] = [Math.max(width, mask[i + 2]!), Math.max(height, mask[i]! + 1)];
  return [width, height];
}

/** outside says that a mask has pixels left of the frame or above it. */
export const outside = (mask: number[]): boolean => mask.some((v, i) => i % 3 < 2 && v < 0);

/** bounded is an error for a picture that nobody could read again. */
function bounded(width: number, height: number): void {
  if (width * height > mostPixels) throw new Error(text.recipe.largeMask(mostPixels));
}

/** cocoRuns are COCO's run-length data of a mask: clear and set pixels in turn, down each column of the frame, which
 * grows where the mask reaches beyond it. */
export function cocoRuns(mask: number[], width: number, height: number): { size: [number, number]; counts: number[] } {
  const [right, bottom] = extent(mask);
  const [w, h] = [Math.max(width, right), Math.max(height, bottom)];
  bounded(w, h);
  const columns: number[][] = []; // y0, y1 of each run down
  for (let i = 0; i < mask.length; i += 3) {
    for (let x = mask[i + 1]!; x < mask[i + 2]!; x++) {
      const column = (columns[x] ??= []);
      if (column.at(-1) === mask[i]) column[column.length - 1] = mask[i]! + 1;
      else column.push(mask[i]!, mask[i]! + 1);
    }
  }
  const ends: number[] = []; // of set pixels; what goes on at the head of the next column is one
  columns.forEach((column, x) => {
    column.forEach((y, k) => {
      const at = x * h + y;
      if (k % 2 === 0 && ends.at(-1) === at) ends.pop();
      else ends.push(at);
    });
  });
  if (ends.at(-1) !== w * h) ends.push(w * h);
  const counts = ends.map((at, k) => at - (k ? ends[k - 1]! : 0));
  return { size: [h, w], counts };
}

/** labelMePng is the picture of a mask in base64, whose first pixel is at the first point. */
export async function labelMePng(mask: number[]): Promise<{ points: [number, number][]; mask: string }> {
  let [x0, y0] = [Infinity, Infinity];
  for (let i = 0; i < mask.length; i += 3) [x0, y0] = [Math.min(x0, mask[i + 1]!), Math.min(y0, mask[i]!)];
  const [right, bottom] = extent(mask.map((v, i) => (i % 3 ? v - x0 : v - y0)));
  const file = await grayPng(right, bottom, 8, [{ mask: mask.map((v, i) => (i % 3 ? v - x0 : v - y0)), value: 255 }]);
  let binary = "";
  for (let i = 0; i < file.length; i += 8192) binary += String.fromCharCode(...file.subarray(i, i + 8192));
  return { points: [[x0, y0], [x0 + right - 1, y0 + bottom - 1]], mask: btoa(binary) };
}

/** labelPng is an image of labels: 1 for the first region and so on. */
export async function labelPng(shapes: { name: string; mask: number[] }[], width: number, height: number): Promise<Uint8Array<ArrayBuffer>> {
  if (shapes.length > 65535) throw new Error(text.recipe.manyLabels(65535));
  let [w, h] = [width, height];
  for (const s of shapes) {
    const [right, bottom] = extent(s.mask);
    [w, h] = [Math.max(w, right), Math.max(h, bottom)];
  }
  return grayPng(w, h, shapes.length > 255 ? 16 : 8, shapes.map((s, i) => ({ ...s, value: i + 1 })));
}

/** grayPng is a PNG of gray samples, 0 where no mask is. Masks that overlap are an error. */
async function grayPng(width: number, height: number, depth: 8 | 16, labels: { name?: string; mask: number[]; value: number }[]): Promise<Uint8Array<ArrayBuffer>> {
  bounded(width, height);
  const each = depth / 8;
  const row = 1 + width * each; // the first byte is the filter: none
  const plain = new Uint8Array(row * height);
  for (const { name, mask, value } of labels) {
    for (let i = 0; i < mask.length; i += 3) {
      for (let x = mask[i + 1]!; x < mask[i + 2]!; x++) {
        const at = mask[i]! * row + 1 + x * each;
        if (plain[at] || plain[at + each - 1]) throw new Error(text.recipe.overlapping(name ?? ""));
        if (each === 2) plain[at] = value >> 8;
        plain[at + each - 1] = value & 255;
      }
    }
  }
  const head = new Uint8Array(13);
  new DataView(head.buffer).setUint32(0, width);
  new DataView(head.buffer).setUint32(4, height);
  head[8] = depth;
  const deflated = await new Response(new Blob([plain]).stream().pipeThrough(new CompressionStream("deflate"))).arrayBuffer();
  const pieces = [new Uint8Array([0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10]), piece("IHDR", head), piece("IDAT", new Uint8Array(deflated)), piece("IEND", new Uint8Array())];
  return new Uint8Array(await new Blob(pieces).arrayBuffer());
}

/** piece is a chunk of a PNG: length, name, data and the CRC of the last two. */
function piece(name: string, data: Uint8Array): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(12 + data.length);
  const view = new DataView(out.buffer);
  view.setUint32(0, data.length);
  for (let i = 0; i < 4; i++) out[4 + i] = name.charCodeAt(i);
  out.set(data, 8);
  let crc = -1;
  for (const b of out.subarray(4, 8 + data.length)) {
    crc ^= b;
    for (let k = 0; k < 8; k++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  view.setUint32(8 + data.length, ~crc >>> 0);
  return out;
}
