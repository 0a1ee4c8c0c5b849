import type { KubeObject, ObjectKey } from '@oarlock/api/object';
import type { Lister } from '@oarlock/spi/client';

interface Entry<T> {
  object: T /** Per index, in the order the indexes were added. */;
  values: (readonly string[])[];
}

/** The objects with one value of one index. The array is built at the first read, discarded at the next change, and never modified. */
class Bucket<T> {
  readonly #objects = new Map<ObjectKey, T>();
  #array: readonly T[] | undefined;

  get size(): number {
    return this.#objects.size;
  }
  get array(): readonly T[] {
    return (this.#array ??= [...this.#objects.values()]);
  }
  set(key: ObjectKey, object: T): void {
    this.#objects.set(key, object);
    this.#array = undefined;
  }
  delete(key: ObjectKey): void {
    this.#objects.delete(key);
    this.#array = undefined;
  }
}

interface Index<T> {
  readonly name: string;
  readonly values: (object: T) => readonly string[];
  readonly buckets: Map<string, Bucket<T>>;
}

const none: readonly never[] = Object.freeze([]);
const namespaceIndex = '\0namespace';

/** Objects by key, by namespace and by added indexes (cache.Indexer upstream). It stores the objects themselves, not copies. */
export class Indexer<T extends KubeObject> implements Lister<T> {
  readonly #entries = new Map<ObjectKey, Entry<T>>();
  readonly #indexes: Index<T>[] = [];
  readonly #indexByName = new Map<string, Index<T>>();
  readonly #all = new Bucket<T>();

  constructor({ namespaced }: { readonly namespaced: boolean }) {
    if (namespaced) this.addIndexer(namespaceIndex, (object) => [object.metadata?.namespace ?? '']);
  }

  get size(): number {
    return this.#entries.size;
  }
  get(key: ObjectKey): T | undefined {
    return this.#entries.get(key)?.object;
  }
  keys(): IterableIterator<ObjectKey> {
    return this.#entries.keys();
  }

  list(namespace?: string): readonly T[] {
    if (namespace === undefined || namespace === '') return this.#all.array;
    return this.#indexByName.has(namespaceIndex) ? this.byIndex(namespaceIndex, namespace) : none;
  }

  byIndex(index: string, value: string): readonly T[] {
    const found = this.#indexByName.get(index);
    if (found === undefined) throw new Error(`there is no index ${index}`);
    return found.buckets.get(value)?.array ?? none;
  }

  /** Adds an index. Does nothing if the same function is already registered under the name. @throws Error if the name has another function */
  addIndexer(name: string, values: (object: T) => readonly string[]): void {
    const known = this.#indexByName.get(name);
    if (known?.values === values) return;
    if (known !== undefined) throw new Error(`the index ${name} exists already with another function`);
    const index: Index<T> = { name, values, buckets: new Map() };
    this.#indexByName.set(name, index);
    this.#indexes.push(index);
    for (const [key, entry] of this.#entries) {
      const found = values(entry.object);
      entry.values.push(found);
      for (const value of found) put(index, value, key, entry.object);
    }
  }

  /** Sets the object of a key, and returns the previous one. */
  set(key: ObjectKey, object: T): T | undefined {
    const old = this.#entries.get(key);
    const values = this.#indexes.map((index) => index.values(object));
    if (old !== undefined) this.#unindex(key, old, values);
    this.#entries.set(key, { object, values });
    this.#all.set(key, object);
    for (const [at, index] of this.#indexes.entries()) for (const value of values[at] ?? none) put(index, value, key, object);
    return old?.object;
  }

  delete(key: ObjectKey): T | undefined {
    const old = this.#entries.get(key);
    if (old === undefined) return undefined;
    this.#entries.delete(key);
    this.#all.delete(key);
    this.#unindex(key, old, undefined);
    return old.object;
  }

  /** Removes the key from all buckets that do not contain the next version of the object. */
  #unindex(key: ObjectKey, old: Entry<T>, next: readonly (readonly string[])[] | undefined): void {
    for (const [at, index] of this.#indexes.entries()) {
      for (const value of old.values[at] ?? none) {
        if (next?.[at]?.includes(value) === true) continue;
        const bucket = index.buckets.get(value);
        bucket?.delete(key);
        if (bucket?.size === 0) index.buckets.delete(value);
      }
    }
  }
}

function put<T>(index: Index<T>, value: string, key: ObjectKey, object: T): void {
  let bucket = index.buckets.get(value);
  if (bucket === undefined) index.buckets.set(value, (bucket = new Bucket()));
  bucket.set(key, object);
}
