import type { StatusError } from '@oarlock/api/status';
import type { Clock } from '@oarlock/kernel/clock';
import type { TokenSource } from './bearer-token.ts';
import { dropNulls } from './go-nulls.ts';
import { TransportError, type HttpResponse } from './http-connection.ts';
import { refusal } from './http-status.ts';
import type { HttpTransport } from './http-transport.ts';

export interface HttpExchangeOptions {
  readonly transport: HttpTransport;
  /** Stands before every path; '' or `/like/this`. */
  readonly prefix: string;
  readonly token: TokenSource;
  readonly clock: Clock;
  readonly userAgent: string;
  readonly requestTimeoutMs: number;
  readonly maxResponseBytes: number;
}

export interface ExchangeRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
  /** Members of the answer that are null are left out. */
  readonly nullsSayNothing?: boolean;
}

const maxRetries = 10;
const longestRetryMs = 60_000;
const maxErrorBytes = 1024 * 1024;

/** A request and its answer, with credentials, the waits that servers ask for, and limits. */
export class HttpExchange {
  readonly #options: HttpExchangeOptions;

  constructor(options: HttpExchangeOptions) {
    this.#options = options;
  }

  /** The same under another name, over the same connection. */
  as(userAgent: string): HttpExchange {
    return new HttpExchange({ ...this.#options, userAgent });
  }

  /** The parsed answer; text when it is no JSON. @throws StatusError, TransportError or the signal's reason */
  async json(request: ExchangeRequest): Promise<unknown> {
    const { clock, requestTimeoutMs, maxResponseBytes } = this.#options;
    const limit = new AbortController();
    const timer = clock.after(requestTimeoutMs, () =>
      limit.abort(new TransportError('Timeout', `no answer within ${requestTimeoutMs / 1000} s`)),
    );
    const abort = () => limit.abort(request.signal?.reason);
    request.signal?.throwIfAborted();
    request.signal?.addEventListener('abort', abort, { once: true });
    try {
      const response = await this.#send({ ...request, signal: limit.signal });
      const text = await readText(response, maxResponseBytes);
      if (!/\bjson\b/.test(response.headers['content-type'] ?? '')) return text;
      try {
        const value: unknown = JSON.parse(text);
        // nearly no text has any: looking for them is cheaper than walking through what was read
        if (request.nullsSayNothing === true && text.includes(':null')) dropNulls(value);
        return value;
      } catch (cause) {
        throw new TransportError('Malformed', 'the answer is no JSON', { cause });
      }
    } finally {
      timer.cancel();
      request.signal?.removeEventListener('abort', abort);
    }
  }

  /** The body of the answer as it comes. Reading it further is the caller's business, and so is how long that takes. */
  async stream(request: ExchangeRequest): Promise<AsyncIterable<Buffer>> {
    return bodyOf(await this.#send(request));
  }

  /** Asks until the server neither refuses the credentials for being old nor says when to come again. */
  async #send({ method, path, headers, body, signal }: ExchangeRequest): Promise<HttpResponse> {
    const { transport, prefix, token, clock, userAgent, maxResponseBytes } = this.#options;
    const encoded = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
    let renewed = false;
    for (let retries = 0; ; retries += 1) {
      const bearer = await token.get();
      const response = await transport.request({
        method,
        path: `${prefix}${path}`,
        body: encoded,
        signal,
        headers: { ...headers, 'user-agent': userAgent, ...(bearer !== undefined && { authorization: `Bearer ${bearer}` }) },
      });
      if (response.status >= 200 && response.status < 300) return response;
      const after = retryAfter(response);
      const text = await readText(response, Math.min(maxErrorBytes, maxResponseBytes));
      const error = refusal(response.status, text, after);
      if (response.status === 401 && !renewed && token.refused()) {
        renewed = true;
        continue;
      }
      if (!mayRetry(error, after) || retries >= maxRetries) throw error;
      await clock.sleep(Math.min((after ?? 0) * 1000, longestRetryMs), signal);
    }
  }
}

/** Too many requests, or a fault that is said to pass: the server has done nothing yet. */
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
      throw new TransportError('TooLarge', `the answer is longer than ${maxBytes} bytes`);
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** Gives the rest up when the reader turns away. */
async function* bodyOf(response: HttpResponse): AsyncGenerator<Buffer> {
  let ended = false;
  try {
    yield* response.body;
    ended = true;
  } finally {
    if (!ended) response.cancel();
  }
}
