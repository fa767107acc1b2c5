// What the server does, as MonitorService.Watch tells it: one watch for all of the page, without numbers and pictures,
// and others for what is looked at closely.

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { openStream, type Stream } from "./api";
import { MonitorService, StreamMethod, type DeviceState, type HistoryState, WatchRequestSchema, WatchResumeSchema, type StreamState, type WatchResponse, type WatchVerdict } from "./gen/polyscan/v1/monitor_pb";
import { ScanEventKind } from "./gen/polyscan/v1/scan_pb";
import { Verdict, type Location } from "./gen/polyscan/v1/region_pb";
import { text } from "./text";
import type { Duration } from "@bufbuild/protobuf/wkt";

/** Mark is how something came out. Each has a shape as well as a colour. */
export type Mark = "pass" | "fail" | "error" | "none" | "waiting";

export function markOf(v: { verdict: Verdict; error?: unknown }): Mark {
  if (v.error) return "error";
  return v.verdict === Verdict.PASS ? "pass" : v.verdict === Verdict.FAIL ? "fail" : "none";
}

/** notFound says why a part was not found; empty where it was, and where nothing searched for it. */
export function notFound(v: { location?: Location }): string {
  return v.location && !v.location.found ? text.notFound(v.location.reason) : "";
}

export function milliseconds(d: Duration | undefined): number {
  return d ? Number(d.seconds) * 1e3 + d.nanos / 1e6 : 0;
}

/** keyOf is the same for all streams and calls of a camera. */
export function keyOf(s: { method: StreamMethod; name: string; streamId: bigint }): string {
  return s.name ? `${s.method} ${s.name}` : `${s.method} #${s.streamId}`;
}

const latencies = 1000; // that p99 is of
const rateTime = 10_000; // ms that the rate is of

/** Line is what is known of the streams and calls of one camera. */
export class Line {
  open = 0;
  pass = 0;
  fail = 0;
  none = 0;
  errors = 0;
  late = 0;
  incomplete = 0;
  gaps = 0;
  source = ""; // what its lines come from
  recipe = "";
  version = 0n;
  last: WatchVerdict | null = null;
  lastAt = 0;
  private times: number[] = []; // of verdicts, for the rate
  private latency = new Float64Array(latencies);
  private count = 0;

  constructor(
    readonly key: string,
    readonly method: StreamMethod,
    readonly name: string,
    readonly id: bigint,
  ) {}

  add(v: WatchVerdict, now: number): void {
    switch (markOf(v)) {
      case "pass":
        this.pass++;
        break;
      case "fail":
        this.fail++;
        break;
      case "error":
        this.errors++;
        break;
      default:
        this.none++;
    }
    if (v.late) this.late++;
    if (v.incomplete) this.incomplete++;
    this.last = v;
    this.lastAt = now;
    this.recipe = v.recipe;
    this.version = v.recipeVersion;
    this.times.push(now);
    if (this.times.length > 4096) this.times.splice(0, 2048);
    this.latency[this.count++ % latencies] = milliseconds(v.latency);
  }

  /** start takes over the counts of a stream that was open before. */
  start(s: StreamState): void {
    this.open++;
    this.source = s.source;
    this.recipe = s.recipe;
    this.version = s.recipeVersion;
    this.pass += Number(s.passed);
    this.fail += Number(s.failed);
    this.none += Number(s.unjudged);
    this.errors += Number(s.errors);
    this.late += Number(s.late);
    this.incomplete += Number(s.incomplete);
    this.gaps += Number(s.gaps);
  }

  /** rate is verdicts a second. */
  rate(now: number): number {
    const from = this.times.findIndex((t) => t > now - rateTime);
    if (from < 0) return 0;
    this.times.splice(0, from);
    return this.times.length / (rateTime / 1e3);
  }

  /** p99 is of the latency of the last verdicts, in milliseconds; NaN without any. */
  p99(): number {
    const n = Math.min(this.count, latencies);
    if (n === 0) return NaN;
    const sorted = this.latency.slice(0, n).sort();
    return sorted[Math.min(n - 1, Math.ceil(0.99 * n) - 1)]!;
  }
}

/** follow opens a watch and opens it again when it breaks, until the returned function is called. */
export function follow(req: MessageInitShape<typeof WatchRequestSchema>, on: { message: (m: WatchResponse) => void; broken?: () => void }): () => void {
  let stopped = false;
  let stream: Stream<typeof WatchRequestSchema> | null = null;
  let timer = 0;
  let id = "";
  let sequence = 0n;
  let silence = 0;
  // A heartbeat comes each second; without one the server, or the way to it, is gone.
  const heard = (): void => {
    clearTimeout(silence);
    silence = window.setTimeout(() => {
      stream?.cancel();
      again();
    }, 5000);
  };
  const again = (): void => {
    if (stopped) return;
    clearTimeout(silence);
    clearTimeout(timer);
    on.broken?.();
    timer = window.setTimeout(open, 1000);
  };
  const open = (): void => {
    stream = openStream(MonitorService.method.watch, {
      message: (m) => {
        heard();
        if (m.event.case === "started") id = m.event.value.serverId;
        sequence = m.sequence;
        on.message(m);
      },
      end: again,
    });
    heard();
    const first = create(WatchRequestSchema, req);
    if (id) first.resume = create(WatchResumeSchema, { serverId: id, sequence });
    stream.send(first);
    stream.halfClose();
  };
  open();
  return () => {
    stopped = true;
    clearTimeout(silence);
    clearTimeout(timer);
    stream?.cancel();
  };
}

/** watch is what all of the page knows. */
class Watch {
  lines = new Map<string, Line>();
  device: DeviceState | null = null;
  history: HistoryState | null = null; // null where there is none
  /** Calls that compute and have no verdict, by their methods, since the page is open. */
  readonly calls = new Map<string, { count: number; errors: number; last: number; error: string }>();
  connected = false;
  away = false; // there was a connection, and it is gone
  lost = 0;
  otherServer = false;
  /** changed is called when the connection or the device changes. */
  changed: () => void = () => {};
  readonly listeners = new Set<(m: WatchResponse) => void>();
  private end: (() => void) | null = null;
  server = ""; // of this run

  start(): void {
    this.stop();
    this.end = follow(
      { numbers: 1 },
      {
        message: (m) => this.take(m),
        broken: () => {
          this.away ||= this.connected;
          this.connected = false;
          this.changed();
        },
      },
    );
  }

  stop(): void {
    this.end?.();
    this.end = null;
    this.connected = this.away = false;
    this.lines.clear();
    this.device = this.history = null;
    this.calls.clear();
    this.lost = 0;
    this.server = "";
  }

  private line(s: { method: StreamMethod; name: string; streamId: bigint }): Line {
    const key = keyOf(s);
    let l = this.lines.get(key);
    if (!l) this.lines.set(key, (l = new Line(key, s.method, s.name, s.streamId)));
    return l;
  }

  private take(m: WatchResponse): void {
    const e = m.event;
    const now = performance.now();
    switch (e.case) {
      case "started":
        if (this.server && this.server !== e.value.serverId) {
          this.otherServer = true;
          this.lines.clear();
        }
        if (this.server !== e.value.serverId) for (const s of e.value.streams) this.line(s).start(s);
        this.server = e.value.serverId;
        this.device = e.value.device ?? null;
        this.history = e.value.history ?? null;
        this.connected = true;
        this.away = false;
        this.changed();
        break;
      case "lost":
        this.lost += Number(e.value.unknown) + Object.values(e.value.kinds).reduce((a, b) => a + Number(b), 0);
        break;
      case "opened": {
        const l = this.line(e.value);
        l.open++;
        l.recipe = e.value.recipe;
        l.version = e.value.recipeVersion;
        break;
      }
      case "closed": {
        const l = this.line(e.value);
        l.open = Math.max(0, l.open - 1);
        break;
      }
      case "verdict":
        this.line(e.value).add(e.value, now);
        break;
      case "scan": {
        const v = e.value;
        const l = [...this.lines.values()].find((l) => (v.name ? l.name === v.name : l.id === v.streamId));
        if (l && v.event.case === "late") l.late++;
        else if (l && v.event.case === "scan" && v.event.value.kind === ScanEventKind.GAP) l.gaps++;
        break;
      }
      case "call": {
        const { method, latency, error } = e.value;
        const c = this.calls.get(method) ?? { count: 0, errors: 0, last: 0, error: "" };
        c.count++;
        c.last = milliseconds(latency);
        if (error) {
          c.errors++;
          c.error = error.message;
        }
        this.calls.set(method, c);
        break;
      }
      case "history":
        this.history = e.value;
        this.changed();
        break;
      case "device":
        this.device = e.value;
        this.changed();
        break;
    }
    for (const f of this.listeners) f(m);
  }
}

export const watch = new Watch();
