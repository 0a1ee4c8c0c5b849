import type { Logger } from '@oarlock/kernel/logger';
import {
  StorageError,
  type Change,
  type ChangeBatch,
  type Commit,
  type Entry,
  type Expectation,
  type Page,
  type RangeOptions,
  type Revision,
  type StorageDriver,
  type Write,
} from '@oarlock/spi/storage';
import { identity, isSealed, startsWith, type Transformer } from './storage-transformers.ts';
import { root } from './watch-cache/watch-cache.ts';

/** Which resources are written how: the first rule that names a resource counts, its first transformer writes, all of them read. */
export interface EncryptionRule {
  /** `secrets`, `deployments.apps`; `*.apps`, `*.` for the core group, `*.*` for all. */
  readonly resources: readonly string[];
  readonly transformers: readonly [Transformer, ...Transformer[]];
}

/** What a prefix, a nonce and a tag take, with room for a long name. */
const overheadBytes = 512;

/** `/registry/secrets/default/a` -> `secrets`; '' for what is no object. */
export function resourceOf(key: string): string {
  if (!key.startsWith(root)) return '';
  const end = key.indexOf('/', root.length);
  return end < 0 ? '' : key.slice(root.length, end);
}

function names(pattern: string, resource: string): boolean {
  if (pattern === '*.*' || pattern === resource) return true;
  if (!pattern.startsWith('*.')) return false;
  const dot = resource.indexOf('.');
  return pattern.slice(2) === (dot < 0 ? '' : resource.slice(dot + 1));
}

/** Encrypts values on their way to storage, and decrypts them on their way back. Keys and revisions are as they are. */
export class EncryptedStorage implements StorageDriver {
  readonly traits: StorageDriver['traits'];
  readonly #storage: StorageDriver;
  readonly #log: Logger;
  readonly #resource: (key: string) => string;
  #rules: readonly EncryptionRule[] = [];
  readonly #byResource = new Map<string, EncryptionRule['transformers'] | undefined>();
  /** What is known of sealed values that are still around. Storage in this process hands on what it was given. */
  readonly #opened = new WeakMap<Uint8Array, Uint8Array>();
  /** Values that were read in another form than they are written in now. */
  readonly #stale = new WeakSet<Uint8Array>();

  /** `resource`: which resource a storage key belongs to. */
  constructor(storage: StorageDriver, log: Logger, resource: (key: string) => string = resourceOf) {
    this.#storage = storage;
    this.#log = log;
    this.#resource = resource;
    this.traits = { ...storage.traits, maxValueBytes: storage.traits.maxValueBytes - overheadBytes };
    if (storage.skipTo) this.skipTo = (revision) => storage.skipTo?.(revision) ?? Promise.resolve();
  }

  skipTo?: (revision: Revision) => Promise<void>;

  /** To be called before anything is read or written. */
  use(rules: readonly EncryptionRule[]): void {
    this.#rules = rules;
    this.#byResource.clear();
  }

  /** Whether this value, as it was handed over, is stored with an older key, or as it is though it is to be encrypted. */
  isStale(value: Uint8Array): boolean {
    return this.#stale.has(value);
  }

  async get(key: string, options?: { readonly revision?: Revision }): Promise<{ entry: Entry | undefined; revision: Revision }> {
    const { entry, revision } = await this.#storage.get(key, options);
    return { entry: entry && this.#open(entry), revision };
  }

  async range(options: RangeOptions): Promise<Page> {
    const page = await this.#storage.range(options);
    return { ...page, entries: page.entries.map((entry) => this.#open(entry)) };
  }

  async commit(writes: readonly Write[], expect: readonly Expectation[]): Promise<Commit> {
    const { maxValueBytes } = this.traits;
    for (const { key, value } of writes)
      if (value !== null && value.length > maxValueBytes)
        throw new StorageError(
          'TooLarge',
          `the value of ${JSON.stringify(key)} has ${value.length} bytes, at most ${maxValueBytes} are taken`,
        );
    const commit = await this.#storage.commit(
      writes.map((write) => this.#seal(write)),
      expect,
    );
    return commit.ok || commit.current === undefined ? commit : { ...commit, current: this.#open(commit.current) };
  }

  watch(prefix: string, options: { readonly after: Revision; readonly signal: AbortSignal }): AsyncIterable<ChangeBatch> {
    const batches = this.#storage.watch(prefix, options);
    return {
      [Symbol.asyncIterator]: () => {
        const inner = batches[Symbol.asyncIterator]();
        const open = async (result: Promise<IteratorResult<ChangeBatch>>): Promise<IteratorResult<ChangeBatch>> => {
          const { done, value } = await result;
          return done === true ? { done, value: undefined } : { done: false, value: this.#openBatch(value) };
        };
        return {
          next: () => open(inner.next()),
          return: async () => {
            await inner.return?.();
            return { done: true, value: undefined };
          },
        };
      },
    };
  }

  requestProgress(): Promise<Revision> {
    return this.#storage.requestProgress();
  }
  compact(revision: Revision): Promise<void> {
    return this.#storage.compact(revision);
  }

  #transformers(key: string): EncryptionRule['transformers'] | undefined {
    const resource = this.#resource(key);
    if (resource === '') return undefined;
    if (!this.#byResource.has(resource)) {
      const rule = this.#rules.find(({ resources }) => resources.some((pattern) => names(pattern, resource)));
      this.#byResource.set(resource, rule?.transformers);
    }
    return this.#byResource.get(resource);
  }

  #seal(write: Write): Write {
    const writer = write.value === null ? undefined : this.#transformers(write.key)?.[0];
    if (write.value === null || writer === undefined || writer === identity) return write;
    const value = writer.seal(write.value, write.key);
    this.#opened.set(value, write.value);
    return { ...write, value };
  }

  /** What cannot be decrypted is handed on as it is: it is no object, and whoever reads it says so. */
  #open(entry: Entry): Entry {
    const transformers = this.#transformers(entry.key);
    if (transformers === undefined) return entry;
    const [writer] = transformers;
    if (!isSealed(entry.value)) {
      if (writer !== identity) this.#stale.add(entry.value);
      return entry;
    }
    const known = this.#opened.get(entry.value);
    if (known !== undefined) return { ...entry, value: known };
    const fits = transformers.filter(({ prefix }) => prefix !== '' && startsWith(entry.value, prefix));
    let because = 'none of the keys has its name';
    for (const transformer of fits) {
      const { prefix } = transformer;
      try {
        const value = transformer.open(entry.value.subarray(prefix.length), entry.key);
        this.#opened.set(entry.value, value);
        if (transformer !== writer) this.#stale.add(value);
        return { ...entry, value };
      } catch (error) {
        because = String(error);
      }
    }
    this.#log.error({ key: entry.key, because }, 'a stored value cannot be decrypted');
    return entry;
  }

  #openBatch(batch: ChangeBatch): ChangeBatch {
    if (!batch.changes.some((change) => this.#transformers(keyOf(change)) !== undefined)) return batch;
    return { ...batch, changes: batch.changes.map((change) => this.#openChange(change)) };
  }

  #openChange(change: Change): Change {
    if (this.#transformers(keyOf(change)) === undefined) return change;
    if (change.type === 'delete') return { ...change, previous: this.#open(change.previous) };
    return { ...change, entry: this.#open(change.entry), previous: change.previous && this.#open(change.previous) };
  }
}

const keyOf = (change: Change) => (change.type === 'put' ? change.entry.key : change.previous.key);
