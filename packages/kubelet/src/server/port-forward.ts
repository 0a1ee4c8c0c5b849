import { setMaxListeners } from 'node:events';
import type { Duplex } from 'node:stream';
import type { Clock } from '@oarlock/kernel/clock';
import { SpdyConnection } from '@oarlock/spdy/connection';
import type { SpdyStream } from '@oarlock/spdy/stream';
import { LinkedSignal } from '../linked-signal.ts';

export const portForwardProtocol = 'portforward.k8s.io';

const pairWithinMs = 30_000;
/** Forwarded connections that one client may have at a time, times the two streams of each. */
const maxStreams = 2_000;
const aPort = /^[1-9]\d{0,4}$/;

/** What connections are forwarded to. */
export interface ForwardTarget {
  /** `NAMESPACE_POD`, as errors name it. */
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
 * Serves the ports of a pod over one connection: for each connection that the client forwards it opens two streams with the same request
 * id, one for data and one on which it is told what went wrong. Resolves when the client has gone.
 */
export async function servePortForward(
  { socket, head }: { readonly socket: Duplex; readonly head: Buffer },
  target: ForwardTarget,
  { stopped, clock }: { readonly stopped: AbortSignal; readonly clock: Clock },
): Promise<void> {
  const gone = new LinkedSignal(stopped);
  setMaxListeners(0, gone.signal); // each forwarded connection listens
  const pairs = new Map<string, Pair>();
  const connection = new SpdyConnection(socket, { role: 'server', maxStreams, onStream: (stream) => accept(stream) }, head);

  const accept = (stream: SpdyStream) => {
    const { streamtype: type, requestid: id, port: text = '' } = stream.headers;
    stream.on('error', () => undefined); // who uses it is told by its close
    const port = aPort.test(text) ? Number(text) : 0;
    if (id === undefined || port < 1 || port > 65_535 || (type !== 'error' && type !== 'data')) {
      stream.reset();
      return;
    }
    const pair = pairs.get(id) ?? begin(id, port);
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
    void forward(target, port, { error, data }, gone.signal);
  };
  const begin = (id: string, port: number): Pair => {
    const timer = clock.after(pairWithinMs, () => {
      pairs.delete(id);
      pair.error?.reset();
      pair.data?.reset();
    });
    const pair: Pair = { port, cancel: () => timer.cancel() };
    pairs.set(id, pair);
    return pair;
  };

  const cut = () => connection.destroy();
  if (stopped.aborted) cut();
  else stopped.addEventListener('abort', cut, { once: true });
  await connection.closed;
  stopped.removeEventListener('abort', cut);
  for (const pair of pairs.values()) pair.cancel();
  gone.abort(new Error('the client went away'));
  gone.release();
}

async function forward(
  target: ForwardTarget,
  port: number,
  { error, data }: { readonly error: SpdyStream; readonly data: SpdyStream },
  signal: AbortSignal,
): Promise<void> {
  error.resume();
  let failure: Error | undefined;
  try {
    failure = await join(data, await target.connect(port, signal));
  } catch (cause) {
    failure = cause instanceof Error ? cause : new Error(String(cause));
  }
  error.end(failure === undefined ? '' : refusal(target, port, failure));
  if (failure !== undefined) data.end();
}

/** How kubelets say that a port cannot be reached. */
export const refusal = ({ name, uid }: ForwardTarget, port: number, { message }: Error): string =>
  `error forwarding port ${port} to pod ${name}, uid ${uid}: ${message}`;

/** Carries bytes both ways until both ways have ended, each by itself, or one side breaks. The fault, if it was the far side's. */
export function join(near: Duplex, far: Duplex): Promise<Error | undefined> {
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
