import type { StatusError } from '@oarlock/api/status';
import type { Exchange } from '../exchange.ts';
import type { ResponseEncoding } from '../../endpoints/negotiation/response-encoding.ts';
import { withSpanContext } from '../../endpoints/negotiation/encoding.ts';
import type { WatchFrame, WatchFrames } from '../../endpoints/request/response.ts';

export interface WatchResponseOptions {
  readonly encoding: ResponseEncoding;
  /** Whether each JSON event contains its span context, beside `type` and `object`. */
  readonly includeSpanContexts: boolean;
  /** Called with the number of events in each batch. */
  onEvents(events: number): void;
  /** Called once after the initial events have been written, if the watch sends initial events. */
  onInitialEventsSent?(): void;
  /** Converts an error of the watch to the error that the client receives. */
  statusOf(error: unknown): StatusError;
}

/**
 * The maximum number of bytes of one write. The connection keeps an encrypted copy of each write until the client has received it, and watchers do
 * not share such copies.
 */
const maxWriteBytes = 64 * 1024;

/** Returns true for the bookmark that ends the initial events (KEP-3157). */
const endsInitialEvents = ({ type, item }: WatchFrame): boolean =>
  type === 'BOOKMARK' && item.object.metadata?.annotations?.['k8s.io/initial-events-end'] === 'true';

/**
 * Writes the events of a watch until the watch ends or the client disconnects. The next batch is requested after the connection has accepted the
 * previous one, so that the queue of the watch limits the memory of a slow client. If the watch is terminated while a write is blocked, the response
 * is aborted.
 */
export async function sendWatchResponse(
  exchange: Exchange,
  frames: WatchFrames,
  { encoding, includeSpanContexts, onEvents, onInitialEventsSent, statusOf }: WatchResponseOptions,
): Promise<void> {
  exchange.setHeader('Content-Type', encoding.streamType);
  const stream = exchange.openStream(200);
  let pendingCallback = onInitialEventsSent;
  let blocked = false;
  frames.onTerminated?.(() => {
    if (blocked) exchange.abort();
  });
  try {
    for await (const batch of frames) {
      const [only] = batch;
      const lines =
        batch.length === 1 && only !== undefined && !includeSpanContexts
          ? [encoding.frame(only)]
          : includeSpanContexts
            ? batch.flatMap((frame) => withSpanContext(encoding.frame(frame), frame))
            : batch.map((frame) => encoding.frame(frame));
      onEvents(batch.length);
      for (const chunks of stream.isMessageBased ? [lines] : writesOf(lines)) {
        if (stream.write(chunks)) continue;
        blocked = true;
        await stream.waitForDrain();
        blocked = false;
        if (stream.closed) return;
      }
      if (pendingCallback !== undefined && batch.some(endsInitialEvents)) {
        pendingCallback();
        pendingCallback = undefined;
      }
      if (stream.closed) return;
    }
  } catch (error) {
    stream.write([encoding.error(statusOf(error).status)]);
  }
  stream.end();
}

/** Groups lines into writes of at most `maxWriteBytes`, without copying. Nearly all batches are one line, which is one write. */
function writesOf(lines: readonly Buffer[]): Iterable<readonly Buffer[]> {
  const [only] = lines;
  return lines.length === 1 && only !== undefined && only.length <= maxWriteBytes ? [lines] : groupedWrites(lines);
}

function* groupedWrites(lines: readonly Buffer[]): Generator<readonly Buffer[]> {
  let chunks: Buffer[] = [];
  let bytes = 0;
  for (const line of lines) {
    for (const part of line.length > maxWriteBytes ? partsOf(line) : [line]) {
      if (bytes > 0 && bytes + part.length > maxWriteBytes) {
        yield chunks;
        [chunks, bytes] = [[], 0];
      }
      chunks.push(part);
      bytes += part.length;
    }
  }
  if (chunks.length > 0) yield chunks;
}

/**
 * The parts of large lines, by line. Watchers share the lines, and therefore share the parts and the framed copies that HTTP/1.1 caches for the
 * parts.
 */
const parts = new WeakMap<Buffer, readonly Buffer[]>();

function partsOf(line: Buffer): readonly Buffer[] {
  let known = parts.get(line);
  if (known === undefined) {
    const count = Math.ceil(line.length / maxWriteBytes);
    known = Array.from({ length: count }, (_, i) => line.subarray(i * maxWriteBytes, (i + 1) * maxWriteBytes));
    parts.set(line, known);
  }
  return known;
}
