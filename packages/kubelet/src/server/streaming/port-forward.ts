import { setMaxListeners } from 'node:events';
import type { Duplex } from 'node:stream';
import { SpdyConnection } from '@oarlock/spdy/connection';
import type { SpdyStream } from '@oarlock/spdy/stream';
import { LinkedSignal } from '@oarlock/primitives/concurrency/linked-signal';
import type { SessionOptions } from './internal/session-options.ts';

export const portForwardProtocol = 'portforward.k8s.io';

const pairTimeoutMs = 30_000;
/** The maximum number of streams per client. Each forwarded connection has two streams. */
const maxStreams = 2_000;
const portPattern = /^[1-9]\d{0,4}$/;

/** The pod to which connections are forwarded. */
export interface ForwardTarget {
  /** `NAMESPACE_POD`, for error messages. */
  readonly name: string;
  readonly uid: string;
  connect(port: number, signal: AbortSignal): Promise<Duplex>;
}

interface Pair {
  readonly port: number;
  error?: SpdyStream;
  data?: SpdyStream;
  cancel(): void;
}

/**
 * Serves port-forwarding over one SPDY connection. For each forwarded connection, the client opens a data stream and an error stream with the same
 * request id. Resolves when the client has disconnected.
 */
export async function servePortForward(
  { socket, head }: { readonly socket: Duplex; readonly head: Buffer },
  target: ForwardTarget,
  { stopped, clock, active }: SessionOptions,
): Promise<void> {
  const gone = new LinkedSignal(stopped);
  setMaxListeners(0, gone.signal); // each forwarded connection adds a listener
  const pairs = new Map<string, Pair>();
  const accept = (stream: SpdyStream) => {
    const { streamtype: type, requestid: id, port: text = '' } = stream.headers;
    const port = portPattern.test(text) ? Number(text) : 0;
    if (id === undefined || port < 1 || port > 65_535 || (type !== 'error' && type !== 'data')) {
      stream.reset();
      return;
    }
    const pair = pairs.get(id) ?? createPair(id, port);
    if (pair[type] !== undefined || pair.port !== port) {
      stream.reset();
      return;
    }
    pair[type] = stream;
    stream.reply();
    const { error, data } = pair;
    if (error === undefined || data === undefined) return;
    pair.cancel();
    pairs.delete(id);
    void forward(target, { port, options: { error, data }, signal: gone.signal });
  };
  const createPair = (id: string, port: number): Pair => {
    const timer = clock.after(pairTimeoutMs, () => {
      pairs.delete(id);
      pair.error?.reset();
      pair.data?.reset();
    });
    const pair: Pair = { port, cancel: () => timer.cancel() };
    pairs.set(id, pair);
    return pair;
  };

  // last, because `head` may open streams
  const connection = new SpdyConnection(socket, { role: 'server', maxStreams, onStream: accept, onFrame: active }, head);
  const disconnect = () => connection.destroy();
  if (stopped.aborted) disconnect();
  else stopped.addEventListener('abort', disconnect, { once: true });
  await connection.closed;
  stopped.removeEventListener('abort', disconnect);
  for (const pair of pairs.values()) pair.cancel();
  gone.abort(new Error('the client disconnected'));
  gone.release();
}

async function forward(
  target: ForwardTarget,
  {
    port,
    options: { error, data },
    signal,
  }: { readonly port: number; readonly options: { readonly error: SpdyStream; readonly data: SpdyStream }; readonly signal: AbortSignal },
): Promise<void> {
  error.resume();
  let failure: Error | undefined;
  try {
    failure = await pipeBothWays(data, await target.connect(port, signal));
  } catch (cause) {
    failure = cause instanceof Error ? cause : new Error(String(cause));
  }
  error.end(failure === undefined ? '' : portForwardErrorMessage(target, port, failure));
  if (failure !== undefined) data.end();
}

/** Returns the message of a failed connection, in upstream's words. */
export const portForwardErrorMessage = ({ name, uid }: ForwardTarget, port: number, { message }: Error): string =>
  `error forwarding port ${port} to pod ${name}, uid ${uid}: ${message}`;

/** Copies data in both directions until both directions have ended or one side fails. Resolves with the error of `far`, or with undefined. */
export function pipeBothWays(near: Duplex, far: Duplex): Promise<Error | undefined> {
  return new Promise((resolve) => {
    let failure: Error | undefined;
    let open = 2;
    const closed = (one: Duplex, other: Duplex) => () => {
      open -= 1;
      const whole = one.readableEnded && one.writableFinished;
      if (!whole && !other.destroyed) other.destroy();
      if (open === 0) resolve(failure);
    };
    far.on('error', (error) => {
      failure ??= error;
    });
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      one.once('close', closed(one, other));
      one.pipe(other);
    }
    if (near.destroyed) far.destroy();
  });
}
