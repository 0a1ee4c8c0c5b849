import { deepFreeze, type KubeObject } from '@oarlock/api/object';
import { StatusError, type Status } from '@oarlock/api/status';
import { parseTraceparent } from '@oarlock/kernel/tracing';
import type { WatchEvent } from '@oarlock/spi/client';
import { eventLoop } from '@oarlock/primitives/concurrency/event-loop';
import { parseWithoutNulls } from './null-fields.ts';
import { TransportError } from '../connection.ts';

interface Frame {
  readonly type?: string;
  readonly object?: KubeObject;
  readonly cause?: string;
}

const lineBreak = 0x0a;
const types = new Set(['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK']);

/**
 * Decodes the body of a watch: one JSON text per line. The events of one chunk form a batch; the next chunk is read when the batch was taken.
 * An incomplete last line is ignored.
 * @throws StatusError with the Status of an ERROR event; TransportError `Malformed`, or `TooLarge` for a line longer than `maxFrameBytes`
 */
export async function* decodeWatchEvents(
  body: AsyncIterable<Buffer>,
  { maxFrameBytes, ignoreNulls = false }: { readonly maxFrameBytes: number; readonly ignoreNulls?: boolean },
): AsyncGenerator<readonly WatchEvent[]> {
  let parts: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    let batch: WatchEvent[] = [];
    let from = 0;
    for (let end = chunk.indexOf(lineBreak); end >= 0; end = chunk.indexOf(lineBreak, from)) {
      const line = parts.length === 0 ? chunk.subarray(from, end) : Buffer.concat([...parts, chunk.subarray(from, end)]);
      [parts, size, from] = [[], 0, end + 1];
      if (line.length === 0) continue;
      const frame = parse(line, ignoreNulls);
      if (frame.type === 'ERROR') {
        if (batch.length > 0) yield batch;
        throw new StatusError(deepFreeze(frame.object) as unknown as Status);
      }
      batch.push(toEvent(frame));
      if (eventLoop.shouldYield) {
        yield batch;
        batch = [];
        while (eventLoop.shouldYield) await eventLoop.yield();
      }
    }
    if (from < chunk.length) {
      parts.push(chunk.subarray(from));
      size += chunk.length - from;
      if (size > maxFrameBytes) throw new TransportError('TooLarge', `a watch event is longer than ${maxFrameBytes} bytes`);
    }
    if (batch.length > 0) yield batch;
  }
}

function parse(line: Buffer, ignoreNulls: boolean): Frame {
  try {
    const text = line.toString('utf8');
    const frame: unknown = ignoreNulls ? parseWithoutNulls(text) : JSON.parse(text);
    if (typeof frame === 'object' && frame !== null) return frame;
  } catch (cause) {
    throw new TransportError('Malformed', 'a watch event is no JSON', { cause });
  }
  throw new TransportError('Malformed', 'a watch event is no object');
}

function toEvent({ type = '', object, cause: traceparent }: Frame): WatchEvent {
  if (!types.has(type) || typeof object !== 'object' || object === null)
    throw new TransportError('Malformed', `unknown type ${JSON.stringify(type)} of a watch event`);
  const spanContext = typeof traceparent === 'string' ? parseTraceparent(traceparent) : undefined;
  return { type: type as WatchEvent['type'], object: deepFreeze(object), ...(spanContext && { spanContext }) };
}
