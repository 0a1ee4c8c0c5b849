import { newYield } from './idle.ts';
import { textPartsOf } from './text-parts.ts';
import { ApiError, errorText, isApiError, type ApiClient, type RequestOptions } from './client.ts';

export interface WatchEvent<T> {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR';
  readonly object: T;
}

/** Splits a stream of bytes into its lines. An incomplete last line is dropped: the server ended the stream within an event. */
export async function* linesOf(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  let rest = '';
  for await (const part of textPartsOf(body)) {
    const lines = (rest + part).split('\n');
    rest = lines.pop() ?? '';
    yield* lines.filter((line) => line !== '');
  }
}

/** Parses the events of one watch response. @throws ApiError for an ERROR event */
export async function* eventsOf<T>(
  body: ReadableStream<Uint8Array>,
  parse: (line: string) => WatchEvent<T> = JSON.parse,
): AsyncGenerator<WatchEvent<T>> {
  for await (const line of linesOf(body)) {
    const event = parse(line);
    if (event.type === 'ERROR') {
      const { code = 500, reason = '', message = '' } = event.object as { code?: number; reason?: string; message?: string };
      throw new ApiError(code, reason, message);
    }
    yield event;
  }
}

/** The state of a connection that the page shows. */
export type ConnectionState = 'connecting' | 'live' | 'reconnecting' | 'stopped';

export interface ReflectorOptions<T> {
  readonly client: ApiClient;
  readonly path: string;
  readonly query?: RequestOptions['query'];
  readonly accept?: string;
  readonly signal: AbortSignal;
  /** Parses the text of an event; default: `JSON.parse`. */
  readonly parse?: (line: string) => WatchEvent<T>;
  /** Lists all objects and returns the resource version from which to watch. Called again after `Expired`. */
  list(signal: AbortSignal): Promise<string>;
  /** Handles an event. Returns the resource version of its object, from which the watch resumes. */
  onEvent(event: WatchEvent<T>): string | undefined;
  onState(state: ConnectionState, reason?: string): void;
  /** Resolves after the time; rejects when the signal aborts. */
  wait?(ms: number, signal: AbortSignal): Promise<void>;
}

const minBackoffMs = 500;
const maxBackoffMs = 30_000;

/** Waits, but continues at once when the browser is online again. */
export function waitForRetry(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    // absent outside of browsers
    const window = globalThis as {
      addEventListener?(type: string, listener: () => void): void;
      removeEventListener?(type: string, listener: () => void): void;
    };
    const end = () => {
      clearTimeout(timer);
      window.removeEventListener?.('online', end);
      signal.removeEventListener('abort', end);
      if (signal.aborted) reject(signal.reason);
      else resolve();
    };
    const timer = setTimeout(end, ms);
    window.addEventListener?.('online', end);
    signal.addEventListener('abort', end);
  });
}

/**
 * Lists and watches until the signal aborts. A watch that ends is resumed from the last resource version, so that no event is lost; after `Expired`, or an
 * error status, everything is listed again. Failures are repeated with an increasing delay.
 */
export async function reflect<T>({
  client,
  path,
  query,
  accept,
  signal,
  parse,
  list,
  onEvent,
  onState,
  wait,
}: ReflectorOptions<T>): Promise<void> {
  let version: string | undefined;
  let backoff = minBackoffMs;
  onState('connecting');
  while (!signal.aborted) {
    try {
      version ??= await list(signal);
      const response = await client.send(path, {
        ...(accept !== undefined && { accept }),
        query: { ...query, watch: true, allowWatchBookmarks: true, resourceVersion: version },
        signal,
      });
      onState('live');
      if (response.body === null) throw new Error('the response has no body');
      const yieldToBrowser = newYield();
      for await (const event of eventsOf<T>(response.body, parse)) {
        const yielded = yieldToBrowser();
        if (yielded !== undefined) await yielded;
        if (signal.aborted) break;
        backoff = minBackoffMs;
        version = onEvent(event) ?? version;
      }
    } catch (error) {
      if (signal.aborted) break;
      if (isApiError(error, 401, 403, 404, 405)) {
        onState('stopped', errorText(error));
        return;
      }
      if (isApiError(error, 410)) {
        version = undefined;
        continue;
      }
      if (isApiError(error)) version = undefined;
      onState('reconnecting', errorText(error));
      try {
        await (wait ?? waitForRetry)(backoff, signal);
      } catch {
        break; // aborted
      }
      backoff = Math.min(backoff * 2, maxBackoffMs);
    }
  }
}
