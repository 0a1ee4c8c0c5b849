import { isObject } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';
import { StatusError, type Status } from '@oarlock/api/status';
import { eventLoop } from '@oarlock/primitives/concurrency/event-loop';
import { DerivedObject } from '../watch-cache/item.ts';
import { SharedWatchFrame } from '../watch-cache/watch-cache-event.ts';
import { countValues, maxRemoteValues } from '../endpoints/request/body-values.ts';
import type { WatchFrame } from '../endpoints/request/response.ts';

const lineBreak = 0x0a;
const maxFrameBytes = 16 * 1024 * 1024;
const types: ReadonlySet<unknown> = new Set(['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK']);

/**
 * Decodes the body of an extension API server's watch, one JSON text per line. Yields one batch of events per chunk, and reads the next
 * chunk after the batch was consumed. Ignores an incomplete last line.
 * @throws StatusError of an ERROR event; Error for a line that is not a watch event or is longer than 16 MiB
 */
export async function* decodeRemoteWatch(body: AsyncIterable<Buffer>): AsyncGenerator<readonly WatchFrame[]> {
  let partial: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    const batch: WatchFrame[] = [];
    let from = 0;
    for (let end = chunk.indexOf(lineBreak); end >= 0; end = chunk.indexOf(lineBreak, from)) {
      const line = Buffer.concat([...partial, chunk.subarray(from, end)]);
      [partial, size, from] = [[], 0, end + 1];
      if (line.length === 0) continue;
      const frame = decodeFrame(line);
      if (frame instanceof StatusError) {
        if (batch.length > 0) yield batch;
        throw frame;
      }
      batch.push(frame);
      while (eventLoop.shouldYield) await eventLoop.yield();
    }
    if (from < chunk.length) {
      partial.push(chunk.subarray(from));
      size += chunk.length - from;
      if (size > maxFrameBytes) throw new Error(`the watch event has more than ${maxFrameBytes} bytes`);
    }
    if (batch.length > 0) yield batch;
  }
}

function decodeFrame(line: Buffer): WatchFrame | StatusError {
  if (countValues(line) > maxRemoteValues) throw new Error(`the watch event has more than ${maxRemoteValues} values`);
  const event: unknown = JSON.parse(line.toString('utf8'));
  if (!isObject(event)) throw new Error('the watch event is not an object');
  const { type, object } = event;
  if (!isObject(object)) throw new Error('the watch event has no object');
  if (type === 'ERROR') return new StatusError(object as unknown as Status);
  if (!types.has(type)) throw new Error(`the watch event has the unknown type ${JSON.stringify(type)}`);
  return new SharedWatchFrame(type as WatchFrame['type'], new DerivedObject(object as KubeObject, 0), undefined);
}
