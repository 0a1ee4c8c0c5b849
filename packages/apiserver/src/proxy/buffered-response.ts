import type { IncomingHttpHeaders } from 'node:http';
import type { ProxyTarget, ReverseProxy } from './reverse-proxy.ts';

/** What an answer that is read whole may cost: `limit` in bytes, `timeoutMs` from the request to its end. */
export interface ResponseLimits {
  readonly limit: number;
  readonly timeoutMs: number;
  /** Each of them gives it up. */
  readonly signals: readonly AbortSignal[];
}

export interface BufferedResponse {
  readonly code: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** Asks, and reads the answer to its end. @throws StatusError `ServiceUnavailable` when nobody answers; Error for one that is too long or takes too long */
export async function fetchBuffered(
  proxy: Pick<ReverseProxy, 'open'>,
  target: ProxyTarget,
  asked: { readonly method?: string; readonly body?: Buffer | undefined },
  { limit, timeoutMs, signals }: ResponseLimits,
): Promise<BufferedResponse> {
  const within = anySignal([...signals, AbortSignal.timeout(timeoutMs)]);
  try {
    within.signal.throwIfAborted();
    const response = await proxy.open(target, { ...asked, signal: within.signal });
    return { code: response.statusCode ?? 0, headers: response.headers, body: await readBounded(response, limit) };
  } catch (error) {
    throw within.signal.aborted ? within.signal.reason : error;
  } finally {
    within.release();
  }
}

/** @throws Error for more than `limit` bytes */
export async function readBounded(body: AsyncIterable<Buffer>, limit: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > limit) throw new Error(`an answer of more than ${limit} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** A signal that aborts with the first of them; `release` lets go of those that live longer. */
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
