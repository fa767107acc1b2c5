// Limits as they are written: "mean in [90, 140]", "p99 < 200". docs/regions.md has the grammar; the server decides, and
// this only finds where to draw lines.

/** Bounds are where the lines of a limit are; the quantity is what is on the axis. */
export interface Bounds {
  quantity: string;
  low?: number;
  high?: number;
  /** mm, mm2 or mm²; values of the limit are in it. */
  unit?: string;
}

const number = "[-+]?(?:\\d+\\.?\\d*|\\.\\d+)(?:[eE][-+]?\\d+)?";
const unit = "\\s*(mm(?:2|²|\\^2)?)?\\s*$";
const interval = new RegExp(`^(.*?)\\s+in\\s*[[(]\\s*(${number})\\s*,\\s*(${number})\\s*[\\])]${unit}`, "i");
const comparison = new RegExp(`^(.*?)\\s*(<=|>=|==|=|<|>)\\s*(${number})${unit}`, "i");

export function boundsOf(expression: string): Bounds {
  let m = interval.exec(expression);
  if (m) return { quantity: m[1]!, low: Number(m[2]), high: Number(m[3]), unit: m[4] };
  m = comparison.exec(expression);
  if (!m) return { quantity: expression };
  const n = Number(m[3]);
  const b: Bounds = { quantity: m[1]!, unit: m[4] };
  if (m[2] !== "<" && m[2] !== "<=") b.low = n;
  if (m[2] !== ">" && m[2] !== ">=") b.high = n;
  return b;
}

/** withBounds writes a limit on a quantity. */
export function withBounds(quantity: string, low: number | undefined, high: number | undefined, unit = ""): string {
  const mm = unit && ` ${unit}`;
  if (low !== undefined && high !== undefined) return `${quantity} in [${low}, ${high}]${mm}`;
  if (low !== undefined) return `${quantity} >= ${low}${mm}`;
  return `${quantity} <= ${high ?? 0}${mm}`;
}
