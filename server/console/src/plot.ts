// Plots: values over time against limits, and histograms.

import uPlot from "uplot";
import { color, h } from "./dom";
import { short } from "./format";
import type { Bounds } from "./limits";
import { text } from "./text";

/** A value, and whether it held its limit. */
export interface Value {
  y: number;
  failed: boolean;
}

/** ValuePlot shows the last values against their limits. */
export class ValuePlot {
  readonly element = h("div", { class: "plot", role: "img" });
  /** control has the lines of a control chart, where there is one. */
  control: { mean: number; low?: number; high?: number } | undefined;
  private plot: uPlot | null = null;
  private values: Value[] = [];
  private bounds: Bounds = { quantity: "" };
  private readonly observer = new ResizeObserver(() => this.resize());
  private readonly retheme = (): void => {
    this.plot?.destroy();
    this.plot = null;
    this.draw();
  };

  constructor() {
    this.observer.observe(this.element);
    window.addEventListener("theme", this.retheme);
  }

  end(): void {
    this.observer.disconnect();
    window.removeEventListener("theme", this.retheme);
    this.plot?.destroy();
  }

  show(values: Value[], bounds: Bounds, label: string): void {
    this.values = values;
    this.bounds = bounds;
    this.element.setAttribute("aria-label", label);
    this.draw();
  }

  private data(): uPlot.AlignedData {
    const n = this.values.length;
    return [Array.from({ length: n }, (_, i) => i - n + 1), this.values.map((v) => (Number.isFinite(v.y) ? v.y : null))];
  }

  private range(): [number, number] {
    let low = Infinity;
    let high = -Infinity;
    for (const v of this.values) {
      if (!Number.isFinite(v.y)) continue;
      low = Math.min(low, v.y);
      high = Math.max(high, v.y);
    }
    for (const b of [this.bounds.low, this.bounds.high, this.control?.low, this.control?.high]) {
      if (b === undefined) continue;
      low = Math.min(low, b);
      high = Math.max(high, b);
    }
    if (low > high) return [0, 1];
    const pad = (high - low || Math.abs(high) || 1) * 0.08;
    return [low - pad, high + pad];
  }

  private draw(): void {
    if (this.plot) {
      this.plot.setData(this.data());
      return;
    }
    const width = this.element.clientWidth;
    if (!width) return;
    const axis = { stroke: color("muted"), grid: { stroke: color("grid"), width: 1 }, ticks: { show: false }, font: "14px system-ui, sans-serif" };
    this.plot = new uPlot(
      {
        width,
        height: this.element.clientHeight || 240,
        legend: { show: false },
        cursor: { show: false },
        scales: { x: { time: false, range: () => [-Math.max(20, this.values.length - 1), 0.5] }, y: { range: () => this.range() } },
        axes: [{ ...axis, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500], values: (_u, ticks) => ticks.map((t) => (t === 0 ? text.last : String(t))) }, { ...axis, size: 64, values: (_u, ticks) => ticks.map((t) => short(t)) }],
        series: [{}, { stroke: color("ink"), width: 1.5, points: { show: false } }],
        hooks: { drawAxes: [(u) => this.limits(u)], draw: [(u) => this.failures(u)] },
      },
      this.data(),
      this.element,
    );
  }

  private limits(u: uPlot): void {
    const c = u.ctx;
    const { left, top, width, height } = u.bbox;
    c.save();
    c.lineWidth = 2 * devicePixelRatio;
    c.strokeStyle = color("fail");
    c.fillStyle = color("fail-soft");
    for (const [at, above] of [[this.bounds.low, false], [this.bounds.high, true]] as const) {
      if (at === undefined) continue;
      const y = u.valToPos(at, "y", true);
      c.fillRect(left, above ? top : y, width, above ? y - top : top + height - y);
      c.setLineDash([8 * devicePixelRatio, 5 * devicePixelRatio]);
      c.beginPath();
      c.moveTo(left, y);
      c.lineTo(left + width, y);
      c.stroke();
    }
    c.strokeStyle = color("accent");
    for (const [at, dashes] of [[this.control?.mean, []], [this.control?.low, [3, 4]], [this.control?.high, [3, 4]]] as const) {
      if (at === undefined) continue;
      const y = u.valToPos(at, "y", true);
      c.setLineDash(dashes.map((d) => d * devicePixelRatio));
      c.beginPath();
      c.moveTo(left, y);
      c.lineTo(left + width, y);
      c.stroke();
    }
    c.restore();
  }

  private failures(u: uPlot): void {
    const c = u.ctx;
    const r = 4.5 * devicePixelRatio;
    const n = this.values.length;
    c.save();
    c.lineWidth = 2.5 * devicePixelRatio;
    c.strokeStyle = color("fail");
    c.fillStyle = color("ink");
    this.values.forEach((v, i) => {
      if (!Number.isFinite(v.y)) return;
      const x = u.valToPos(i - n + 1, "x", true);
      const y = u.valToPos(v.y, "y", true);
      c.beginPath();
      if (v.failed) {
        c.moveTo(x - r, y - r);
        c.lineTo(x + r, y + r);
        c.moveTo(x + r, y - r);
        c.lineTo(x - r, y + r);
        c.stroke();
      } else if (n <= 60) {
        c.arc(x, y, 2.5 * devicePixelRatio, 0, 2 * Math.PI);
        c.fill();
      }
    });
    c.restore();
  }

  private resize(): void {
    const { clientWidth: width, clientHeight: height } = this.element;
    if (!width || !height) return;
    if (this.plot) this.plot.setSize({ width, height });
    else this.draw();
  }
}

/** Bins of a histogram, and where they are. */
export interface Bins {
  lower: number;
  upper: number;
  counts: number[];
}

/** binsOf counts values. */
export function binsOf(values: number[], n: number): Bins {
  const finite = values.filter(Number.isFinite);
  let lower = Math.min(...finite);
  let upper = Math.max(...finite);
  if (!finite.length) return { lower: 0, upper: 1, counts: [] };
  if (lower === upper) {
    lower -= 0.5;
    upper += 0.5;
  }
  const counts = new Array<number>(n).fill(0);
  for (const v of finite) counts[Math.min(n - 1, Math.floor(((v - lower) / (upper - lower)) * n))]!++;
  return { lower, upper, counts };
}

/** drawHistogram draws bins into a canvas, with the limits on the same axis. */
export function drawHistogram(canvas: HTMLCanvasElement, bins: Bins, bounds: Bounds): void {
  const scale = devicePixelRatio;
  const width = (canvas.width = Math.max(1, Math.round(canvas.clientWidth * scale)));
  const height = (canvas.height = Math.max(1, Math.round(canvas.clientHeight * scale)));
  const c = canvas.getContext("2d")!;
  const foot = 20 * scale;
  const most = Math.max(1, ...bins.counts);
  let lower = bins.lower;
  let upper = bins.upper;
  // Full histograms have long empty ends.
  let first = bins.counts.findIndex((n) => n > 0);
  let last = bins.counts.length - 1;
  while (last > first && !bins.counts[last]) last--;
  const step = (bins.upper - bins.lower) / bins.counts.length;
  if (first >= 0) {
    lower = Math.min(bins.lower + first * step, bounds.low ?? Infinity, bounds.high ?? Infinity);
    upper = Math.max(bins.lower + (last + 1) * step, bounds.low ?? -Infinity, bounds.high ?? -Infinity);
    const pad = (upper - lower) * 0.04 || 1;
    lower -= pad;
    upper += pad;
  } else {
    first = 0;
  }
  const at = (v: number): number => ((v - lower) / (upper - lower)) * width;
  c.fillStyle = color("bar");
  for (let i = first; i <= last; i++) {
    const x = at(bins.lower + i * step);
    const w = Math.max(scale, at(bins.lower + (i + 1) * step) - x - (step / (upper - lower)) * width * 0.1);
    const y = ((bins.counts[i] ?? 0) / most) * (height - foot - 4 * scale);
    c.fillRect(x, height - foot - y, w, y);
  }
  c.strokeStyle = color("muted");
  c.fillStyle = color("muted");
  c.lineWidth = scale;
  c.beginPath();
  c.moveTo(0, height - foot);
  c.lineTo(width, height - foot);
  c.stroke();
  c.font = `${13 * scale}px system-ui, sans-serif`;
  c.textBaseline = "bottom";
  c.textAlign = "left";
  // The numbers of the ends give way to those of limits, which would be drawn over them.
  const ends = [bounds.low, bounds.high].filter((b) => b !== undefined).map(at);
  const room = 60 * scale;
  if (!ends.some((x) => x < room)) c.fillText(short(lower), 2 * scale, height - 1);
  c.textAlign = "right";
  if (!ends.some((x) => x > width - room)) c.fillText(short(upper), width - 2 * scale, height - 1);
  c.strokeStyle = c.fillStyle = color("fail");
  c.textAlign = "center";
  c.lineWidth = 2 * scale;
  c.setLineDash([6 * scale, 4 * scale]);
  for (const b of [bounds.low, bounds.high]) {
    if (b === undefined) continue;
    const x = at(b);
    c.beginPath();
    c.moveTo(x, 0);
    c.lineTo(x, height - foot);
    c.stroke();
    c.fillText(short(b), Math.min(width - 24 * scale, Math.max(24 * scale, x)), height - 1);
  }
}
