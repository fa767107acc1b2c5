// The histogram of a region with the ends of a limit on it, which are dragged.

import { color, h, onFrame } from "../dom";
import { short } from "../format";
import type { Bounds } from "../limits";

const foot = 22; // CSS pixels below the axis

export class LimitPlot {
  readonly element = h("canvas", { class: "histogram", role: "img" });
  /** Called while an end is dragged, and with done when it is let go. */
  moved: (low: number | undefined, high: number | undefined, done: boolean) => void = () => {};
  private counts: number[] = [];
  private bounds: Bounds = { quantity: "" };
  private range: [number, number] = [0, 255];
  private dragged: "low" | "high" | null = null;
  private readonly render = onFrame(() => this.draw());
  private readonly observer = new ResizeObserver(() => this.render());
  private readonly retheme = (): void => this.render();

  constructor() {
    const e = this.element;
    e.addEventListener("pointerdown", (ev) => {
      const x = ev.offsetX;
      const d = (v: number | undefined): number => (v === undefined ? Infinity : Math.abs(this.at(v) - x));
      const [low, high] = [d(this.bounds.low), d(this.bounds.high)];
      if (Math.min(low, high) > 24) return;
      this.dragged = low < high || (low === high && x < this.at(this.bounds.low!)) ? "low" : "high";
      e.setPointerCapture(ev.pointerId);
    });
    e.addEventListener("pointermove", (ev) => this.drag(ev, false));
    e.addEventListener("pointerup", (ev) => {
      this.drag(ev, true);
      this.dragged = null;
      this.reach();
      this.render();
    });
    this.observer.observe(e);
    window.addEventListener("theme", this.retheme);
  }

  end(): void {
    this.observer.disconnect();
    window.removeEventListener("theme", this.retheme);
  }

  show(counts: number[], bounds: Bounds, label: string): void {
    this.counts = counts;
    this.bounds = bounds;
    this.element.setAttribute("aria-label", label);
    if (!this.dragged) this.reach();
    this.render();
  }

  /** reach is what the axis shows: it stays while an end is dragged. */
  private reach(): void {
    const n = this.counts.length;
    let first = this.counts.findIndex((c) => c > 0);
    let last = n - 1;
    while (last > 0 && !this.counts[last]) last--;
    if (first < 0) [first, last] = [0, Math.max(1, n - 1)];
    const low = Math.min(first, this.bounds.low ?? Infinity, this.bounds.high ?? Infinity);
    const high = Math.max(last + 1, this.bounds.low ?? -Infinity, this.bounds.high ?? -Infinity);
    const pad = Math.max(2, (high - low) * 0.25);
    this.range = [Math.max(-1, low - pad), Math.min(n + 1, high + pad)];
  }

  private at(v: number): number {
    return ((v - this.range[0]) / (this.range[1] - this.range[0])) * this.element.clientWidth;
  }

  private drag(e: PointerEvent, done: boolean): void {
    if (!this.dragged) return;
    const v = this.range[0] + (e.offsetX / this.element.clientWidth) * (this.range[1] - this.range[0]);
    const fine = (this.range[1] - this.range[0]) / this.element.clientWidth < 0.3;
    let n = fine ? Math.round(v * 10) / 10 : Math.round(v);
    n = Math.min(Math.max(n, 0), this.counts.length - 1);
    let { low, high } = this.bounds;
    if (this.dragged === "low") low = Math.min(n, high ?? Infinity);
    else high = Math.max(n, low ?? -Infinity);
    this.bounds = { ...this.bounds, low, high };
    this.moved(low, high, done);
    this.render();
  }

  private draw(): void {
    const e = this.element;
    const s = devicePixelRatio;
    const [w, height] = [e.clientWidth, e.clientHeight];
    if (!w) return;
    e.width = Math.round(w * s);
    e.height = Math.round(height * s);
    const c = e.getContext("2d")!;
    c.scale(s, s);
    const ground = height - foot;
    const most = Math.max(1, ...this.counts);
    const bar = Math.max(1, this.at(1) - this.at(0));
    c.fillStyle = color("bar");
    this.counts.forEach((n, i) => {
      if (!n || i < this.range[0] - 1 || i > this.range[1]) return;
      const y = Math.max(1, (n / most) * (ground - 6));
      c.fillRect(this.at(i), ground - y, Math.max(0.7, bar - (bar > 4 ? 1 : 0)), y);
    });
    const { low, high } = this.bounds;
    c.globalAlpha = 0.35;
    c.fillStyle = color("fail-soft");
    c.globalAlpha = 0.6;
    if (low !== undefined) c.fillRect(0, 0, Math.max(0, this.at(low)), ground);
    if (high !== undefined) c.fillRect(this.at(high), 0, Math.max(0, w - this.at(high)), ground);
    c.globalAlpha = 1;
    c.strokeStyle = c.fillStyle = color("muted");
    c.beginPath();
    c.moveTo(0, ground);
    c.lineTo(w, ground);
    c.stroke();
    c.font = "13px system-ui, sans-serif";
    c.textBaseline = "bottom";
    if (low === undefined) c.fillText(short(Math.max(0, Math.round(this.range[0]))), 2, height - 2);
    c.strokeStyle = c.fillStyle = color("fail");
    c.lineWidth = 3;
    c.textAlign = "center";
    for (const v of [low, high]) {
      if (v === undefined) continue;
      const x = this.at(v);
      c.beginPath();
      c.moveTo(x, 0);
      c.lineTo(x, ground);
      c.stroke();
      c.fillRect(x - 6, ground / 2 - 12, 12, 24); // what is taken hold of
      c.fillText(short(v), Math.min(w - 26, Math.max(26, x)), height - 2);
    }
  }
}
