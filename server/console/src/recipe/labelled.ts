// Calls that take many frames: Teach and Try.

import { type DescMessage, type DescMethod, type MessageInitShape, type MessageShape } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { client, openStream } from "../api";
import { Encoding, type FrameSchema } from "../gen/polyscan/v1/frame_pb";
import { FrameService } from "../gen/polyscan/v1/resident_pb";
import { FrameLabel } from "../gen/polyscan/v1/teach_pb";

/** Labelled is a file with what the user knows of it. */
export interface Labelled {
  file: File;
  label: FrameLabel;
}

const mostSocket = 3.5e6; // bytes of a frame that goes over the socket; a larger one is kept by the server first
const mostWaiting = 8e6;

export async function fileFrame(f: File): Promise<MessageInitShape<typeof FrameSchema>> {
  return { encoding: Encoding.AUTO, frameId: f.name.slice(-256), source: { case: "data", value: new Uint8Array(await f.arrayBuffer()) } };
}

/** send opens a call, sends the frames one after the other, and returns the answer. */
export async function send<I extends DescMessage, O extends DescMessage>(
  method: DescMethod & { input: I; output: O },
  open: MessageInitShape<I>,
  files: Labelled[],
  message: (frame: MessageInitShape<typeof FrameSchema>, label: FrameLabel) => MessageInitShape<I>,
  progress: (done: number) => void,
): Promise<MessageShape<O>> {
  const kept: string[] = [];
  const frames = client(FrameService);
  let over = false;
  let answer: MessageShape<O> | undefined;
  try {
    return await new Promise<MessageShape<O>>((resolve, reject) => {
      const stream = openStream(method, {
        message: (m) => (answer = m),
        end: (err) => {
          over = true;
          if (answer && !err) resolve(answer);
          else reject(err ?? new ConnectError("", Code.Unknown));
        },
      });
      const run = async (): Promise<void> => {
        stream.send(open);
        for (const [i, f] of files.entries()) {
          if (over) return;
          let frame = await fileFrame(f.file);
          if (f.file.size > mostSocket) {
            const res = await frames.putFrame({ frame });
            kept.push(res.frame!.name);
            frame = { frameId: frame.frameId, source: { case: "resident", value: res.frame!.name } };
          }
          stream.send(message(frame, f.label));
          progress(i + 1);
          while (!over && stream.waiting > mostWaiting) await new Promise((r) => setTimeout(r, 20));
        }
        stream.halfClose();
      };
      run().catch((err: unknown) => {
        stream.cancel();
        reject(err instanceof Error ? err : new Error(String(err)));
      });
    });
  } finally {
    for (const name of kept) void frames.releaseFrame({ name }).catch(() => {});
  }
}
