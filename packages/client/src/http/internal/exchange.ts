import type { StatusError } from '@oarlock/api/status';
import type { Clock } from '@oarlock/primitives/clock';
import type { TokenSource } from '../../auth/bearer-token.ts';
import { parseWithoutNulls } from './null-fields.ts';
import { TransportError, type HttpRequest, type HttpResponse } from '../connection.ts';
import { toStatusError } from './status.ts';
import type { HttpTransport } from './transport.ts';
import type { RequestObserver } from '../request-metrics.ts';

export interface HttpExchangeOptions {
  readonly transport: HttpTransport;
  /** Prefix of every path; '' or `/like/this`. */
  readonly prefix: string;
  readonly token: TokenSource;
  readonly clock: Clock;
  readonly userAgent: string;
  readonly requestTimeoutMs: number;
  readonly maxResponseBytes: number;
  readonly metrics?: RequestObserver | undefined;
  /** Returns the host and port of the preferred server, for metrics. */
  host(): string;
}

export interface ExchangeRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The request body, sent as JSON. */
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
  /** Removes object members that are null from the response. */
  readonly ignoreNulls?: boolean;
}

const maxRetries = 10;
const longestRetryMs = 60_000;
const maxErrorBytes = 1024 * 1024;

/** Sends requests with credentials, retries after `Retry-After`, and enforces limits. */
export class HttpExchange {
  readonly #options: HttpExchangeOptions;

  constructor(options: HttpExchangeOptions) {
    this.#options = options;
  }

  /** Returns an exchange with another user agent on the same connection. */
  withUserAgent(userAgent: string): HttpExchange {
    return new HttpExchange({ ...this.#options, userAgent });
  }

  /** Returns the parsed response, or its text if it is not JSON. @throws StatusError, TransportError or the signal's reason */
  async json(request: ExchangeRequest): Promise<unknown> {
    const { clock, requestTimeoutMs, maxResponseBytes, metrics, host } = this.#options;
    const from = clock.monotonic();
    const limit = new AbortController();
    const timer = clock.after(requestTimeoutMs, () =>
      limit.abort(new TransportError('Timeout', `no response within ${requestTimeoutMs / 1000} s`)),
    );
    const abort = () => limit.abort(request.signal?.reason);
    request.signal?.throwIfAborted();
    request.signal?.addEventListener('abort', abort, { once: true });
    try {
      const response = await this.#send({ ...request, signal: limit.signal });
      const text = await readText(response, maxResponseBytes);
      if (!/\bjson\b/.test(response.headers['content-type'] ?? '')) return text;
      try {
        return request.ignoreNulls === true ? parseWithoutNulls(text) : (JSON.parse(text) as unknown);
      } catch (cause) {
        throw new TransportError('Malformed', 'the response is no JSON', { cause });
      }
    } finally {
      metrics?.requested(request.method, host(), (clock.monotonic() - from) / 1000);
      timer.cancel();
      request.signal?.removeEventListener('abort', abort);
    }
  }

  /** Returns the body of the response as it arrives. The caller reads it, without a timeout. */
  async stream(request: ExchangeRequest): Promise<AsyncIterable<Buffer>> {
    return bodyOf(await this.#send(request));
  }

  /** Sends a request and counts its outcome. */
  async #attempt(request: HttpRequest): Promise<HttpResponse> {
    const { transport, metrics, host } = this.#options;
    if (metrics === undefined) return transport.request(request);
    let code: number | undefined;
    try {
      const response = await transport.request(request);
      code = response.status;
      return response;
    } finally {
      metrics.attempted(request.method, host(), code);
    }
  }

  /** Sends a request. Retries once after a 401 with renewed credentials, and after the time in `Retry-After`. */
  async #send({ method, path, headers, body, signal }: ExchangeRequest): Promise<HttpResponse> {
    const { prefix, token, clock, userAgent, maxResponseBytes } = this.#options;
    const encoded = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
    let renewed = false;
    for (let retries = 0; ; retries += 1) {
      const bearer = await token.get();
      const response = await this.#attempt({
        method,
        path: `${prefix}${path}`,
        body: encoded,
        signal,
        headers: { ...headers, 'user-agent': userAgent, ...(bearer !== undefined && { authorization: `Bearer ${bearer}` }) },
      });
      if (response.status >= 200 && response.status < 300) return response;
      const after = retryAfter(response);
      const text = await readText(response, Math.min(maxErrorBytes, maxResponseBytes));
      const error = toStatusError(response.status, text, after);
      if (response.status === 401 && !renewed && token.handleUnauthorized()) {
        renewed = true;
        continue;
      }
      if (!mayRetry(error, after) || retries >= maxRetries) throw error;
      await clock.sleep(Math.min((after ?? 0) * 1000, longestRetryMs), signal);
    }
  }
}

/** Returns true for 429 and 5xx with `Retry-After`: the server has not processed the request. */
function mayRetry({ code }: StatusError, after: number | undefined): boolean {
  return after !== undefined && (code === 429 || code >= 500);
}

function retryAfter({ headers }: HttpResponse): number | undefined {
  const value = headers['retry-after'];
  return value !== undefined && /^\d{1,6}$/.test(value) ? Number(value) : undefined;
}

async function readText(response: HttpResponse, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response.body) {
    size += chunk.length;
    if (size > maxBytes) {
      response.cancel();
      throw new TransportError('TooLarge', `the response is longer than ${maxBytes} bytes`);
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** Cancels the response if the reader stops early. */
async function* bodyOf(response: HttpResponse): AsyncGenerator<Buffer> {
  let ended = false;
  try {
    yield* response.body;
    ended = true;
  } finally {
    if (!ended) response.cancel();
  }
}
