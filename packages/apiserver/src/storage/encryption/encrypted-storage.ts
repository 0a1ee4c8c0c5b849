import type { Logger } from '@oarlock/primitives/logger';
import {
  StorageError,
  type Change,
  type ChangeBatch,
  type CommitResult,
  type Entry,
  type Precondition,
  type Page,
  type RangeOptions,
  type Revision,
  type StorageDriver,
  type Write,
} from '@oarlock/spi/storage';
import { identity, isEncrypted, startsWith, type Transformer } from './transformers.ts';
import { storageRoot } from '../storage-root.ts';

/** The transformers for some resources. The first rule that matches a resource applies: its first transformer writes, all transformers read. */
export interface EncryptionRule {
  /** The resources: `secrets`, `deployments.apps`, `*.apps`, `*.` for the core group, or `*.*` for all resources. */
  readonly resources: readonly string[];
  readonly transformers: readonly [Transformer, ...Transformer[]];
}

/** The maximum number of bytes that encryption adds to a value: prefix, nonce, tag and a long key name. */
const overheadBytes = 512;

/** Returns the resource of a storage key: `secrets` for `/registry/secrets/default/a`; '' for a key that belongs to no object. */
export function resourceOf(key: string): string {
  if (!key.startsWith(storageRoot)) return '';
  const end = key.indexOf('/', storageRoot.length);
  return end < 0 ? '' : key.slice(storageRoot.length, end);
}

function names(pattern: string, resource: string): boolean {
  if (pattern === '*.*' || pattern === resource) return true;
  if (!pattern.startsWith('*.')) return false;
  const dot = resource.indexOf('.');
  return pattern.slice(2) === (dot < 0 ? '' : resource.slice(dot + 1));
}

/** A storage driver that encrypts values before they are written and decrypts values that are read. Keys and revisions are unchanged. */
export class EncryptedStorage implements StorageDriver {
  readonly traits: StorageDriver['traits'];
  readonly #storage: StorageDriver;
  readonly #log: Logger;
  readonly #resource: (key: string) => string;
  #rules: readonly EncryptionRule[] = [];
  readonly #byResource = new Map<string, EncryptionRule['transformers'] | undefined>();
  /**
   * The decrypted values by stored value, kept as long as the stored value is referenced: a storage driver in this process returns the same buffers.
   */
  readonly #decrypted = new WeakMap<Uint8Array, Uint8Array>();
  /** The form in which values are stored, by decrypted value: the storage key, and the prefix of the transformer. */
  readonly #storedForms = new WeakMap<Uint8Array, { readonly key: string; readonly prefix: string }>();

  /** Creates the driver. `resource` returns the resource of a storage key. */
  constructor(storage: StorageDriver, log: Logger, resource: (key: string) => string = resourceOf) {
    this.#storage = storage;
    this.#log = log;
    this.#resource = resource;
    this.traits = { ...storage.traits, maxValueBytes: storage.traits.maxValueBytes - overheadBytes };
    const { currentRevision } = storage;
    if (currentRevision) this.currentRevision = () => currentRevision.call(storage);
    if (storage.skipTo) this.skipTo = (revision) => storage.skipTo?.(revision) ?? Promise.resolve();
  }

  currentRevision?: () => Revision;
  skipTo?: (revision: Revision) => Promise<void>;

  /** Sets the rules for later reads and writes. Must be called before the first read or write. */
  setRules(rules: readonly EncryptionRule[]): void {
    this.#rules = rules;
    this.#byResource.clear();
  }

  /**
   * Returns true if a value that this driver returned is stored with an older key, or is stored unencrypted although its resource must be encrypted.
   */
  isStale(value: Uint8Array): boolean {
    const form = this.#storedForms.get(value);
    const writer = form && this.#transformers(form.key)?.[0];
    return writer !== undefined && writer.prefix !== form?.prefix;
  }

  async get(key: string, options?: { readonly revision?: Revision }): Promise<{ entry: Entry | undefined; revision: Revision }> {
    const { entry, revision } = await this.#storage.get(key, options);
    return { entry: entry && this.#decryptEntry(entry), revision };
  }

  async range(options: RangeOptions): Promise<Page> {
    const page = await this.#storage.range(options);
    return { ...page, entries: page.entries.map((entry) => this.#decryptEntry(entry)) };
  }

  async commit(writes: readonly Write[], expect: readonly Precondition[]): Promise<CommitResult> {
    const { maxValueBytes } = this.traits;
    for (const { key, value } of writes)
      if (value !== null && value.length > maxValueBytes)
        throw new StorageError('TooLarge', `the value of ${JSON.stringify(key)} has ${value.length} bytes; the limit is ${maxValueBytes}`);
    const commit = await this.#storage.commit(
      writes.map((write) => this.#encryptWrite(write)),
      expect,
    );
    return commit.ok || commit.current === undefined ? commit : { ...commit, current: this.#decryptEntry(commit.current) };
  }

  watch(prefix: string, options: { readonly after: Revision; readonly signal: AbortSignal }): AsyncIterable<ChangeBatch> {
    const batches = this.#storage.watch(prefix, options);
    return {
      [Symbol.asyncIterator]: () => {
        const inner = batches[Symbol.asyncIterator]();
        const open = async (result: Promise<IteratorResult<ChangeBatch>>): Promise<IteratorResult<ChangeBatch>> => {
          const { done, value } = await result;
          return done === true ? { done, value: undefined } : { done: false, value: this.#decryptBatch(value) };
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

  #encryptWrite(write: Write): Write {
    const writer = write.value === null ? undefined : this.#transformers(write.key)?.[0];
    if (write.value === null || writer === undefined || writer === identity) return write;
    const value = writer.transformToStorage(write.value, write.key);
    this.#decrypted.set(value, write.value);
    this.#storedForms.set(write.value, { key: write.key, prefix: writer.prefix });
    return { ...write, value };
  }

  /**
   * Returns an entry with its value decrypted. A value that cannot be decrypted is returned unchanged; the reader reports that it is not an object.
   */
  #decryptEntry(entry: Entry): Entry {
    const transformers = this.#transformers(entry.key);
    if (transformers === undefined) return entry;
    if (!isEncrypted(entry.value)) {
      this.#storedForms.set(entry.value, { key: entry.key, prefix: identity.prefix });
      return entry;
    }
    const known = this.#decrypted.get(entry.value);
    if (known !== undefined) return { ...entry, value: known };
    const fits = transformers.filter(({ prefix }) => prefix !== '' && startsWith(entry.value, prefix));
    let because = 'no configured key matches the prefix';
    for (const transformer of fits) {
      const { prefix } = transformer;
      try {
        const value = transformer.transformFromStorage(entry.value.subarray(prefix.length), entry.key);
        this.#decrypted.set(entry.value, value);
        this.#storedForms.set(value, { key: entry.key, prefix });
        return { ...entry, value };
      } catch (error) {
        because = String(error);
      }
    }
    this.#log.error({ key: entry.key, because }, 'a stored value cannot be decrypted');
    return entry;
  }

  #decryptBatch(batch: ChangeBatch): ChangeBatch {
    if (!batch.changes.some((change) => this.#transformers(keyOf(change)) !== undefined)) return batch;
    return { ...batch, changes: batch.changes.map((change) => this.#decryptChange(change)) };
  }

  #decryptChange(change: Change): Change {
    if (this.#transformers(keyOf(change)) === undefined) return change;
    if (change.type === 'delete') return { ...change, previous: this.#decryptEntry(change.previous) };
    return { ...change, entry: this.#decryptEntry(change.entry), previous: change.previous && this.#decryptEntry(change.previous) };
  }
}

const keyOf = (change: Change) => (change.type === 'put' ? change.entry.key : change.previous.key);
