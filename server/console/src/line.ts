// Frames from the line: what the history keeps of parts, and the newest picture of a stream.

import { Code, ConnectError } from "@connectrpc/connect";
import { timestampDate, timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { client } from "./api";
import { h, set, text as put } from "./dom";
import { evidence } from "./evidence";
import { Encoding } from "./gen/polyscan/v1/frame_pb";
import { EvidenceKind, HistoryService, PartMark, type HistoryPart } from "./gen/polyscan/v1/history_pb";
import { RegionNumbers, WatchKind } from "./gen/polyscan/v1/monitor_pb";
import { Verdict } from "./gen/polyscan/v1/region_pb";
import { text } from "./text";
import { follow, watch } from "./watch";

const t = text.line;
const listed = 50; // kept parts to choose from

/** partName is what people call a part. */
export const partName = (p: HistoryPart): string => p.partId || p.frameId || `#${p.partNumber || p.resultNumber}`;

/** fill sets what there is to choose from. What was chosen stays. */
function fill(select: HTMLSelectElement, options: [string, string][]): void {
  const was = select.value;
  set(
    select,
    options.map(([value, name]) => h("option", { value }, name)),
  );
  if (options.some(([value]) => value === was)) select.value = was;
}

/** frameOf is the frame of a part that was kept, as it was inspected. */
export async function frameOf(id: bigint, name: string): Promise<File> {
  return new File([await evidence(id, EvidenceKind.FRAME)], name, { type: "image/png" });
}

/** Line is what a frame of the line is chosen with. */
export class Line {
  readonly element: HTMLElement;
  private readonly camera = h("input", { autocomplete: "off", maxlength: 64 });
  private readonly parts = h("select", null);
  private readonly streams = h("select", null);
  private readonly state = h("p", { class: "help", role: "status" });
  private readonly calls = client(HistoryService);
  private stop = (): void => {};
  private kept: HistoryPart[] = [];

  /** part is given the frame of a part. picture is given a picture of a stream, of which a pixel is scale pixels of the
   * frame wide and high. Both are called once for each choice. */
  constructor(
    private readonly on: {
      part: (f: File) => Promise<void>;
      picture: (f: File, scale: number) => Promise<void>;
      failed: (err: unknown) => void;
    },
  ) {
    const openPart = h("button", { onclick: () => void this.openPart() }, t.openPart);
    const openStream = h("button", { onclick: () => this.openStream() }, t.openStream);
    const row = (label: string, select: HTMLSelectElement, button: HTMLElement): HTMLElement =>
      h("div", { class: "add" }, h("label", { class: "field grow" }, h("span", null, label), select), button);
    const details = h(
      "details",
      { class: "line" },
      h("summary", null, t.title),
      h("label", { class: "field" }, h("span", null, t.camera), this.camera),
      row(t.part, this.parts, openPart),
      row(t.stream, this.streams, openStream),
      this.state,
    );
    details.addEventListener("toggle", () => {
      if (details.open) void this.list();
    });
    this.camera.addEventListener("change", () => void this.list());
    this.element = details;
  }

  end(): void {
    this.stop();
  }

  private filter() {
    const name = this.camera.value.trim();
    return { names: name ? [name] : [], marks: [PartMark.EVIDENCE] };
  }

  private async list(): Promise<void> {
    const name = this.camera.value.trim();
    const lines = [...watch.lines.values()].filter((l) => !name || l.name === name);
    fill(
      this.streams,
      lines.map((l) => [l.key, l.name || text.live.unnamed(l.id)]),
    );
    try {
      this.kept = (await this.calls.listParts({ filter: this.filter(), pageSize: listed })).parts;
      put(this.state, this.kept.length ? "" : t.noParts);
    } catch (err) {
      this.kept = [];
      const { code } = ConnectError.from(err);
      if (code === Code.FailedPrecondition || code === Code.Unimplemented) put(this.state, text.history.off);
      else this.on.failed(err);
    }
    fill(
      this.parts,
      this.kept.map((p) => {
        const at = p.at ? timestampDate(p.at).toLocaleTimeString("en-GB") : "";
        const verdict = p.verdict === Verdict.PASS ? text.verdict.pass : p.verdict === Verdict.FAIL ? text.verdict.fail : "";
        return [String(p.id), [at, p.name, partName(p), verdict].filter(Boolean).join(", ")];
      }),
    );
  }

  /** newest are the newest parts of which there are frames, with what became of them, and how many of the newest all
   * are: some may have no frame. */
  async newest(count: number): Promise<{ parts: { file: File; verdict: Verdict }[]; all: number }> {
    if (count <= 0) return { parts: [], all: 0 };
    const filter = { ...this.filter(), verdicts: [Verdict.PASS, Verdict.FAIL] };
    const any = { ...filter, marks: [] };
    const pageSize = Math.min(count, 1000);
    const last = (await this.calls.listParts({ filter: any, pageSize: 1 })).parts[0]?.at;
    const to = last && timestampFromMs(timestampMs(last) + 1); // those that come meanwhile are not counted either
    const found = (await this.calls.listParts({ filter: { ...filter, to }, pageSize, numbers: RegionNumbers.NONE })).parts;
    const from = found.length === pageSize ? found[pageSize - 1]!.at : undefined;
    const all = Number((await this.calls.countParts({ filter: { ...any, from, to } })).total?.parts ?? 0n);
    const parts: { file: File; verdict: Verdict }[] = [];
    for (const p of found) parts.push({ file: await frameOf(p.id, partName(p)), verdict: p.verdict });
    return { parts, all };
  }

  private async openPart(): Promise<void> {
    const p = this.kept.find((k) => String(k.id) === this.parts.value);
    if (!p) return;
    this.stop();
    try {
      await this.on.part(await frameOf(p.id, partName(p)));
    } catch (err) {
      this.on.failed(err);
    }
  }

  private openStream(): void {
    const l = watch.lines.get(this.streams.value);
    if (!l) return;
    this.stop();
    put(this.state, t.waiting);
    const end = follow(
      {
        names: l.name ? [l.name] : [],
        kinds: [WatchKind.PREVIEW],
        preview: { rate: 5, maxPixels: 262144, encoding: Encoding.PNG, noPlaces: true },
      },
      {
        message: (m) => {
          if (m.event.case !== "preview") return;
          const p = m.event.value;
          if (p.name !== l.name || (!l.name && p.streamId !== l.id)) return;
          this.stop();
          put(this.state, "");
          const name = p.partId || l.name || text.live.unnamed(l.id);
          this.on.picture(new File([p.data as Uint8Array<ArrayBuffer>], name, { type: "image/png" }), p.scale).catch(this.on.failed);
        },
      },
    );
    this.stop = () => {
      end();
      this.stop = () => {};
    };
  }
}
