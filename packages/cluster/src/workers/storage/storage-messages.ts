import {
  StorageError,
  type Change,
  type ChangeBatch,
  type CommitResult,
  type Entry,
  type Page,
  type Precondition,
  type RangeOptions,
  type StorageErrorCode,
  type Write,
} from '@oarlock/spi/storage';
import { MessageWriter, type MessageReader } from './message-bytes.ts';

/** The kinds of frames from the process that uses the storage. */
export const request = {
  get: 1,
  range: 2,
  commit: 3,
  progress: 4,
  compact: 5,
  skipTo: 6,
  watch: 7,
  /** The watch with the id of the frame ends. */
  cancel: 8,
  /** The reader of the watch has read a number of bytes. */
  acknowledge: 9,
} as const;

/** The kinds of frames from the process that has the storage. */
export const response = {
  result: 16,
  error: 17,
  changes: 18,
  /** A part of a batch; the rest follows. */
  partOfChanges: 19,
  watchEnd: 20,
  /** The health of the storage has changed. */
  health: 21,
} as const;

/** The bytes of a watch that the storage sends before its reader acknowledges any. */
export const watchWindowBytes = 4 * 1024 * 1024;
/** A message ends with the entry or change that exceeds this size. */
const messageBytes = 8 * 1024 * 1024;
const absent = -1;

const changeOverheadBytes = 64;
/** Returns the size of a batch for the flow control of its watch: 0 without changes, because the reader receives more of those than are sent. */
export function batchBytes({ changes }: ChangeBatch): number {
  let bytes = 0;
  for (const change of changes) {
    bytes += changeOverheadBytes + (change.previous?.value.length ?? 0);
    if (change.type === 'put') bytes += change.entry.value.length;
  }
  return bytes;
}

export const writeGet = (key: string, revision: number | undefined): MessageWriter =>
  new MessageWriter().text(key).number(revision ?? absent);

export function readGet(reader: MessageReader): { readonly key: string; readonly revision: number | undefined } {
  return { key: reader.text(), revision: readOptional(reader) };
}

const readOptional = (reader: MessageReader): number | undefined => {
  const value = reader.number();
  return value === absent ? undefined : value;
};

export function writeRange({ prefix, after, limit, revision }: RangeOptions): MessageWriter {
  const writer = new MessageWriter()
    .text(prefix)
    .byte(after === undefined ? 0 : 1)
    .text(after ?? '');
  return writer.number(limit ?? absent).number(revision ?? absent);
}

export function readRange(reader: MessageReader): RangeOptions {
  const prefix = reader.text();
  const hasAfter = reader.byte() === 1;
  const after = reader.text();
  const limit = readOptional(reader);
  const revision = readOptional(reader);
  return { prefix, ...(hasAfter && { after }), ...(limit !== undefined && { limit }), ...(revision !== undefined && { revision }) };
}

export function writeCommit(writes: readonly Write[], expect: readonly Precondition[]): MessageWriter {
  const writer = new MessageWriter().count(writes.length);
  for (const { key, value, ttlSeconds } of writes) {
    writer
      .text(key)
      .number(ttlSeconds ?? absent)
      .byte(value === null ? 0 : 1);
    if (value !== null) writer.bytes(value);
  }
  writer.count(expect.length);
  for (const { key, revision } of expect) writer.text(key).number(revision);
  return writer;
}

export function readCommit(reader: MessageReader): { readonly writes: readonly Write[]; readonly expect: readonly Precondition[] } {
  const writes = Array.from({ length: reader.count() }, (): Write => {
    const key = reader.text();
    const ttlSeconds = readOptional(reader);
    const value = reader.byte() === 0 ? null : reader.bytes();
    return { key, value, ...(ttlSeconds !== undefined && { ttlSeconds }) };
  });
  const expect = Array.from({ length: reader.count() }, (): Precondition => ({ key: reader.text(), revision: reader.number() }));
  return { writes, expect };
}

function writeEntry(writer: MessageWriter, { key, value, revision, created }: Entry): void {
  writer.text(key).number(revision).number(created).bytes(value);
}

function readEntry(reader: MessageReader): Entry {
  const key = reader.text();
  const revision = reader.number();
  const created = reader.number();
  return { key, revision, created, value: reader.bytes() };
}

function writeOptionalEntry(writer: MessageWriter, entry: Entry | undefined): void {
  writer.byte(entry === undefined ? 0 : 1);
  if (entry !== undefined) writeEntry(writer, entry);
}

const readOptionalEntry = (reader: MessageReader): Entry | undefined => (reader.byte() === 0 ? undefined : readEntry(reader));

export function writeGetResult({ entry, revision }: { readonly entry: Entry | undefined; readonly revision: number }): MessageWriter {
  const writer = new MessageWriter().number(revision);
  writeOptionalEntry(writer, entry);
  return writer;
}

export function readGetResult(reader: MessageReader): { readonly entry: Entry | undefined; readonly revision: number } {
  const revision = reader.number();
  return { entry: readOptionalEntry(reader), revision };
}

export function writeCommitResult(result: CommitResult): MessageWriter {
  const writer = new MessageWriter().byte(result.ok ? 1 : 0);
  if (result.ok) return writer.number(result.revision);
  writer.text(result.key);
  writeOptionalEntry(writer, result.current);
  return writer;
}

export function readCommitResult(reader: MessageReader): CommitResult {
  if (reader.byte() === 1) return { ok: true, revision: reader.number() };
  return { ok: false, key: reader.text(), current: readOptionalEntry(reader) };
}

/** A page, or the first part of one: the reader then requests the rest. */
export interface PagePart extends Page {
  readonly isCut: boolean;
}

export function writePage({ entries, revision, more, remaining }: Page): MessageWriter {
  const body = new MessageWriter();
  let count = 0;
  while (count < entries.length && body.length < messageBytes) writeEntry(body, entries[count++] as Entry);
  const left = entries.length - count;
  const head = new MessageWriter().number(revision).byte(left > 0 ? 1 : 0);
  head
    .byte(more || left > 0 ? 1 : 0)
    .number(remaining + left)
    .count(count);
  return head.append(body);
}

export function readPage(reader: MessageReader): PagePart {
  const revision = reader.number();
  const isCut = reader.byte() === 1;
  const more = reader.byte() === 1;
  const remaining = reader.number();
  const entries = Array.from({ length: reader.count() }, () => readEntry(reader));
  return { entries, revision, more, remaining, isCut };
}

function writeChange(writer: MessageWriter, change: Change): void {
  if (change.type === 'put') {
    writeEntry(writer.byte(1), change.entry);
    writeOptionalEntry(writer, change.previous);
  } else {
    writeEntry(writer.byte(0).number(change.revision), change.previous);
  }
}

function readChange(reader: MessageReader): Change {
  if (reader.byte() === 0) {
    const revision = reader.number();
    return { type: 'delete', revision, previous: readEntry(reader) };
  }
  const entry = readEntry(reader);
  return { type: 'put', entry, previous: readOptionalEntry(reader) };
}

/** Returns the messages of a batch: one, unless the batch is large. */
export function writeBatch({ changes, revision }: ChangeBatch): readonly MessageWriter[] {
  const messages: MessageWriter[] = [];
  let at = 0;
  do {
    const body = new MessageWriter();
    const from = at;
    while (at < changes.length && body.length < messageBytes) writeChange(body, changes[at++] as Change);
    messages.push(
      new MessageWriter()
        .number(revision)
        .count(at - from)
        .append(body),
    );
  } while (at < changes.length);
  return messages;
}

export function readBatch(reader: MessageReader): ChangeBatch {
  const revision = reader.number();
  return { revision, changes: Array.from({ length: reader.count() }, () => readChange(reader)) };
}

export const writeWatch = (prefix: string, after: number): MessageWriter => new MessageWriter().text(prefix).number(after);

/** Marks the error of a call with an invalid argument. */
const invalid = 'TypeError';

/** Writes an error of the storage; other errors lose all but their message. */
export function writeError(error: unknown): MessageWriter {
  const code = error instanceof StorageError ? error.code : error instanceof TypeError ? invalid : '';
  return new MessageWriter().text(code).text(error instanceof Error ? error.message : String(error));
}

export function readError(reader: MessageReader): Error {
  const code = reader.text();
  const message = reader.text();
  if (code === invalid) return new TypeError(message);
  return code === '' ? new Error(message) : new StorageError(code as StorageErrorCode, message);
}
