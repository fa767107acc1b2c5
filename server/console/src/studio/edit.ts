// The picture of a drawing: a call of Edit, to which what has changed is sent.

import type { ConnectError } from "@connectrpc/connect";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { openStream, type Stream } from "../api";
import {
  CurveSchema,
  DiffusionService,
  type DiffusionMethod,
  type EditRequestSchema,
  type SolveResponse,
} from "../gen/polyscan/v1/diffusion_pb";
import { Encoding } from "../gen/polyscan/v1/frame_pb";
import { text } from "../text";
import type { Curve, Drawing } from "./drawing";

export interface Options {
  method: DiffusionMethod;
  tolerance: number;
  encoding: Encoding;
}

const stops = (s: Curve["left"]) => s.map(([at, red, green, blue]) => ({ at, red, green, blue }));
const blurs = (s: Curve["blur"], scale: number) => s.map(([at, sigma]) => ({ at, sigma: sigma * scale }));

function message(c: Curve, scale: number): MessageInitShape<typeof CurveSchema> {
  return {
    id: c.id,
    xy: c.points.map((v) => v * scale),
    left: stops(c.left),
    right: stops(c.right),
    blur: blurs(c.blur, scale),
    barrier: c.barrier,
  };
}

/** place is what of a curve takes the solver a new set-up. */
const place = (c: Curve): string =>
  JSON.stringify([c.points, c.left.length > 0, c.right.length > 0, c.blur.length > 0, c.barrier]);

// While something is dragged a picture gets that many cycles of the solver: with one it takes half as long, and is off
// by some levels where the drawing moves fast.
const draftCycles = 1;
// What has not moved for so long, in milliseconds, is solved exactly.
export const restTime = 150;

/** Edit keeps the server's canvas as the drawing is. One picture is under way at a time, and the next is of what the
 * drawing is when it has come: a change before would end the solver's work on it. */
export class Edit {
  options: Options = { method: 0, tolerance: 0, encoding: Encoding.RAW };
  /** Called with each picture, and how long ago its change was sent, in milliseconds. */
  picture: (r: SolveResponse, took: number) => void = () => {};
  /** Called with why there is none; "" when there is one again. */
  failed: (why: string) => void = () => {};
  /** Called when busy may have changed. */
  changed: () => void = () => {};
  private held = false; // until the next sync
  private moving = false; // when the drawing changed last
  private draft = false; // the server was told to be quick
  private rest = 0; // timer until the drawing rests
  private stream: Stream<typeof EditRequestSchema> | null = null;
  private sent = new Map<string, string>(); // what the server has, by id, in its order
  private size = "";
  private edits = 0;
  private revision = 0; // of the drawing that was sent
  private waiting = false;
  private sentAt = 0;

  /** scale is less than 1 for pictures that are smaller than the canvas, which are never solved exactly. */
  constructor(
    private readonly drawing: Drawing,
    private readonly scale = 1,
  ) {}

  /** busy says that a picture is under way, or an exact one to come. */
  get busy(): boolean {
    return this.waiting || this.draft;
  }

  end(): void {
    this.stream?.cancel();
    this.over();
  }

  private over(): void {
    this.stream = null;
    this.waiting = this.draft = false;
    clearTimeout(this.rest);
    this.changed();
  }

  /** reopen begins a new call, for other options. */
  reopen(): void {
    this.end();
    this.sync();
  }

  /** hold leaves the server's canvas as it is until the next sync, for when another Edit has the pictures. */
  hold(): void {
    this.held = true;
    clearTimeout(this.rest);
  }

  /** sync sends what has changed, once the picture before is there. moving says that more changes are about to come: a
   * picture that is nearly right is then worth more than one that is late. */
  sync(moving = false): void {
    this.held = false;
    const d = this.drawing;
    if (!d.curves.length && !d.pixels.length) {
      // there is nothing to solve
      this.end();
      return;
    }
    if (this.stream && !this.waiting && this.size !== this.sizeOf()) this.end();
    if (!this.stream) {
      this.open();
      return;
    }
    this.moving = moving;
    if (this.waiting) return;
    this.revision = d.revision;
    const before = this.edits;
    clearTimeout(this.rest);
    if (this.draft && !moving) this.accuracy(false);
    if (moving) {
      if (this.scale === 1) this.rest = window.setTimeout(() => this.sync(), restTime);
      if (!this.draft && d.curves.some((c) => this.sent.get(c.id) !== JSON.stringify(c))) this.accuracy(true);
    }
    const now = new Map(d.curves.map((c) => [c.id, c]));
    for (const id of [...this.sent.keys()]) {
      if (now.has(id)) continue;
      this.send({ message: { case: "removeCurve", value: id } });
      this.sent.delete(id);
    }
    for (const c of d.curves) {
      const whole = JSON.stringify(c);
      const old = this.sent.get(c.id);
      if (old === whole) continue;
      this.sent.set(c.id, whole);
      if (old !== undefined && place(JSON.parse(old) as Curve) === place(c)) {
        this.send({
          message: {
            case: "recolorCurve",
            value: { id: c.id, left: stops(c.left), right: stops(c.right), blur: blurs(c.blur, this.scale) },
          },
        });
      } else {
        this.send({ message: { case: "putCurve", value: message(c, this.scale) } });
      }
    }
    // A curve that came back by undo is in its old place, which only a new call can say.
    const order = [...this.sent.keys()];
    if (d.curves.some((c, i) => c.id !== order[i])) this.reopen();
    else if (this.edits > before) this.await();
  }

  private scaled(pixels: number): number {
    return Math.max(1, Math.round(pixels * this.scale));
  }

  private sizeOf(): string {
    return `${this.drawing.width} ${this.drawing.height} ${this.drawing.pixelsOf}`;
  }

  private await(): void {
    this.waiting = true;
    this.sentAt = performance.now();
    this.changed();
  }

  private accuracy(draft: boolean): void {
    this.draft = draft;
    const value = { tolerance: this.options.tolerance, maxCycles: draft ? draftCycles : 0 };
    this.send({ message: { case: "setAccuracy", value } });
  }

  private send(m: MessageInitShape<typeof EditRequestSchema>): void {
    this.edits++;
    this.stream!.send(m);
  }

  private open(): void {
    const d = this.drawing;
    this.edits = 0;
    this.revision = d.revision;
    this.size = this.sizeOf();
    this.sent = new Map(d.curves.map((c) => [c.id, JSON.stringify(c)]));
    const stream = (this.stream = openStream(DiffusionService.method.edit, {
      message: (m) => {
        if (stream !== this.stream) return;
        const took = performance.now() - this.sentAt;
        if (m.outcome.case !== "result") this.size = ""; // what the server has differs: the next change begins anew
        // The server computes the next picture while the page shows this one.
        if (m.edits >= BigInt(this.edits)) {
          this.waiting = false;
          if (!this.held && (d.revision !== this.revision || (this.draft && !this.moving))) this.sync(this.moving);
        }
        if (m.outcome.case === "result") {
          this.failed("");
          this.picture(m.outcome.value, took);
        } else {
          this.failed(m.outcome.value?.message || text.studio.noPicture);
        }
        this.changed();
      },
      end: (err?: ConnectError) => {
        if (stream !== this.stream) return;
        this.over(); // the next change opens another
        if (err) this.failed(err.rawMessage || text.unreachable);
      },
    }));
    const { method, tolerance, encoding } = this.options;
    stream.send({
      message: {
        case: "open",
        value: {
          options: { method, tolerance },
          encoding,
          drawing: {
            width: this.scaled(d.width),
            height: this.scaled(d.height),
            curves: d.curves.map((c) => create(CurveSchema, message(c, this.scale))),
            pixels: d.pixels.map(([x, y, red, green, blue]) => ({
              x: Math.min(this.scaled(d.width) - 1, Math.floor(x! * this.scale)),
              y: Math.min(this.scaled(d.height) - 1, Math.floor(y! * this.scale)),
              red,
              green,
              blue,
            })),
          },
        },
      },
    });
    this.await();
  }
}
