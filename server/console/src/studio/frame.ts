// A frame that the user opens, a file or one of the line: kept by the server as long as the tab is there.

import { client } from "../api";
import { h } from "../dom";
import { FrameService } from "../gen/polyscan/v1/resident_pb";
import { Line } from "../line";
import { fileFrame } from "../recipe/labelled";
import { text } from "../text";

/** OpenFrame is the button and the frame. */
export class OpenFrame {
  readonly button: HTMLElement[];
  /** Chooses frames of the line. A picture of a stream is taken as a frame. */
  readonly line: Line;
  /** The server's name of it; "" without one. */
  resident = "";
  name = "";
  private readonly frames = client(FrameService);
  private ended = false;
  private count = 0; // of files that were opened

  /** show is called with the file before it is sent, and opened when the server has it. */
  constructor(id: string, show: (f: File) => Promise<void>, opened: () => void, failed: (err: unknown) => void) {
    const input = h("input", {
      type: "file",
      id,
      class: "unseen",
      tabindex: -1,
      accept: "image/*,.tif,.tiff,.bmp",
      "aria-label": text.recipe.openFrame,
    });
    const load = async (f: File): Promise<void> => {
      const mine = ++this.count;
      const [res] = await Promise.all([this.frames.putFrame({ frame: await fileFrame(f) }), show(f)]);
      if (this.ended || mine !== this.count) {
        void this.frames.releaseFrame({ name: res.frame!.name }).catch(() => {});
        return;
      }
      this.release();
      this.resident = res.frame!.name;
      this.name = f.name;
      opened();
    };
    input.addEventListener("change", () => {
      if (input.files?.[0]) void load(input.files[0]).catch(failed);
      input.value = "";
    });
    this.line = new Line({ part: load, picture: load, failed });
    this.button = [input, h("button", { class: "primary", onclick: () => input.click() }, text.recipe.openFrame)];
  }

  /** stem is the name without its end. */
  get stem(): string {
    return this.name.replace(/\.[^.]*$/, "") || "frame";
  }

  get frame() {
    return { source: { case: "resident" as const, value: this.resident } };
  }

  private release(): void {
    if (this.resident) void this.frames.releaseFrame({ name: this.resident }).catch(() => {});
    this.resident = "";
  }

  end(): void {
    this.ended = true;
    this.line.end();
    this.release();
  }
}
