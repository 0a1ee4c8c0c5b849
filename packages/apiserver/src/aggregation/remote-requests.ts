import { failure, StatusError } from '@oarlock/api/status';
import { goErrorText } from '@oarlock/primitives/net/go-error-text';
import type { Identity } from '@oarlock/spi/authn';
import { remoteRejection } from '../http/errors.ts';
import { requestHeaders } from './request-header.ts';
import type { ProxyTarget, ReverseProxy } from '../proxy/reverse-proxy.ts';
import { countValues, maxRemoteValues } from '../endpoints/request/body-values.ts';
import { anySignal, readBounded, fetchBuffered } from '../proxy/buffered-response.ts';
import type { Remote } from './remote.ts';

/** An authorized request of a loopback client to an extension API server. */
export interface RemoteRequest {
  readonly method: string;
  /** The path with the query. */
  readonly path: string;
  readonly identity: Identity;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface RemoteRequestsOptions {
  readonly proxy: Pick<ReverseProxy, 'open'>;
  /** A signal that aborts all requests. */
  readonly stop: AbortSignal;
  /** Whether requests carry the UID of the user; true by default. */
  readonly sendsUid?: boolean | undefined;
  /** Returns an endpoint of an extension API server; undefined if none is available. */
  target(remote: Remote, path: string, headers: ProxyTarget['headers']): Promise<ProxyTarget | undefined>;
}

const maxResponseBytes = 64 * 1024 * 1024;
const maxErrorBytes = 3 * 1024 * 1024;
const responseTimeoutMs = 60_000;
/** The maximum length of the part of a text response that an error message quotes. */
const maxMessageLength = 2048;
export const serviceUnavailable = (): StatusError => failure('ServiceUnavailable', 'service unavailable', {});

/** Sends requests of loopback clients to extension API servers, with the identity of the caller. */
export class RemoteRequests {
  readonly #options: RemoteRequestsOptions;

  constructor(options: RemoteRequestsOptions) {
    this.#options = options;
  }

  /**
   * Sends a request and returns the complete response.
   * @throws StatusError of the server's error response; `ServiceUnavailable` if the server cannot be reached; the reason of the request's
   * signal
   */
  async request(remote: Remote, request: RemoteRequest): Promise<{ readonly code: number; readonly value: unknown }> {
    const { method, body, signal } = request;
    const { proxy, stop } = this.#options;
    const target = await this.#target(remote, request);
    return raceWithAbort(signal, async () => {
      const bounds = { limit: maxResponseBytes, timeoutMs: responseTimeoutMs, signals: signal === undefined ? [stop] : [stop, signal] };
      const { code, body: content } = await fetchBuffered(proxy, { target, request: { method, body }, limits: bounds });
      if (code >= 400) throw remoteRejection(code, parsedOrText(content));
      const values = countValues(content);
      if (values > maxRemoteValues) throw new Error(`the response has ${values} values, at most ${maxRemoteValues} are read`);
      return { code, value: JSON.parse(content.toString('utf8')) as unknown };
    });
  }

  /**
   * Sends a request and returns the response body as a stream, for a watch. The stream ends when the request's signal aborts.
   * @throws StatusError as `request` does
   */
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
        throw remoteRejection(response.statusCode ?? 0, parsedOrText(await readBounded(response, maxErrorBytes)));
      } catch (error) {
        within.release();
        throw error;
      }
    });
  }

  /** Returns an endpoint of an extension API server. @throws StatusError `ServiceUnavailable` if no endpoint is available */
  async #target(remote: Remote, { path, headers, identity }: RemoteRequest): Promise<ProxyTarget> {
    const sentHeaders = { accept: 'application/json', ...headers, ...requestHeaders({}, identity, { sendsUid: this.#options.sendsUid }) };
    const target = await this.#options.target(remote, path, sentHeaders);
    if (target === undefined) throw serviceUnavailable();
    return target;
  }
}

/** Runs `work` until the signal aborts. Errors other than an abort are converted to `ServiceUnavailable`. */
async function raceWithAbort<T>(signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (signal?.aborted === true) throw signal.reason;
    if (error instanceof StatusError) throw error;
    throw new StatusError(failure('ServiceUnavailable', `error trying to reach service: ${goErrorText(error)}`).status, { cause: error });
  }
}

/** Parses a response as JSON; returns the text if it is not JSON, because an intermediate proxy may have responded. */
function parsedOrText(content: Buffer): unknown {
  const text = content.toString('utf8', 0, maxErrorBytes);
  try {
    return JSON.parse(text);
  } catch {
    return { message: text.slice(0, maxMessageLength) };
  }
}
