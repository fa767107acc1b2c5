// What is kept of a part.

import { openStream } from "./api";
import { EvidenceKind, HistoryService } from "./gen/polyscan/v1/history_pb";

/** evidence is a file that was kept of a part. */
export function evidence(id: bigint, kind: EvidenceKind): Promise<Blob> {
  return new Promise((done, fail) => {
    const data: Uint8Array<ArrayBuffer>[] = [];
    let type = "";
    const s = openStream(HistoryService.method.getEvidence, {
      message: (m) => {
        if (m.info) type = m.info.mediaType;
        if (m.data.length) data.push(m.data as Uint8Array<ArrayBuffer>);
      },
      end: (err) => (err ? fail(err) : done(new Blob(data, { type }))),
    });
    s.send({ id, kind, maxPixels: kind === EvidenceKind.PREVIEW ? 1 << 20 : 0 });
    s.halfClose();
  });
}
