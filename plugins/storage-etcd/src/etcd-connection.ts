import { readFile } from 'node:fs/promises';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import { int, rpcs, type Rpc } from './etcd-messages.ts';
import { GrpcError } from './grpc-error.ts';
import { GrpcSession, type TlsFiles } from './grpc-session.ts';

export interface ConnectionOptions {
  /** `http://host:port` or `https://host:port`. They are members of one cluster. */
  readonly endpoints: readonly string[];
  readonly caFile?: string;
  readonly certFile?: string;
  readonly keyFile?: string;
  readonly requestTimeoutMs: number;
  readonly keepaliveMs: number;
  readonly dialTimeoutMs: number;
  readonly clock: Clock;
  readonly log: Logger;
  /** From 0 to below 1. */
  readonly random: () => number;
}

/** Read anew for each connection, so that renewed certificates are used. */
export async function readTlsFiles({
  caFile,
  certFile,
  keyFile,
}: Pick<ConnectionOptions, 'caFile' | 'certFile' | 'keyFile'>): Promise<TlsFiles> {
  const [ca, cert, key] = await Promise.all([caFile, certFile, keyFile].map((path) => (path === undefined ? undefined : readFile(path))));
  return { ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) };
}

export interface Member {
  readonly session: GrpcSession;
  /** Empty when the member does not tell. */
  readonly version: string;
}

const backoff = { first: 50, most: 2_000 };

/** The connection to one member of the cluster at a time; to another one when that fails. */
export class EtcdConnection {
  readonly #options: ConnectionOptions;
  readonly #stop = new AbortController();
  #member: Member | undefined;
  #dialing: Promise<Member> | undefined;
  #waiting = 0;
  #next = 0;
  #lastFailure: unknown;
  /** Calls that were sent. */
  calls = 0;

  constructor(options: ConnectionOptions) {
    this.#options = options;
  }

  /** The member that calls go to now. @throws GrpcError `Unavailable` when none answered before the signal aborted */
  async member(signal: AbortSignal): Promise<Member> {
    if (this.#member?.session.usable) return this.#member;
    this.#waiting += 1;
    try {
      this.#dialing ??= this.#dial().finally(() => {
        this.#dialing = undefined;
      });
      return await beforeAbort(this.#dialing, signal, () => this.#unreachable());
    } finally {
      this.#waiting -= 1;
    }
  }

  /**
   * One call. Calls that may be `repeated` are made again, elsewhere if possible, until they succeed or time is up; others only
   * while it is certain that no member has seen them.
   * @throws GrpcError
   */
  async call<Q, S>(rpc: Rpc<Q, S>, request: Q | Uint8Array, { repeated }: { readonly repeated: boolean }): Promise<S> {
    const { clock, requestTimeoutMs, endpoints } = this.#options;
    const message = request instanceof Uint8Array ? request : rpc.encode(request);
    const end = clock.monotonic() + requestTimeoutMs;
    for (let attempt = 0; ; attempt += 1) {
      const { session } = await this.#memberWithin(end - clock.monotonic());
      // a member that is stuck must leave time to ask another one
      const left = end - clock.monotonic();
      const timeout = repeated && endpoints.length > 1 ? Math.min(left, requestTimeoutMs / 3) : left;
      try {
        this.calls += 1;
        return await session.call(rpc, message, timeout);
      } catch (error) {
        if (!(error instanceof GrpcError)) throw error;
        if (error.code === 'DeadlineExceeded' && endpoints.length > 1) session.close(error);
        const again = error.unseen || (repeated && (error.code === 'Unavailable' || error.code === 'DeadlineExceeded'));
        const pause = this.#pause(attempt);
        if (!again || this.#stop.signal.aborted || clock.monotonic() + pause >= end) throw error;
        if (session.usable) await clock.sleep(pause, this.#stop.signal);
      }
    }
  }

  /** How long to wait before another attempt, in milliseconds. */
  pause(attempt: number): number {
    return this.#pause(attempt);
  }

  close(): void {
    const why = new GrpcError('Unavailable', 'the storage is stopped');
    this.#lastFailure = why;
    this.#stop.abort(why);
    this.#member?.session.close(why);
  }

  async #memberWithin(ms: number): Promise<Member> {
    if (this.#member?.session.usable) return this.#member;
    const deadline = new AbortController();
    const timer = this.#options.clock.after(ms, () => deadline.abort());
    try {
      return await this.member(deadline.signal);
    } finally {
      timer.cancel();
    }
  }

  /** Tries one endpoint after the other, for as long as anybody waits for it. */
  async #dial(): Promise<Member> {
    const { endpoints, log, clock } = this.#options;
    for (let attempt = 0; this.#waiting > 0 || attempt === 0; attempt += 1) {
      this.#stop.signal.throwIfAborted();
      const endpoint = endpoints[this.#next % endpoints.length] as string;
      this.#next += 1;
      try {
        this.#member = await this.#open(endpoint);
        log.debug({ endpoint, version: this.#member.version }, 'connected to etcd');
        return this.#member;
      } catch (error) {
        this.#lastFailure = error;
        log.warn({ endpoint, error: error instanceof Error ? error.message : String(error) }, 'etcd is not reachable');
      }
      if ((attempt + 1) % endpoints.length === 0) await clock.sleep(this.#pause(Math.floor(attempt / endpoints.length)), this.#stop.signal);
    }
    throw this.#unreachable();
  }

  async #open(endpoint: string): Promise<Member> {
    const { clock, keepaliveMs, dialTimeoutMs, endpoints } = this.#options;
    const session = await GrpcSession.open(endpoint, await readTlsFiles(this.#options), {
      clock,
      keepaliveMs,
      pingTimeoutMs: dialTimeoutMs,
    });
    try {
      // the first call also proves that this is etcd, and that it lets us in
      const { version, leader } = await session.call(rpcs.status, rpcs.status.encode({}), dialTimeoutMs);
      if (int(leader) === 0 && endpoints.length > 1) throw new GrpcError('Unavailable', `${endpoint}: the member has no leader`);
      this.#stop.signal.throwIfAborted();
      return { session, version };
    } catch (error) {
      // a member that answers, though not to this question, is there
      if (
        error instanceof GrpcError &&
        (error.code === 'PermissionDenied' || error.code === 'Unauthenticated' || error.code === 'Unimplemented')
      )
        return { session, version: '' };
      session.close(error instanceof Error ? error : new Error(String(error)));
      throw error;
    }
  }

  #pause(attempt: number): number {
    return Math.min(backoff.most, backoff.first * 2 ** Math.min(attempt, 10)) * (0.5 + this.#options.random() / 2);
  }

  #unreachable(): GrpcError {
    const why = this.#lastFailure instanceof Error ? `: ${this.#lastFailure.message}` : '';
    return new GrpcError('Unavailable', `etcd cannot be reached at ${this.#options.endpoints.join(', ')}${why}`, {
      unseen: true,
      cause: this.#lastFailure,
    });
  }
}

/** @throws what `otherwise` returns, when the signal aborts first */
export function beforeAbort<T>(promise: Promise<T>, signal: AbortSignal, otherwise: () => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(otherwise());
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}
