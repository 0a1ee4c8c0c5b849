import type { Duplex } from 'node:stream';
import type { StorageDriver } from '@oarlock/spi/storage';
import { FrameStream, type Frame } from './frame-stream.ts';
import { MessageReader, MessageWriter } from './message-bytes.ts';
import * as messages from './storage-messages.ts';
import { request, response, watchWindowBytes } from './storage-messages.ts';

/** The calls of one process that run at a time; further ones wait in its socket. */
const maxCalls = 4096;
const healthy = '';

/** A watch of the other process. */
interface ServedWatch {
  readonly abort: AbortController;
  /** The bytes that were sent and not acknowledged. */
  sent: number;
  onAcknowledged: () => void;
}

/** Gives another process access to a storage, over a byte stream of that process alone. `RemoteStorage` is the other end. */
export class RemoteStorageServer {
  readonly #driver: StorageDriver;
  readonly #frames: FrameStream;
  readonly #watches = new Map<number, ServedWatch>();
  #calls = 0;
  #reportedHealth = healthy;

  constructor(driver: StorageDriver, stream: Duplex) {
    this.#driver = driver;
    this.#frames = new FrameStream({
      stream,
      onFrame: (frame) => this.#receive(frame),
      onClose: () => {
        for (const { abort } of this.#watches.values()) abort.abort();
      },
    });
  }

  close(): void {
    this.#frames.close();
  }

  #receive({ kind, id, payload }: Frame): void {
    const reader = new MessageReader(payload);
    if (kind === request.cancel) this.#watches.get(id)?.abort.abort();
    else if (kind === request.acknowledge) this.#acknowledge(id, reader.number());
    else if (kind === request.watch) void this.#watch(id, reader.text(), reader.number());
    else void this.#answer(id, () => this.#call(kind, reader));
  }

  async #answer(id: number, call: () => Promise<MessageWriter>): Promise<void> {
    this.#calls += 1;
    if (this.#calls >= maxCalls) this.#frames.pause();
    try {
      const result = await call();
      this.#reportHealth();
      this.#frames.send(response.result, id, result.parts());
    } catch (error) {
      this.#reportHealth();
      this.#frames.send(response.error, id, messages.writeError(error).parts());
    }
    if (!this.#frames.isWritable) {
      this.#frames.pause();
      await this.#frames.drained();
    }
    this.#calls -= 1;
    this.#frames.resume();
  }

  async #call(kind: number, reader: MessageReader): Promise<MessageWriter> {
    const driver = this.#driver;
    if (kind === request.progress) return new MessageWriter().number(await driver.requestProgress());
    if (kind === request.commit) {
      const { writes, expect } = messages.readCommit(reader);
      return messages.writeCommitResult(await driver.commit(writes, expect));
    }
    if (kind === request.get) {
      const { key, revision } = messages.readGet(reader);
      return messages.writeGetResult(await driver.get(key, revision === undefined ? {} : { revision }));
    }
    if (kind === request.range) return messages.writePage(await driver.range(messages.readRange(reader)));
    if (kind === request.compact) await driver.compact(reader.number());
    else if (kind === request.skipTo && driver.skipTo !== undefined) await driver.skipTo(reader.number());
    else throw new Error(`unknown request ${kind}`);
    return new MessageWriter();
  }

  /** Sends the changes of a watch while its reader acknowledges them; otherwise they wait in the storage, which ends watches that are too slow. */
  async #watch(id: number, prefix: string, after: number): Promise<void> {
    const watch: ServedWatch = { abort: new AbortController(), sent: 0, onAcknowledged: () => undefined };
    const { signal } = watch.abort;
    this.#watches.set(id, watch);
    signal.addEventListener('abort', () => watch.onAcknowledged(), { once: true });
    if (this.#frames.isClosed) watch.abort.abort();
    let reported = -1;
    try {
      for await (const batch of this.#driver.watch(prefix, { after, signal })) {
        // the consistent reads of all processes request progress: the reader repeats what it knows
        if (batch.changes.length === 0) {
          if (batch.revision === reported) continue;
          reported = batch.revision;
        }
        const parts = messages.writeBatch(batch);
        for (const [index, part] of parts.entries())
          this.#frames.send(index < parts.length - 1 ? response.partOfChanges : response.changes, id, part.parts());
        watch.sent += messages.batchBytes(batch);
        await this.#frames.drained();
        await this.#withinWindow(watch);
      }
      this.#frames.send(response.watchEnd, id);
    } catch (error) {
      if (!signal.aborted) this.#frames.send(response.watchEnd, id, messages.writeError(error).parts());
    } finally {
      this.#watches.delete(id);
    }
  }

  async #withinWindow(watch: ServedWatch): Promise<void> {
    const { signal } = watch.abort;
    while (watch.sent > watchWindowBytes && !signal.aborted)
      await new Promise<void>((resolve) => {
        watch.onAcknowledged = resolve;
      });
  }

  #acknowledge(id: number, bytes: number): void {
    const watch = this.#watches.get(id);
    if (watch === undefined) return;
    watch.sent -= bytes;
    watch.onAcknowledged();
  }

  #reportHealth(): void {
    const { checkHealth } = this.#driver;
    if (checkHealth === undefined) return;
    const health = checkHealth.call(this.#driver);
    const text = health.healthy ? healthy : health.reason;
    if (text === this.#reportedHealth) return;
    this.#reportedHealth = text;
    this.#frames.send(response.health, 0, new MessageWriter().text(text).parts());
  }
}
