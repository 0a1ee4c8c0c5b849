import { newYield } from './idle.ts';
import { textPartsOf, type TextOptions } from './text-parts.ts';
import { ApiError, errorText, isApiError, type ApiClient, type RequestOptions } from './client.ts';

export interface WatchEvent<T> {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR';
  readonly object: T;
}

/** Yields the complete lines of each part of a stream. An incomplete last line is dropped: the server ended the stream within an event. */
async function* completeLinesOf(body: ReadableStream<Uint8Array<ArrayBuffer>>, options?: TextOptions): AsyncGenerator<string> {
  let rest = '';
  for await (const part of textPartsOf(body, options)) {
    const text = rest === '' ? part : rest + part;
    const end = text.lastIndexOf('\n') + 1;
    rest = text.slice(end);
    if (end > 0) yield text.slice(0, end);
  }
}

/** Yields the lines of a text that ends with a complete one, without empty lines. */
function* linesIn(text: string): Generator<string> {
  for (let from = 0; from < text.length; ) {
    const end = text.indexOf('\n', from);
    if (end > from) yield text.slice(from, end);
    from = end + 1;
  }
}

/** Splits a stream of bytes into its lines. An incomplete last line is dropped. */
export async function* linesOf(body: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<string> {
  for await (const text of completeLinesOf(body)) yield* linesIn(text);
}

/** @throws ApiError for an ERROR event */
function eventOf<T>(line: string): WatchEvent<T> {
  const event = JSON.parse(line) as WatchEvent<T>;
  if (event.type !== 'ERROR') return event;
  const { code = 500, reason = '', message = '' } = event.object as { code?: number; reason?: string; message?: string };
  throw new ApiError(code, reason, message);
}

/**
 * Calls `onEvent` for the events of one watch response until the signal aborts. The events of a part of the response are handled in one turn of the page, unless
 * they take long: a promise for each event would be as much garbage as the event.
 * @throws ApiError for an ERROR event
 */
async function readEvents<T>(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  { signal, onEvent, ...options }: TextOptions & { readonly signal: AbortSignal; onEvent(event: WatchEvent<T>): void },
): Promise<void> {
  const yieldToBrowser = newYield();
  for await (const text of completeLinesOf(body, options))
    for (const line of linesIn(text)) {
      const event = eventOf<T>(line);
      const yielded = yieldToBrowser();
      if (yielded !== undefined) await yielded;
      if (signal.aborted) return;
      onEvent(event);
    }
}

/** The state of a connection that the page shows. */
export type ConnectionState = 'connecting' | 'live' | 'reconnecting' | 'stopped';

export interface ReflectorOptions<T> extends TextOptions {
  readonly client: ApiClient;
  readonly path: string;
  readonly query?: RequestOptions['query'];
  readonly accept?: string;
  readonly signal: AbortSignal;
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

/** Calls `handle`, and reports what it throws as a fault of the page, which would look like a lost connection. `reportError` is absent outside of browsers. */
function reportFault<T>(handle: () => T): T {
  try {
    return handle();
  } catch (error) {
    (globalThis as { reportError?(error: unknown): void }).reportError?.(error);
    throw error;
  }
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
  withoutManagedFields = false,
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
      await readEvents<T>(response.body, {
        withoutManagedFields,
        signal,
        onEvent: (event) => {
          backoff = minBackoffMs;
          version = reportFault(() => onEvent(event)) ?? version;
        },
      });
    } catch (error) {
      if (signal.aborted) break;
      // a selector that the server rejects fails again; a watch with status 400 is listed again
      if (isApiError(error, 401, 403, 404, 405) || (version === undefined && isApiError(error, 400))) {
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
