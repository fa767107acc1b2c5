// What regions have beside the statistics of channels: textures, correlations and blobs, as rows of numbers.

import { short } from "./format";
import { CorrelationKind, type Correlation, type PixelOffset, type RegionResult } from "./gen/polyscan/v1/region_pb";
import { text } from "./text";

const t = text.measured;

const most = 12; // rows of each kind

const at = (o: PixelOffset | undefined): string => `(${o?.dx ?? 0}, ${o?.dy ?? 0})`;

/** pairOf names the pairs that a correlation is of. */
function pairOf(c: Correlation): string {
  const of = c.of!;
  switch (of.kind) {
    case CorrelationKind.RADIAL:
      return t.radial(of.radius);
    case CorrelationKind.FRAME:
      return t.frame(of.frame, at(of.offset));
    case CorrelationKind.CHANNEL:
      return t.channel(text.live.channels[of.with] ?? String(of.with));
    default:
      return t.lag(at(of.offset));
  }
}

/** channels writes a number of each channel. */
const channels = <T>(all: T[], value: (one: T) => number | undefined): string => all.map((one) => short(value(one))).join(" · ");

/** measured are rows of a name and its numbers, one for each channel. */
export function measured(r: RegionResult): [string, string][] {
  const rows: [string, string][] = [];
  r.channels[0]?.textures.slice(0, most).forEach((first, i) => {
    const of = r.channels.map((c) => c.textures[i]!);
    for (const k of ["contrast", "homogeneity", "energy", "correlation", "entropy"] as const) rows.push([t.texture(t.textures[k], at(first.offset)), channels(of, (x) => x?.[k])]);
  });
  r.channels[0]?.correlations.slice(0, most).forEach((first, i) => {
    rows.push([pairOf(first), channels(r.channels, (c) => c.correlations[i]?.correlation)]);
  });
  const more = (r.channels[0]?.correlations.length ?? 0) - most;
  if (more > 0) rows.push([t.correlations, t.more(more)]);
  const b = r.blobs;
  if (!b) return rows;
  rows.push([t.blobs, b.tooMany ? t.tooMany(short(b.kept)) : t.kept(short(b.kept), short(b.found))], [t.blobArea, short(b.area)]);
  if (b.blobs.length) {
    const largest = b.blobs.reduce((a, x) => (x.area > a.area ? x : a));
    rows.push([t.largest, t.blob(short(largest.area), short(largest.length), short(largest.breadth))]);
  }
  return rows;
}
