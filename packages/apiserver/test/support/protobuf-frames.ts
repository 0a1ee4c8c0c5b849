import type { KubeObject } from '@oarlock/api/object';
import { decodeProtobuf } from '../../src/endpoints/negotiation/protobuf-decoder.ts';
import { protobufCodec } from '../../src/endpoints/negotiation/internal/protobuf-encoder.ts';

/** Returns an object in the envelope in which clients and servers exchange it. */
export function enveloped(object: KubeObject): Buffer {
  return wrapped(object.apiVersion ?? '', object.kind ?? '', protobufCodec.message(object));
}

export function wrapped(apiVersion: string, kind: string, message: Buffer): Buffer {
  return Buffer.concat([protobufCodec.envelopeHead(apiVersion, kind, message.length), message, protobufCodec.envelopeTail]);
}

export interface Event {
  readonly type: string;
  readonly object: KubeObject;
}

/** Returns the complete events in the received part of a watch, decoded as Go clients do. */
export function eventsIn(bytes: Buffer): readonly Event[] {
  const events: Event[] = [];
  for (let at = 0; at + 4 <= bytes.length; ) {
    const end = at + 4 + bytes.readUInt32BE(at);
    if (end > bytes.length) break;
    const { type, object } = decodeProtobuf(wrapped('v1', 'WatchEvent', bytes.subarray(at + 4, end))) as unknown as Event;
    events.push({ type, object });
    at = end;
  }
  return events;
}
