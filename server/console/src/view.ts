// A picture that is zoomed and moved, and what is drawn over it.

import { h, onFrame, set } from "./dom";
import { text } from "./text";

/** near is within how many CSS pixels something is meant. */
export const near = 12;
const mostPixels = 64e6; // of a picture in full; a larger one is shown smaller, and pieces of it as they are
const mostPiece = 16e6; // pixels of a piece
const settle = 100; // ms that the view rests before a piece is decoded, for which the browser reads all of the file

type Shown = ImageBitmap | HTMLCanvasElement;

/** View is a picture by itself, which the mouse moves; those that draw on it override what it does. */
export class View {
  readonly element: HTMLElement;
  width = 0;
  height = 0;
  // What of the picture is seen: its pixel at the upper left, and CSS pixels for one of its pixels.
  protected left = 0;
  protected top = 0;
  protected scale = 1;
  protected readonly overlay: SVGSVGElement;
  protected readonly render = onFrame(() => this.draw());
  private picture: Shown | null = null;
  private template: { picture: ImageBitmap; opacity: number } | null = null;
  private source: Blob | null = null; // of a picture that is shown smaller
  private piece: { picture: ImageBitmap; left: number; top: number } | null = null;
  private wanted = 0; // timer of a piece
  private decoding = false;
  private readonly canvas = h("canvas", { "aria-hidden": "true" });
  private from: [number, number] | null = null; // of the picture, where it is held
  private readonly fingers = new Map<number, { clientX: number; clientY: number }>();
  private pinching = false; // from the second finger on until the last is lifted
  private readonly observer = new ResizeObserver(() => this.fit());
  private readonly retheme = (): void => this.render();

  /** keys is the id of what says how to use it. */
  constructor(label: string, role: string, keys: string) {
    const o = (this.overlay = h("svg", {
      tabindex: 0,
      role: "application",
      "aria-label": label,
      "aria-describedby": keys,
      "aria-roledescription": role,
      preserveAspectRatio: "none",
    }) as SVGSVGElement);
    this.element = h("div", { class: "editor" }, this.canvas, o);
    o.addEventListener("pointerdown", (e) => this.touched(e) || this.down(e));
    o.addEventListener("pointermove", (e) => this.pinched(e) || this.moved(e));
    for (const end of ["pointerup", "pointercancel"] as const) o.addEventListener(end, (e) => this.lifted(e) || this.up(e));
    o.addEventListener("keydown", (e) => this.key(e));
    o.addEventListener(
      "wheel",
      (e) => {
        e.preventDefault();
        const [x, y] = this.place(e);
        this.zoom(Math.exp(-e.deltaY / 400), x, y);
      },
      { passive: false },
    );
    o.addEventListener("contextmenu", (e) => e.preventDefault());
    this.observer.observe(this.element);
    window.addEventListener("theme", this.retheme);
  }

  end(): void {
    this.observer.disconnect();
    window.removeEventListener("theme", this.retheme);
    this.put(null);
    this.setTemplate(null);
  }

  /** setTemplate lays another picture over the picture, which covers it as a whole whatever its size. */
  setTemplate(picture: ImageBitmap | null, opacity = 0.5): void {
    if (this.template && this.template.picture !== picture) this.template.picture.close();
    this.template = picture && { picture, opacity };
    this.render();
  }

  private put(picture: Shown | null): void {
    if (this.picture instanceof ImageBitmap) this.picture.close();
    this.picture = picture;
    clearTimeout(this.wanted);
    this.source = null;
    this.piece?.picture.close();
    this.piece = null;
  }

  /** show sets the picture to that of a file, of which a pixel is scale pixels of what is drawn on. */
  async show(file: Blob, scale = 1): Promise<void> {
    let picture = await createImageBitmap(file);
    const { width, height } = picture;
    if (width * height > mostPixels) {
      const shrink = Math.sqrt(mostPixels / (width * height));
      const small = await createImageBitmap(picture, {
        resizeWidth: Math.round(width * shrink),
        resizeQuality: "medium",
      });
      picture.close();
      picture = small;
    }
    this.put(picture);
    if (picture.width < width) this.source = file;
    this.resize(width * scale, height * scale);
    this.fit();
  }

  /** showPixels sets the picture, which may have fewer pixels than what is drawn on. What of it is seen stays, unless it
   * has another size. */
  showPixels(pixels: ImageData, width = pixels.width, height = pixels.height): void {
    let c = this.picture;
    if (!(c instanceof HTMLCanvasElement) || c.width !== pixels.width || c.height !== pixels.height) {
      c = h("canvas", { width: pixels.width, height: pixels.height });
      this.put(c);
    }
    c.getContext("2d")!.putImageData(pixels, 0, 0);
    this.resize(width, height);
    this.render();
  }

  /** resize is of the picture; without one, of what is drawn on. */
  resize(width: number, height: number): void {
    if (this.width === width && this.height === height) return;
    this.width = width;
    this.height = height;
    this.fit();
  }

  /** clear takes the picture away. */
  clear(): void {
    this.put(null);
    this.render();
  }

  focus(): void {
    this.overlay.focus();
  }

  /** fit shows all of the picture. */
  fit(): void {
    const { clientWidth: w, clientHeight: c } = this.element;
    if (!this.width || !w || !c) return;
    this.scale = Math.min(w / this.width, c / this.height);
    this.left = (this.width - w / this.scale) / 2;
    this.top = (this.height - c / this.scale) / 2;
    this.render();
  }

  /** zoom keeps a place of the picture where it is; by default the middle. */
  zoom(
    by: number,
    x = this.left + this.element.clientWidth / 2 / this.scale,
    y = this.top + this.element.clientHeight / 2 / this.scale,
  ): void {
    if (!this.width) return;
    const least = Math.min(this.element.clientWidth / this.width, this.element.clientHeight / this.height) / 2;
    const scale = Math.min(64, Math.max(least, this.scale * by));
    this.left = x - ((x - this.left) * this.scale) / scale;
    this.top = y - ((y - this.top) * this.scale) / scale;
    this.scale = scale;
    this.render();
  }

  /** zoomButtons are those for it. */
  zoomButtons(): HTMLElement {
    const t = text.recipe;
    const b = (label: string, sign: string, f: () => void): HTMLElement =>
      h("button", { class: "icon", "aria-label": label, title: label, onclick: f }, sign);
    return h(
      "div",
      { class: "zoom" },
      b(t.zoomOut, "−", () => this.zoom(0.8)),
      b(t.zoomIn, "+", () => this.zoom(1.25)),
      b(t.fit, "⤢", () => this.fit()),
    );
  }

  update(): void {
    this.render();
  }

  /** touched, pinched and lifted say whether an event is of two fingers, which move and zoom and do nothing else. */
  private touched(e: PointerEvent): boolean {
    if (e.pointerType !== "touch") return false;
    this.fingers.set(e.pointerId, { clientX: e.clientX, clientY: e.clientY });
    if (this.fingers.size === 2 && !this.pinching) {
      this.pinching = true;
      this.letGo();
    }
    return this.pinching;
  }

  private pinched(e: PointerEvent): boolean {
    if (!this.fingers.has(e.pointerId)) return false;
    const before = this.span();
    this.fingers.set(e.pointerId, { clientX: e.clientX, clientY: e.clientY });
    const after = this.span();
    if (this.pinching && before && after) {
      const [x, y] = this.place(before);
      this.zoom(after.apart / before.apart, x, y);
      const [nx, ny] = this.place(after);
      this.pan(x - nx, y - ny);
    }
    return this.pinching;
  }

  private lifted(e: PointerEvent): boolean {
    const was = this.pinching;
    if (this.fingers.delete(e.pointerId) && !this.fingers.size) this.pinching = false;
    return was && e.pointerType === "touch";
  }

  /** span is the middle of the first two fingers, and how far they are apart. */
  private span(): { clientX: number; clientY: number; apart: number } | null {
    const [a, b] = [...this.fingers.values()];
    if (!a || !b) return null;
    const apart = Math.max(1, Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY));
    return { clientX: (a.clientX + b.clientX) / 2, clientY: (a.clientY + b.clientY) / 2, apart };
  }

  /** letGo forgets what the first finger began when the second comes. */
  protected letGo(): void {
    this.from = null;
  }

  protected place(e: { clientX: number; clientY: number }): [number, number] {
    const r = this.overlay.getBoundingClientRect();
    return [this.left + (e.clientX - r.left) / this.scale, this.top + (e.clientY - r.top) / this.scale];
  }

  /** pan moves what is seen, by pixels of the picture. */
  protected pan(dx: number, dy: number): void {
    this.left += dx;
    this.top += dy;
    this.render();
  }

  /** zoomKey does what a key says, if it is one of those that zoom. */
  protected zoomKey(key: string): boolean {
    if (key === "+" || key === "-") this.zoom(key === "+" ? 1.25 : 0.8);
    else if (key === "0") this.fit();
    else return false;
    return true;
  }

  protected down(e: PointerEvent): void {
    this.overlay.focus({ preventScroll: true });
    this.overlay.setPointerCapture(e.pointerId);
    this.from = this.place(e);
  }

  protected moved(e: PointerEvent): void {
    const [x, y] = this.place(e);
    if (this.from) this.pan(this.from[0] - x, this.from[1] - y);
  }

  protected up(_: PointerEvent): void {
    this.from = null;
  }

  protected key(e: KeyboardEvent): void {
    const step = 40 / this.scale;
    const arrows: Record<string, [number, number]> = {
      ArrowLeft: [-step, 0],
      ArrowRight: [step, 0],
      ArrowUp: [0, -step],
      ArrowDown: [0, step],
    };
    const arrow = arrows[e.key];
    if (arrow) this.pan(...arrow);
    else if (e.ctrlKey || e.metaKey || !this.zoomKey(e.key)) return;
    e.preventDefault();
  }

  /** drawn is what is over the picture; size is that of a CSS pixel in its pixels. */
  protected drawn(_size: number): Element[] {
    return [];
  }

  /** drawPiece draws what is seen with all of its pixels where the picture has fewer, and has it decoded where it isn't
   * there yet. */
  private drawPiece(g: CanvasRenderingContext2D, ratio: number): void {
    const { source, picture, piece, left, top, scale } = this;
    if (!source || !picture || scale * ratio <= picture.width / this.width) return;
    const s = scale * ratio;
    const x0 = Math.max(0, Math.floor(left));
    const y0 = Math.max(0, Math.floor(top));
    const x1 = Math.min(this.width, Math.ceil(left + this.element.clientWidth / scale));
    const y1 = Math.min(this.height, Math.ceil(top + this.element.clientHeight / scale));
    if (x1 <= x0 || y1 <= y0) return;
    g.imageSmoothingEnabled = scale < 3;
    if (piece) g.drawImage(piece.picture, (piece.left - left) * s, (piece.top - top) * s, piece.picture.width * s, piece.picture.height * s);
    const there = piece && piece.left <= x0 && piece.top <= y0 && piece.left + piece.picture.width >= x1 && piece.top + piece.picture.height >= y1;
    if (there || this.decoding) return;
    clearTimeout(this.wanted);
    this.wanted = window.setTimeout(() => void this.decode(source, x0, y0, x1, y1), settle);
  }

  /** decode makes a piece, with what is around it as far as that isn't too much. */
  private async decode(source: Blob, x0: number, y0: number, x1: number, y1: number): Promise<void> {
    const aside = (x1 - x0) * (y1 - y0) * 4 <= mostPiece ? 0.5 : 0;
    const [dx, dy] = [Math.ceil((x1 - x0) * aside), Math.ceil((y1 - y0) * aside)];
    const [left, top] = [Math.max(0, x0 - dx), Math.max(0, y0 - dy)];
    this.decoding = true;
    try {
      const picture = await createImageBitmap(source, left, top, Math.min(this.width, x1 + dx) - left, Math.min(this.height, y1 + dy) - top);
      if (source !== this.source) {
        picture.close();
        return;
      }
      this.piece?.picture.close();
      this.piece = { picture, left, top };
    } catch {
      this.source = null; // the smaller picture is what there is
    } finally {
      this.decoding = false;
      this.render(); // which asks for another one where the view has moved
    }
  }

  private draw(): void {
    const { clientWidth: w, clientHeight: c } = this.element;
    const ratio = devicePixelRatio;
    if (this.canvas.width !== Math.round(w * ratio) || this.canvas.height !== Math.round(c * ratio)) {
      this.canvas.width = Math.round(w * ratio);
      this.canvas.height = Math.round(c * ratio);
    }
    const g = this.canvas.getContext("2d")!;
    g.setTransform(1, 0, 0, 1, 0, 0);
    g.clearRect(0, 0, this.canvas.width, this.canvas.height);
    for (const [shown, opacity] of [[this.picture, 1], [this.template?.picture, this.template?.opacity]] as const) {
      if (shown && shown === this.template?.picture) this.drawPiece(g, ratio);
      if (!shown) continue;
      // Only what is seen is drawn, whatever the size of the picture.
      const k = shown.width / this.width;
      const x0 = Math.max(0, this.left);
      const y0 = Math.max(0, this.top);
      const x1 = Math.min(this.width, this.left + w / this.scale);
      const y1 = Math.min(this.height, this.top + c / this.scale);
      if (x1 > x0 && y1 > y0) {
        const s = this.scale * ratio;
        g.imageSmoothingEnabled = this.scale < 3;
        g.globalAlpha = opacity ?? 1;
        g.drawImage(
          shown,
          x0 * k,
          y0 * k,
          (x1 - x0) * k,
          (y1 - y0) * k,
          (x0 - this.left) * s,
          (y0 - this.top) * s,
          (x1 - x0) * s,
          (y1 - y0) * s,
        );
      }
    }
    g.globalAlpha = 1;
    if (!this.template) this.drawPiece(g, ratio);
    this.overlay.setAttribute("viewBox", `${this.left} ${this.top} ${w / this.scale} ${c / this.scale}`);
    set(this.overlay, this.drawn(1 / this.scale));
  }
}
