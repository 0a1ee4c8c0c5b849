import { readFile } from 'node:fs/promises';
import { errorText } from '@oarlock/primitives/error-text';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { rpcs, type Rpc } from '../rpc/etcd-messages.ts';
import { GrpcError } from '@oarlock/grpc/grpc-error';
import { GrpcSession, type TlsFiles } from '../rpc/grpc-session.ts';

export interface ConnectionOptions {
  /** `http://host:port` or `https://host:port` of members of one cluster. */
  readonly endpoints: readonly string[];
  readonly caFile?: string;
  readonly certFile?: string;
  readonly keyFile?: string;
  readonly requestTimeoutMs: number;
  readonly keepaliveMs: number;
  readonly dialTimeoutMs: number;
  readonly clock: Clock;
  readonly log: Logger;
  /** Returns a number in [0, 1). */
  readonly random: () => number;
}

/** Reads the TLS files. Called for each connection, so that renewed certificates are used. */
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
  /** Empty if the member does not report it. */
  readonly version: string;
}

/** Delays between connection attempts in milliseconds. */
const backoff = { first: 50, most: 2_000 };

/** A connection to one member of the cluster at a time; to another member when it fails. */
export class EtcdConnection {
  #options: ConnectionOptions;
  readonly #stop = new AbortController();
  #endpoints: readonly string[];
  #member: Member | undefined;
  #dialing: Promise<Member> | undefined;
  #waiting = 0;
  #next = 0;
  #lastFailure: unknown;
  /** Number of calls sent. */
  calls = 0;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#endpoints = options.endpoints;
  }

  /** Replaces the TLS files. */
  useFiles(files: Pick<ConnectionOptions, 'caFile' | 'certFile' | 'keyFile'>): void {
    this.#options = { ...this.#options, ...files };
  }

  /** Replaces the endpoints. An open connection stays open, also if its endpoint is not among them. */
  useEndpoints(endpoints: readonly string[]): void {
    this.#endpoints = endpoints;
    this.#next = 0;
  }

  /** Returns the connected member. @throws GrpcError `UNAVAILABLE` if none responded before the signal aborted */
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
   * Makes a call. A `repeated` call is retried, on another member if possible, until it succeeds or its timeout expires. Other calls are
   * retried only while it is certain that no member has received them.
   * @throws GrpcError
   */
  async call<Q, S>(rpc: Rpc<Q, S>, request: Q | Uint8Array, { repeated }: { readonly repeated: boolean }): Promise<S> {
    const { clock, requestTimeoutMs } = this.#options;
    const message = request instanceof Uint8Array ? request : rpc.encode(request);
    const end = clock.monotonic() + requestTimeoutMs;
    for (let attempt = 0; ; attempt += 1) {
      const { session } = await this.#memberWithin(end - clock.monotonic());
      // a member that hangs must leave time to try another one
      const left = end - clock.monotonic();
      const timeout = repeated && this.#endpoints.length > 1 ? Math.min(left, requestTimeoutMs / 3) : left;
      try {
        this.calls += 1;
        return await session.call(rpc, message, timeout);
      } catch (error) {
        if (!(error instanceof GrpcError)) throw error;
        if (error.code === 'DEADLINE_EXCEEDED' && this.#endpoints.length > 1) session.close(error);
        const again = error.notSent || (repeated && (error.code === 'UNAVAILABLE' || error.code === 'DEADLINE_EXCEEDED'));
        const pause = this.#pause(attempt);
        if (!again || this.#stop.signal.aborted || clock.monotonic() + pause >= end) throw error;
        if (session.usable) await clock.sleep(pause, this.#stop.signal);
      }
    }
  }

  /** Returns the delay before another attempt in milliseconds. */
  pause(attempt: number): number {
    return this.#pause(attempt);
  }

  close(): void {
    const why = new GrpcError('UNAVAILABLE', 'the storage is stopped');
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

  /** Tries the endpoints in turn while a caller waits. */
  async #dial(): Promise<Member> {
    const { log, clock } = this.#options;
    for (let attempt = 0; this.#waiting > 0 || attempt === 0; attempt += 1) {
      this.#stop.signal.throwIfAborted();
      const endpoints = this.#endpoints;
      const endpoint = endpoints[this.#next % endpoints.length] as string;
      this.#next += 1;
      try {
        this.#member = await this.#open(endpoint);
        log.debug({ endpoint, version: this.#member.version }, 'connected to etcd');
        return this.#member;
      } catch (error) {
        this.#lastFailure = error;
        log.warn({ endpoint, error: errorText(error) }, 'etcd is not reachable');
      }
      if ((attempt + 1) % endpoints.length === 0) await clock.sleep(this.#pause(Math.floor(attempt / endpoints.length)), this.#stop.signal);
    }
    throw this.#unreachable();
  }

  async #open(endpoint: string): Promise<Member> {
    const { clock, keepaliveMs, dialTimeoutMs } = this.#options;
    const session = await GrpcSession.open(endpoint, await readTlsFiles(this.#options), {
      clock,
      keepaliveMs,
      pingTimeoutMs: dialTimeoutMs,
    });
    try {
      // the first call also verifies that this is etcd and that access is granted
      const { version, leader } = await session.call(rpcs.status, rpcs.status.encode({}), dialTimeoutMs);
      if (leader.toString() === '0' && this.#endpoints.length > 1)
        throw new GrpcError('UNAVAILABLE', `${endpoint}: the member has no leader`);
      this.#stop.signal.throwIfAborted();
      return { session, version };
    } catch (error) {
      // a member that rejects this call is reachable all the same
      if (
        error instanceof GrpcError &&
        (error.code === 'PERMISSION_DENIED' || error.code === 'UNAUTHENTICATED' || error.code === 'UNIMPLEMENTED')
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
    return new GrpcError('UNAVAILABLE', `etcd cannot be reached at ${this.#endpoints.join(', ')}${why}`, {
      notSent: true,
      cause: this.#lastFailure,
    });
  }
}

/** Awaits a promise. @throws the error that `otherwise` returns, if the signal aborts first */
export function beforeAbort<T>(promise: Promise<T>, signal: AbortSignal, otherwise: () => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(otherwise());
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}
