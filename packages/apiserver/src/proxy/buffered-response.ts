import type { IncomingHttpHeaders } from 'node:http';
import type { ProxyTarget, ReverseProxy } from './reverse-proxy.ts';

/** The limits of a buffered response: `limit` in bytes; `timeoutMs` from the start of the request to the end of the response. */
export interface ResponseLimits {
  readonly limit: number;
  readonly timeoutMs: number;
  /** The signals, each of which aborts the request. */
  readonly signals: readonly AbortSignal[];
}

export interface BufferedResponse {
  readonly code: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** A request whose whole response is buffered, and the limits of the response. */
export interface BufferedRequest {
  readonly target: ProxyTarget;
  readonly request: { readonly method?: string; readonly body?: Buffer | undefined };
  readonly limits: ResponseLimits;
}

/**
 * Sends a request and returns its complete response.
 * @throws StatusError `ServiceUnavailable` if the server cannot be reached; Error if the response exceeds the limits
 */
export async function fetchBuffered(
  proxy: Pick<ReverseProxy, 'open'>,
  { target, request, limits: { limit, timeoutMs, signals } }: BufferedRequest,
): Promise<BufferedResponse> {
  const within = anySignal([...signals, AbortSignal.timeout(timeoutMs)]);
  try {
    within.signal.throwIfAborted();
    const response = await proxy.open(target, { ...request, signal: within.signal });
    return { code: response.statusCode ?? 0, headers: response.headers, body: await readBounded(response, limit) };
  } catch (error) {
    throw within.signal.aborted ? within.signal.reason : error;
  } finally {
    within.release();
  }
}

/** Reads a stream completely. @throws Error if the stream has more than `limit` bytes */
export async function readBounded(body: AsyncIterable<Buffer>, limit: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > limit) throw new Error(`the response has more than ${limit} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** Returns a signal that aborts when the first of `signals` aborts. `release` removes the listeners from `signals`. */
export function anySignal(signals: readonly AbortSignal[]): { readonly signal: AbortSignal; release(): void } {
  const any = new AbortController();
  const listeners = signals.map((signal) => ({ signal, abort: () => any.abort(signal.reason) }));
  for (const { signal, abort } of listeners)
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort, { once: true });
  return {
    signal: any.signal,
    release: () => {
      for (const { signal, abort } of listeners) signal.removeEventListener('abort', abort);
    },
  };
}
