// Calls: unary ones as Connect, and those that stay open over WebSockets. See docs/console.md.

import { create, fromBinary, toBinary, type DescMessage, type DescMethod, type DescService, type MessageInitShape, type MessageShape } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient, type Client, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { errorFromJson } from "@connectrpc/connect/protocol-connect";
import { text } from "./text";

/** Session is who uses the page, as /console/session says it. */
export interface Session {
  login: "needed" | "token" | "certificate" | "none";
  tenant: string;
  role: "" | "view" | "run" | "teach" | "admin";
  csrf: string;
  version: string;
}

export let session: Session = { login: "needed", tenant: "", role: "", csrf: "", version: "" };

const roles = ["view", "run", "teach", "admin"];

/** may says whether the user's role is at least that. The server decides; this is for what the page offers. */
export function may(role: "view" | "run" | "teach" | "admin"): boolean {
  return roles.indexOf(session.role) >= roles.indexOf(role);
}

let ended = (): void => {};

/** onSessionEnd sets what is done when the server doesn't know the user any more. */
export function onSessionEnd(f: () => void): void {
  ended = f;
}

/** loadSession asks who the user is. */
export async function loadSession(): Promise<Session> {
  const res = await fetch("/console/session");
  if (!res.ok) throw await errorOf(res);
  return (session = (await res.json()) as Session);
}

/** login begins a session. Errors are for the user. */
export async function login(token: string): Promise<void> {
  const res = await fetch("/console/login", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ token }),
  });
  if (!res.ok) throw await errorOf(res);
  session = (await res.json()) as Session;
}

export async function logout(): Promise<void> {
  await fetch("/console/logout", { method: "POST", headers: { "Polyscan-Csrf": session.csrf } });
}

async function errorOf(res: Response): Promise<ConnectError> {
  const fallback = new ConnectError(`HTTP ${res.status}`, Code.Unknown);
  try {
    return errorFromJson(await res.json(), undefined, fallback);
  } catch {
    return fallback;
  }
}

const withSession: Interceptor = (next) => async (req) => {
  if (session.csrf) req.header.set("Polyscan-Csrf", session.csrf);
  try {
    return await next(req);
  } catch (err) {
    if (ConnectError.from(err).code === Code.Unauthenticated) ended();
    throw err;
  }
};

const transport = createConnectTransport({ baseUrl: location.origin, useBinaryFormat: true, interceptors: [withSession] });

/** client calls the unary methods of a service. */
export function client<S extends DescService>(service: S): Client<S> {
  return createClient(service, transport);
}

/** errorText is an error for the user. */
export function errorText(err: unknown): string {
  const e = ConnectError.from(err);
  return e.rawMessage || text.codes[e.code] || String(err);
}

/** Stream is a call that stays open. */
export interface Stream<I extends DescMessage> {
  send(m: MessageInitShape<I>): void;
  /** halfClose says that nothing more is sent. */
  halfClose(): void;
  /** cancel ends the call; onEnd isn't called any more. */
  cancel(): void;
  /** Bytes that were sent and have not left the browser. */
  readonly waiting: number;
}

/** openStream begins a call. onEnd is called once, with an error where the call didn't end well. What is sent before the
 * connection is there waits for it. */
export function openStream<I extends DescMessage, O extends DescMessage>(
  method: DescMethod & { input: I; output: O },
  on: { message: (m: MessageShape<O>) => void; end: (err?: ConnectError) => void },
): Stream<I> {
  const url = new URL(`/socket/${method.parent.typeName}/${method.name}`, location.href);
  url.protocol = url.protocol.replace("http", "ws");
  const protocols = ["polyscan"];
  if (session.csrf) protocols.push(`csrf.${session.csrf}`);
  const socket = new WebSocket(url, protocols);
  socket.binaryType = "arraybuffer";
  let queue: (Uint8Array<ArrayBuffer> | string)[] | null = [];
  let over = false;
  const end = (err?: ConnectError): void => {
    if (over) return;
    over = true;
    socket.close();
    if (err?.code === Code.Unauthenticated) ended();
    on.end(err);
  };
  const put = (data: Uint8Array<ArrayBuffer> | string): void => {
    if (queue) queue.push(data);
    else if (!over) socket.send(data);
  };
  socket.onopen = () => {
    const first = queue ?? [];
    queue = null;
    first.forEach(put);
  };
  socket.onmessage = (e: MessageEvent<ArrayBuffer | string>) => {
    if (over) return;
    if (typeof e.data !== "string") {
      on.message(fromBinary(method.output, new Uint8Array(e.data)));
      return;
    }
    const last = JSON.parse(e.data) as { code: string };
    end(last.code === "ok" ? undefined : errorFromJson(last as never, undefined, new ConnectError("", Code.Unknown)));
  };
  socket.onclose = () => end(new ConnectError(text.unreachable, Code.Unavailable));
  return {
    send: (m) => put(toBinary(method.input, create(method.input, m)) as Uint8Array<ArrayBuffer>),
    halfClose: () => put("end"),
    cancel: () => {
      over = true;
      socket.close();
    },
    get waiting() {
      return socket.bufferedAmount;
    },
  };
}
