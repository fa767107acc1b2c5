// Pictures of parts with their regions: previews, which the server makes small.

import { color } from "./dom";
import { Encoding } from "./gen/polyscan/v1/frame_pb";
import type { Preview, RegionPlace } from "./gen/polyscan/v1/monitor_pb";
import { markOf, type Mark } from "./watch";

/** Picture is a preview that was decoded. */
export interface Picture {
  image: ImageBitmap;
  places: RegionPlace[];
  /** Of which part it is, and what became of it. */
  part?: string;
  mark?: Mark;
}

export async function decode(p: Preview): Promise<Picture> {
  const kind = p.encoding === Encoding.PNG ? "image/png" : "image/jpeg";
  return { image: await createImageBitmap(new Blob([p.data as Uint8Array<ArrayBuffer>], { type: kind })), places: p.places, part: p.partId, mark: markOf(p) };
}

/** A picture that is so much wider than high is shown in rows, one below the other. */
const widest = 5;

/** drawPicture fills a canvas with a picture and its regions. The canvas keeps its width; its height becomes what the
 * picture needs, up to most CSS pixels. */
export function drawPicture(canvas: HTMLCanvasElement, p: Picture, chosen: number, most: number): void {
  const { image } = p;
  const aspect = image.width / image.height;
  const rows = aspect > widest ? Math.max(1, Math.round(Math.sqrt(aspect / 2))) : 1;
  const slice = image.width / rows;
  const gap = rows > 1 ? 6 : 0;
  const room = canvas.parentElement!.clientWidth;
  const scale = Math.min(room / slice, (most - (rows - 1) * gap) / (image.height * rows), 8);
  const ratio = devicePixelRatio;
  const width = slice * scale;
  const height = image.height * scale * rows + (rows - 1) * gap;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const c = canvas.getContext("2d")!;
  c.imageSmoothingEnabled = scale < 3;
  for (let row = 0; row < rows; row++) {
    const y = row * (image.height * scale + gap);
    c.save();
    c.scale(ratio, ratio);
    c.beginPath();
    c.rect(0, y, width, image.height * scale);
    c.clip();
    c.drawImage(image, row * slice, 0, slice, image.height, 0, y, width, image.height * scale);
    c.translate(-row * slice * scale, y);
    places(c, p.places, chosen, scale);
    c.restore();
  }
}

/** places draws regions: failed ones last, so that nothing hides them, with a cross. */
function places(c: CanvasRenderingContext2D, all: RegionPlace[], chosen: number, scale: number): void {
  const crowded = all.length > 300;
  const order = [...all].sort((a, b) => rank(a, chosen) - rank(b, chosen));
  for (const r of order) {
    const mark = markOf(r);
    if (crowded && mark === "pass" && r.index !== chosen) continue;
    const path = new Path2D();
    let left = Infinity;
    let top = Infinity;
    let right = -Infinity;
    for (const ring of r.rings) {
      for (let i = 0; i + 1 < ring.xy.length; i += 2) {
        const x = ring.xy[i]! * scale;
        const y = ring.xy[i + 1]! * scale;
        if (i === 0) path.moveTo(x, y);
        else path.lineTo(x, y);
        left = Math.min(left, x);
        right = Math.max(right, x);
        top = Math.min(top, y);
      }
      path.closePath();
    }
    const failed = mark === "fail";
    c.lineJoin = "round";
    c.setLineDash([]);
    c.lineWidth = (failed || r.index === chosen ? 3 : 1.5) + 2;
    c.strokeStyle = "#000a";
    c.stroke(path);
    c.lineWidth -= 2;
    c.strokeStyle = r.index === chosen ? color("chosen") : color(failed ? "fail-line" : mark === "pass" ? "pass-line" : "none-line");
    if (mark === "none") c.setLineDash([6, 4]);
    c.stroke(path);
    if (failed && Number.isFinite(left)) cross(c, right, top);
  }
}

function rank(r: RegionPlace, chosen: number): number {
  return r.index === chosen ? 2 : markOf(r) === "fail" ? 1 : 0;
}

function cross(c: CanvasRenderingContext2D, x: number, y: number): void {
  const r = 7;
  c.setLineDash([]);
  c.fillStyle = color("fail-line");
  c.fillRect(x - r, y - r, 2 * r, 2 * r);
  c.strokeStyle = "#fff";
  c.lineWidth = 2.5;
  c.beginPath();
  c.moveTo(x - 4, y - 4);
  c.lineTo(x + 4, y + 4);
  c.moveTo(x + 4, y - 4);
  c.lineTo(x - 4, y + 4);
  c.stroke();
}
