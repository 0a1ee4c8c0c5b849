import type { Revision, Write } from '@oarlock/spi/storage';
import { frameBytes, headerBytes, sealFrame } from './frames.ts';

/** A write with the time at which its key expires. */
export interface LoggedWrite extends Write {
  /** The expiration time in milliseconds since the Unix epoch; 0 means never. */
  readonly deadline: number;
}

/** A record of the log. */
export type LogRecord =
  | { readonly type: 'commit'; readonly revision: Revision; readonly writes: readonly LoggedWrite[] }
  /** A requested compaction: older revisions are not readable. */
  | { readonly type: 'compact'; readonly revision: Revision }
  /** The store continues after this revision. */
  | { readonly type: 'skip'; readonly revision: Revision };

const types = ['commit', 'compact', 'skip'] as const;
/** u32 type | u32 number of writes | f64 revision */
const recordHeader = 16;
/** u32 bytes of the key | u32 bytes of the value | u32 ttl in seconds, 0: none | u32 zero | f64 deadline */
const writeHeader = 24;
const deleted = 0xffffffff;

const writeBytes = ({ key, value }: Write) => writeHeader + Buffer.byteLength(key) + (value?.length ?? 0);

/** Returns the size of a record in a frame, in bytes. */
export function recordBytes(record: LogRecord): number {
  let bytes = recordHeader;
  if (record.type === 'commit') for (const write of record.writes) bytes += writeBytes(write);
  return bytes;
}

/** Encodes records as one frame, in `scratch` if it is large enough. */
export function commitsFrame(records: readonly LogRecord[], payload: number, salt: number, scratch: Buffer): Buffer {
  const total = frameBytes(payload);
  const frame = total <= scratch.length ? scratch.subarray(0, total) : Buffer.allocUnsafeSlow(total);
  let at = headerBytes;
  for (const record of records) {
    const writes = record.type === 'commit' ? record.writes : [];
    frame.writeUInt32LE(types.indexOf(record.type), at);
    frame.writeUInt32LE(writes.length, at + 4);
    frame.writeDoubleLE(record.revision, at + 8);
    at += recordHeader;
    for (const { key, value, ttlSeconds, deadline } of writes) {
      const keyBytes = frame.write(key, at + writeHeader);
      frame.writeUInt32LE(keyBytes, at);
      frame.writeUInt32LE(value === null ? deleted : value.length, at + 4);
      frame.writeUInt32LE(ttlSeconds ?? 0, at + 8);
      frame.writeUInt32LE(0, at + 12);
      frame.writeDoubleLE(deadline, at + 16);
      at += writeHeader + keyBytes;
      if (value === null) continue;
      frame.set(value, at);
      at += value.length;
    }
  }
  sealFrame(frame, 'commits', payload, salt);
  return frame;
}

/** Decodes the records of a frame. Values are copied. */
export function* readRecords(payload: Buffer): Generator<LogRecord> {
  for (let at = 0; at < payload.length; ) {
    const type = types[payload.readUInt32LE(at)];
    const count = payload.readUInt32LE(at + 4);
    const revision = payload.readDoubleLE(at + 8);
    at += recordHeader;
    if (type === undefined) throw new Error('a record of an unknown type');
    if (type !== 'commit') {
      yield { type, revision };
      continue;
    }
    const writes: LoggedWrite[] = [];
    for (let index = 0; index < count; index += 1) {
      const keyBytes = payload.readUInt32LE(at);
      const valueBytes = payload.readUInt32LE(at + 4);
      const ttlSeconds = payload.readUInt32LE(at + 8);
      const deadline = payload.readDoubleLE(at + 16);
      at += writeHeader;
      const key = payload.toString('utf8', at, at + keyBytes);
      at += keyBytes;
      let value: Buffer | null = null;
      if (valueBytes !== deleted) {
        value = Buffer.from(payload.subarray(at, at + valueBytes));
        at += valueBytes;
      }
      writes.push({ key, value, deadline, ...(ttlSeconds > 0 && { ttlSeconds }) });
    }
    yield { type, revision, writes };
  }
}
