// What blobs are, as the page keeps it, as text of regions files and the command line, and of a message.

import { Channel } from "../gen/polyscan/v1/frame_pb";
import { BlobOrder, BlobThreshold, MorphKind, type BlobSpec } from "../gen/polyscan/v1/region_pb";
import { text } from "../text";

/** Step is a step of morphology: by a disc where it has a radius, or else by a rectangle. */
export interface Step {
  kind: MorphKind;
  width: number;
  height: number;
  radius: number;
}

/** Blobs are a BlobSpec without its message. Foreground is what is from lower to upper, one of which may be missing. */
export interface Blobs {
  channel: Channel;
  threshold: BlobThreshold;
  lower?: number;
  upper?: number;
  strongLower?: number;
  strongUpper?: number;
  fourConnected: boolean;
  steps: Step[];
  minArea: number;
  maxBlobs: number;
  order: BlobOrder;
  contours: boolean;
}

export const noBlobs = (): Blobs => ({ channel: 0, threshold: 0, fourConnected: false, steps: [], minArea: 0, maxBlobs: 0, order: 0, contours: false });

export function fromSpec(b: BlobSpec | undefined): Blobs | undefined {
  if (!b) return undefined;
  const { channel, threshold, lower, upper, strongLower, strongUpper, fourConnected, minArea, maxBlobs, order, contours } = b;
  const steps = b.steps.map(({ kind, width, height, radius }) => ({ kind, width, height, radius }));
  return { channel, threshold, lower, upper, strongLower, strongUpper, fourConnected, steps, minArea, maxBlobs, order, contours };
}

export const units: [string, BlobThreshold][] = [["%", BlobThreshold.PERCENTILES], ["sd", BlobThreshold.DEVIATIONS], ["", BlobThreshold.VALUES]];
export const channels: [string, Channel][] = [["gray", Channel.GRAY], ["red", Channel.RED], ["green", Channel.GREEN], ["blue", Channel.BLUE], ["alpha", Channel.ALPHA]];
export const morphs: [string, MorphKind][] = [["erode", MorphKind.ERODE], ["dilate", MorphKind.DILATE], ["open", MorphKind.OPEN], ["close", MorphKind.CLOSE]];

/** blobsText is what `polyscan blobs --find` takes, and regions files have in blobs(…). */
export function blobsText(b: Blobs): string {
  const unit = units.find(([name, threshold]) => name && threshold === b.threshold)?.[0];
  const range = (lower?: number, upper?: number): string =>
    (lower === undefined ? `<= ${upper}` : upper === undefined ? `>= ${lower}` : `${lower} to ${upper}`) + (unit ? ` ${unit}` : "");
  const given = (lower?: number, upper?: number): boolean => lower !== undefined || upper !== undefined;
  return [
    given(b.lower, b.upper) && range(b.lower, b.upper),
    given(b.strongLower, b.strongUpper) && `strong ${range(b.strongLower, b.strongUpper)}`,
    b.channel && `channel ${channels.find(([, c]) => c === b.channel)?.[0] ?? ""}`,
    ...b.steps.map((s) => `${morphs.find(([, kind]) => kind === s.kind)?.[0]} ${s.radius ? `disc ${s.radius}` : `${s.width}x${s.height}`}`),
    b.minArea && `min area ${b.minArea}`,
    b.maxBlobs && `most ${b.maxBlobs}`,
    b.order === BlobOrder.AREA && "by area",
    b.fourConnected && "4-connected",
    b.contours && "contours",
  ].filter(Boolean).join(", ");
}

/** readBlobs reads such a text. */
export function readBlobs(content: string): Blobs {
  const b = noBlobs();
  for (const part of content.split(",")) readPart(b, part.trim().toLowerCase().split(/\s+/).join(" "), part.trim());
  if (b.lower === undefined && b.upper === undefined) throw new Error(text.recipe.blobs.unread(content));
  return b;
}

function readPart(b: Blobs, line: string, part: string): void {
  const unread = (): Error => new Error(text.recipe.blobs.unread(part));
  const [word, ...rest] = line.split(" ");
  const kind = morphs.find(([name]) => name === word)?.[1];
  const count = /^(min area|most) (\d{1,9})$/.exec(line);
  if (line === "4-connected") b.fourConnected = true;
  else if (line === "contours") b.contours = true;
  else if (line === "by area") b.order = BlobOrder.AREA;
  else if (count) {
    const key = count[1] === "most" ? "maxBlobs" : "minArea";
    if (b[key] || !Number(count[2])) throw unread();
    b[key] = Number(count[2]);
  }
  else if (word === "channel") {
    const channel = channels.find(([name]) => rest[0] === name || (name !== "gray" && rest[0] === name[0]))?.[1];
    if (!channel || b.channel || rest.length > 1) throw unread();
    b.channel = channel;
  } else if (kind) {
    const size = /^(?:disc (\d+)|(\d+)x(\d+))$/.exec(rest.join(" "));
    if (!size) throw unread();
    b.steps.push({ kind, radius: Number(size[1] ?? 0), width: Number(size[2] ?? 0), height: Number(size[3] ?? 0) });
  } else if (word === "strong") [b.strongLower, b.strongUpper] = readRange(b, rest.join(" "), [b.strongLower, b.strongUpper], unread);
  else [b.lower, b.upper] = readRange(b, line, [b.lower, b.upper], unread);
}

function readRange(b: Blobs, line: string, before: (number | undefined)[], unread: () => Error): [number?, number?] {
  const n = "([+-]?(?:\\d+\\.?\\d*|\\.\\d+)(?:e[+-]?\\d+)?)";
  const r = new RegExp(`^(?:(>=|<=) ?${n}|${n} to ${n}) ?(%|sd)?$`).exec(line);
  if (!r || before.some((v) => v !== undefined)) throw unread();
  const threshold = units.find(([name]) => name === (r[5] ?? ""))![1];
  if (b.threshold && b.threshold !== threshold) throw unread();
  b.threshold = threshold;
  if (r[1]) return r[1] === ">=" ? [Number(r[2]), undefined] : [undefined, Number(r[2])];
  return [Number(r[3]), Number(r[4])];
}
