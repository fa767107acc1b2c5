// Numbers and sizes for people.

/** short writes a number in few digits. */
export function short(n: number | bigint | undefined): string {
  if (n === undefined) return "–";
  const v = Number(n);
  if (!Number.isFinite(v)) return "–";
  if (Number.isInteger(v) && Math.abs(v) < 1e7) return v.toLocaleString("en");
  const a = Math.abs(v);
  if (a >= 1e7 || (a < 1e-3 && a > 0)) return v.toExponential(2);
  return v.toFixed(a >= 1000 ? 0 : a >= 100 ? 1 : a >= 1 ? 2 : 4);
}

const units = ["B", "KiB", "MiB", "GiB", "TiB"];

/** bytes writes a size. */
export function bytes(n: number | bigint): string {
  let v = Number(n);
  let u = 0;
  // What would be rounded to 1024 goes up, too.
  while (v >= 1023.5 && u < units.length - 1) {
    v /= 1024;
    u++;
  }
  return `${v >= 100 || u === 0 ? Math.round(v) : v.toFixed(1)} ${units[u]}`;
}

/** time writes milliseconds. */
export function time(ms: number): string {
  if (!Number.isFinite(ms)) return "–";
  if (ms >= 10_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms >= 100) return `${Math.round(ms)} ms`;
  return ms >= 1 ? `${ms.toFixed(1)} ms` : `${Math.round(ms * 1000)} µs`;
}
