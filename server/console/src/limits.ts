// Limits as they are written: "mean in [90, 140]", "p99 < 200". docs/regions.md has the grammar; the server decides, and
// this only finds where to draw lines.

/** Bounds are where the lines of a limit are; the quantity is what is on the axis. */
export interface Bounds {
  quantity: string;
  low?: number;
  high?: number;
}

const number = "[-+]?(?:\\d+\\.?\\d*|\\.\\d+)(?:[eE][-+]?\\d+)?";
const interval = new RegExp(`^(.*?)\\s+in\\s*[[(]\\s*(${number})\\s*,\\s*(${number})\\s*[\\])]\\s*$`);
const comparison = new RegExp(`^(.*?)\\s*(<=|>=|==|=|<|>)\\s*(${number})\\s*$`);

export function boundsOf(expression: string): Bounds {
  let m = interval.exec(expression);
  if (m) return { quantity: m[1]!, low: Number(m[2]), high: Number(m[3]) };
  m = comparison.exec(expression);
  if (!m) return { quantity: expression };
  const n = Number(m[3]);
  const b: Bounds = { quantity: m[1]! };
  if (m[2] !== "<" && m[2] !== "<=") b.low = n;
  if (m[2] !== ">" && m[2] !== ">=") b.high = n;
  return b;
}

/** withBounds writes a limit on a quantity. */
export function withBounds(quantity: string, low: number | undefined, high: number | undefined): string {
  if (low !== undefined && high !== undefined) return `${quantity} in [${low}, ${high}]`;
  if (low !== undefined) return `${quantity} >= ${low}`;
  return `${quantity} <= ${high ?? 0}`;
}
