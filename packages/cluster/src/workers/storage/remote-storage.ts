import type { Duplex } from 'node:stream';
import { validateWrites } from '@oarlock/mvcc/commit-validation';
import { WatchQueue } from '@oarlock/mvcc/watch-queue';
import type { Health } from '@oarlock/spi/role';
import {
  StorageError,
  type ChangeBatch,
  type Change,
  type CommitResult,
  type Entry,
  type Page,
  type Precondition,
  type RangeOptions,
  type Revision,
  type StorageDriver,
  type Write,
} from '@oarlock/spi/storage';
import { FrameStream, type Frame } from './frame-stream.ts';
import { MessageReader, MessageWriter } from './message-bytes.ts';
import * as messages from './storage-messages.ts';
import { batchBytes, request, response, watchWindowBytes } from './storage-messages.ts';

interface PendingCall {
  resolve(reader: MessageReader): void;
  reject(error: Error): void;
}

interface RemoteWatch {
  readonly queue: WatchQueue;
  /** All changes up to this revision have arrived. */
  position: Revision;
  /** Changes of a batch whose rest has not arrived. */
  changes: Change[];
}

/** The reader of a watch acknowledges after this many bytes. */
const acknowledgedBytes = watchWindowBytes / 8;
/** The window of the server limits the queue. */
const queueLimits = { bytes: Number.POSITIVE_INFINITY, changes: Number.POSITIVE_INFINITY };

/**
 * The storage of another process, which serves it with `RemoteStorageServer`. Calls fail with `Unavailable` when the connection ends; whether the commits
 * among them took effect is then unknown, as with any storage.
 */
export class RemoteStorage implements StorageDriver {
  readonly traits: StorageDriver['traits'];
  readonly skipTo?: (revision: Revision) => Promise<void>;
  readonly #frames: FrameStream;
  readonly #calls = new Map<number, PendingCall>();
  readonly #watches = new Map<number, RemoteWatch>();
  #nextId = 0;
  #closed: StorageError | undefined;
  #health: Health = { healthy: true };

  constructor(stream: Duplex, traits: StorageDriver['traits'], { skips }: { readonly skips: boolean }) {
    this.traits = traits;
    this.#frames = new FrameStream({
      stream,
      onFrame: (frame) => this.#receive(frame),
      onClose: (error) => this.#close(error),
    });
    if (skips)
      this.skipTo = async (revision) => {
        await this.#call(request.skipTo, new MessageWriter().number(revision));
      };
  }

  checkHealth(): Health {
    return this.#closed === undefined ? this.#health : { healthy: false, reason: this.#closed.message };
  }

  async get(key: string, { revision }: { readonly revision?: Revision } = {}): Promise<{ entry: Entry | undefined; revision: Revision }> {
    return messages.readGetResult(await this.#call(request.get, messages.writeGet(key, revision)));
  }

  async range(options: RangeOptions): Promise<Page> {
    const entries: Entry[] = [];
    let rest = options;
    for (;;) {
      const { isCut, ...page } = messages.readPage(await this.#call(request.range, messages.writeRange(rest)));
      if (!isCut && entries.length === 0) return page;
      entries.push(...page.entries);
      const last = entries.at(-1);
      if (!isCut || last === undefined) return { ...page, entries };
      const { limit } = options;
      rest = { ...options, after: last.key, revision: page.revision, ...(limit !== undefined && { limit: limit - entries.length }) };
    }
  }

  async commit(writes: readonly Write[], expect: readonly Precondition[]): Promise<CommitResult> {
    validateWrites(writes, this.traits.maxValueBytes);
    return messages.readCommitResult(await this.#call(request.commit, messages.writeCommit(writes, expect)));
  }

  watch(prefix: string, { after, signal }: { readonly after: Revision; readonly signal: AbortSignal }): AsyncIterable<ChangeBatch> {
    const id = this.#newId();
    const queue = new WatchQueue(queueLimits, signal, () => {
      if (this.#watches.delete(id)) this.#frames.send(request.cancel, id);
    });
    if (this.#closed !== undefined) queue.fail(this.#closed);
    if (!queue.ended) {
      const message = messages.writeWatch(prefix, after);
      this.#watches.set(id, { queue, position: -1, changes: [] });
      this.#frames.send(request.watch, id, message.parts());
    }
    return this.#acknowledging(id, queue);
  }

  async requestProgress(): Promise<Revision> {
    const revision = (await this.#call(request.progress, new MessageWriter())).number();
    // the server does not repeat to a watch what it has reported
    for (const { queue, position } of this.#watches.values()) if (position >= revision) queue.push({ changes: [], revision: position }, 0);
    return revision;
  }

  async compact(revision: Revision): Promise<void> {
    await this.#call(request.compact, new MessageWriter().number(revision));
  }

  /** Ends the connection. Calls and watches fail. */
  stop(): Promise<void> {
    this.#frames.close();
    return Promise.resolve();
  }

  #newId(): number {
    this.#nextId = (this.#nextId + 1) % 0xffffffff;
    return this.#nextId;
  }

  #call(kind: number, message: MessageWriter): Promise<MessageReader> {
    if (this.#closed !== undefined) return Promise.reject(this.#closed);
    const id = this.#newId();
    return new Promise((resolve, reject) => {
      try {
        this.#frames.send(kind, id, message.parts());
      } catch (cause) {
        reject(new StorageError('TooLarge', 'the commit is too large for a message', { cause }));
        return;
      }
      this.#calls.set(id, { resolve, reject });
    });
  }

  async *#acknowledging(id: number, queue: WatchQueue): AsyncGenerator<ChangeBatch, undefined> {
    let read = 0;
    for await (const batch of queue) {
      yield batch;
      read += batchBytes(batch);
      if (read < acknowledgedBytes) continue;
      this.#frames.send(request.acknowledge, id, new MessageWriter().number(read).parts());
      read = 0;
    }
    return undefined;
  }

  #receive({ kind, id, payload }: Frame): void {
    const reader = new MessageReader(payload);
    if (kind === response.result || kind === response.error) {
      const call = this.#calls.get(id);
      this.#calls.delete(id);
      if (kind === response.result) call?.resolve(reader);
      else call?.reject(messages.readError(reader));
    } else if (kind === response.health) {
      const reason = reader.text();
      this.#health = reason === '' ? { healthy: true } : { healthy: false, reason };
    } else this.#receiveForWatch(kind, id, reader);
  }

  #receiveForWatch(kind: number, id: number, reader: MessageReader): void {
    const watch = this.#watches.get(id);
    if (watch === undefined) return;
    if (kind === response.watchEnd) {
      this.#watches.delete(id);
      watch.queue.fail(reader.isAtEnd ? new StorageError('Unavailable', 'the watch of storage ended') : messages.readError(reader));
      return;
    }
    const batch = messages.readBatch(reader);
    if (kind === response.partOfChanges) {
      watch.changes.push(...batch.changes);
      return;
    }
    const whole = watch.changes.length === 0 ? batch : { ...batch, changes: [...watch.changes, ...batch.changes] };
    watch.changes = [];
    watch.position = whole.revision;
    watch.queue.push(whole, 0);
  }

  #close(cause: Error | undefined): void {
    this.#closed = new StorageError('Unavailable', 'the connection to the process with the storage has ended', { cause });
    for (const { reject } of this.#calls.values()) reject(this.#closed);
    this.#calls.clear();
    for (const { queue } of [...this.#watches.values()]) queue.fail(this.#closed);
    this.#watches.clear();
  }
}
