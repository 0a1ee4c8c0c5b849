import type { StatusError } from '@oarlock/api/status';
import type { Exchange } from '../exchange.ts';
import type { ResponseEncoding } from '../../negotiation/response-encoding.ts';
import { withSpanContext } from '../../negotiation/encoding.ts';
import type { WatchFrame } from '../../request/response.ts';

export interface WatchResponseOptions {
  readonly encoding: ResponseEncoding;
  /** Put each event's cause beside its type and object. JSON only. */
  readonly includeSpanContexts: boolean;
  /** Told how many events were sent. */
  sent(events: number): void;
  /** Told once that all that there was has been written, where the watch begins with that. */
  listed?(): void;
  /** A fault of the source's, as the client is told of it. */
  statusOf(error: unknown): StatusError;
}

/** The bookmark after what there was (KEP-3157). */
const endsInitial = ({ type, item }: WatchFrame): boolean =>
  type === 'BOOKMARK' && item.object.metadata?.annotations?.['k8s.io/initial-events-end'] === 'true';

/**
 * Writes a watch until its source ends or the client goes. Each batch is one write; the next is not asked for before the client has
 * taken most of what was written, and what a slow client lets pile up is bounded by the source.
 */
export async function sendWatchResponse(
  exchange: Exchange,
  frames: AsyncIterable<readonly WatchFrame[]>,
  { encoding, includeSpanContexts, sent, listed, statusOf }: WatchResponseOptions,
): Promise<void> {
  exchange.setHeader('Content-Type', encoding.streamType);
  const outlet = exchange.openStream(200);
  let listing = listed;
  try {
    for await (const batch of frames) {
      const [only] = batch;
      const lines =
        batch.length === 1 && only !== undefined && !includeSpanContexts
          ? [encoding.frame(only)]
          : includeSpanContexts
            ? batch.flatMap((frame) => withSpanContext(encoding.frame(frame), frame))
            : batch.map((frame) => encoding.frame(frame));
      sent(batch.length);
      if (!outlet.write(lines)) await outlet.waitForDrain();
      if (listing !== undefined && batch.some(endsInitial)) {
        listing();
        listing = undefined;
      }
      if (outlet.closed) return;
    }
  } catch (error) {
    outlet.write([encoding.error(statusOf(error).status)]);
  }
  outlet.end();
}
