import { failure, StatusError } from '@oarlock/api/status';
import type { Identity } from '@oarlock/spi/authn';
import { remoteRejection } from '../http/errors.ts';
import { requestHeaders } from './request-header.ts';
import type { ProxyTarget, ReverseProxy } from '../proxy/reverse-proxy.ts';
import { anySignal, readBounded, fetchBuffered } from '../proxy/buffered-response.ts';
import type { Remote } from './remote.ts';

/** What is asked of another API server for a caller in this process, who has been authorized. */
export interface RemoteRequest {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly identity: Identity;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface RemoteRequestsOptions {
  readonly proxy: Pick<ReverseProxy, 'open'>;
  /** Ends everything under way. */
  readonly stop: AbortSignal;
  /** Where a server is to be reached right now; undefined where it is not. */
  target(remote: Remote, path: string, headers: ProxyTarget['headers']): Promise<ProxyTarget | undefined>;
}

const maxAnswerBytes = 64 * 1024 * 1024;
const answerMs = 60_000;
const shownOfText = 2048;
export const serviceUnavailable = (): StatusError => failure('ServiceUnavailable', 'service unavailable', {});

/** Asks other API servers for callers of this process, as whoever asks. */
export class RemoteRequests {
  readonly #options: RemoteRequestsOptions;

  constructor(options: RemoteRequestsOptions) {
    this.#options = options;
  }

  /** An answer as a whole. @throws StatusError as the other side's answer, or `ServiceUnavailable`; the reason of the request's signal */
  async request(remote: Remote, request: RemoteRequest): Promise<{ readonly code: number; readonly value: unknown }> {
    const { method, body, signal } = request;
    const { proxy, stop } = this.#options;
    const target = await this.#target(remote, request);
    return raceWithAbort(signal, async () => {
      const bounds = { limit: maxAnswerBytes, timeoutMs: answerMs, signals: signal === undefined ? [stop] : [stop, signal] };
      const { code, body: answer } = await fetchBuffered(proxy, target, { method, body }, bounds);
      if (code >= 400) throw remoteRejection(code, parsedOrText(answer));
      return { code, value: JSON.parse(answer.toString('utf8')) as unknown };
    });
  }

  /** The body of an answer that has no end of its own, such as a watch's. It ends with the request's signal. @throws StatusError as `ask` */
  async stream(remote: Remote, request: RemoteRequest): Promise<AsyncIterable<Buffer>> {
    const { method, signal } = request;
    const { proxy, stop } = this.#options;
    const target = await this.#target(remote, request);
    const within = anySignal(signal === undefined ? [stop] : [stop, signal]);
    return raceWithAbort(signal, async () => {
      try {
        within.signal.throwIfAborted();
        const response = await proxy.open(target, { method, signal: within.signal });
        response.once('close', () => within.release());
        if ((response.statusCode ?? 0) < 400) return response as AsyncIterable<Buffer>;
        throw remoteRejection(response.statusCode ?? 0, parsedOrText(await readBounded(response, maxAnswerBytes)));
      } catch (error) {
        within.release();
        throw error;
      }
    });
  }

  /** @throws StatusError `ServiceUnavailable` */
  async #target(remote: Remote, { path, headers, identity }: RemoteRequest): Promise<ProxyTarget> {
    const shown = { accept: 'application/json', ...headers, ...requestHeaders({}, identity) };
    const target = await this.#options.target(remote, path, shown);
    if (target === undefined) throw serviceUnavailable();
    return target;
  }
}

/** What goes wrong on the way means that the other side cannot be reached, unless the caller gave up. */
async function raceWithAbort<T>(signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (signal?.aborted === true) throw signal.reason;
    if (error instanceof StatusError) throw error;
    throw new StatusError(failure('ServiceUnavailable', `error trying to reach service: ${String(error)}`).status, { cause: error });
  }
}

function parsedOrText(answer: Buffer): unknown {
  const text = answer.toString('utf8');
  try {
    return JSON.parse(text);
  } catch {
    return { message: text.slice(0, shownOfText) }; // something in between answered
  }
}
