import type { StatusError } from '@oarlock/api/status';
import type { Exchange } from '../exchange.ts';
import type { ResponseEncoding } from '../../negotiation/response-encoding.ts';
import { withSpanContext } from '../../negotiation/encoding.ts';
import type { WatchFrame } from '../../request/response.ts';

export interface WatchResponseOptions {
  readonly encoding: ResponseEncoding;
  /** Adds the span context of each event beside its type and object. JSON only. */
  readonly includeSpanContexts: boolean;
  /** Called with the number of events of each batch. */
  onEvents(events: number): void;
  /** Called once after the initial events have been written, if the watch sends them. */
  onInitialEventsSent?(): void;
  /** Converts an error of the source to the one that the client receives. */
  statusOf(error: unknown): StatusError;
}

/** Returns true for the bookmark that ends the initial events (KEP-3157). */
const endsInitialEvents = ({ type, item }: WatchFrame): boolean =>
  type === 'BOOKMARK' && item.object.metadata?.annotations?.['k8s.io/initial-events-end'] === 'true';

/**
 * Writes a watch until its source ends or the client disconnects. Each batch is one write. The next batch is not requested until the
 * client has received most of the previous ones; the source bounds what it queues for a slow client.
 */
export async function sendWatchResponse(
  exchange: Exchange,
  frames: AsyncIterable<readonly WatchFrame[]>,
  { encoding, includeSpanContexts, onEvents, onInitialEventsSent, statusOf }: WatchResponseOptions,
): Promise<void> {
  exchange.setHeader('Content-Type', encoding.streamType);
  const stream = exchange.openStream(200);
  let pendingCallback = onInitialEventsSent;
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
      if (!stream.write(lines)) await stream.waitForDrain();
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
