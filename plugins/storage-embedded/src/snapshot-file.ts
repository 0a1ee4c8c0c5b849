import type { CurrentEntry } from '@oarlock/mvcc/mvcc-store';
import type { Entry, Revision } from '@oarlock/spi/storage';
import { frameBytes, headerBytes, sealFrame } from './frames.ts';

/** The first frame of a snapshot. */
export interface SnapshotHeader {
  readonly format: 1;
  readonly salt: number;
  /** The snapshot contains the entries at this revision; later changes are in the log. */
  readonly revision: Revision;
}
/** The last frame. A snapshot without it is incomplete. */
export interface SnapshotFooter {
  readonly entries: number;
}

/** u32 bytes of the key | u32 bytes of the value | f64 revision | f64 created | f64 deadline, 0: never */
const entryHeader = 32;

export interface StoredEntry {
  readonly entry: Entry;
  /** Milliseconds since the Unix epoch; 0: never. */
  readonly deadline: number;
}

/** Encodes entries as one frame. `now`: milliseconds since the Unix epoch. */
export function entriesFrame(entries: readonly CurrentEntry[], now: number, salt: number): Buffer {
  let payload = 0;
  for (const { entry } of entries) payload += entryHeader + Buffer.byteLength(entry.key) + entry.value.length;
  const frame = Buffer.allocUnsafeSlow(frameBytes(payload));
  let at = headerBytes;
  for (const { entry, secondsLeft } of entries) {
    const keyBytes = frame.write(entry.key, at + entryHeader);
    frame.writeUInt32LE(keyBytes, at);
    frame.writeUInt32LE(entry.value.length, at + 4);
    frame.writeDoubleLE(entry.revision, at + 8);
    frame.writeDoubleLE(entry.created, at + 16);
    frame.writeDoubleLE(secondsLeft === undefined ? 0 : now + secondsLeft * 1000, at + 24);
    at += entryHeader + keyBytes;
    frame.set(entry.value, at);
    at += entry.value.length;
  }
  sealFrame(frame, 'entries', payload, salt);
  return frame;
}

/** Decodes the entries of a frame. Values are copied. */
export function* readEntries(payload: Buffer): Generator<StoredEntry> {
  for (let at = 0; at < payload.length; ) {
    const keyBytes = payload.readUInt32LE(at);
    const valueBytes = payload.readUInt32LE(at + 4);
    const [revision, created, deadline] = [payload.readDoubleLE(at + 8), payload.readDoubleLE(at + 16), payload.readDoubleLE(at + 24)];
    at += entryHeader;
    const key = payload.toString('utf8', at, at + keyBytes);
    at += keyBytes;
    yield { entry: { key, value: Buffer.from(payload.subarray(at, at + valueBytes)), revision, created }, deadline };
    at += valueBytes;
  }
}
