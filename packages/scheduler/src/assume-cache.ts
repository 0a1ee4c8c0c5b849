import { objectKey, type KubeObject, type ObjectKey } from '@oarlock/api/object';
import type { Informer } from '@oarlock/spi/client';

const versionOf = ({ metadata }: KubeObject): bigint => {
  const text = metadata?.resourceVersion ?? '';
  return /^\d{1,20}$/.test(text) ? BigInt(text) : 0n;
};

type Listener<T> = (before: T | undefined, now: T | undefined) => void;

/**
 * An informer's cache under what the scheduler has decided already and the server has not told yet. An assumption gives way to the first
 * newer version of the object (versions can be compared: KEP-5504), to its deletion, or to `forget`.
 */
export class AssumeCache<T extends KubeObject> {
  readonly informer: Informer<T>;
  readonly #assumed = new Map<ObjectKey, T>();
  readonly #listeners: Listener<T>[] = [];

  constructor(informer: Informer<T>) {
    this.informer = informer;
    informer.on({
      added: (object) => this.#heard(undefined, object),
      updated: (object, old) => this.#heard(old, object),
      deleted: (object) => {
        const key = objectKey(object);
        const before = this.#assumed.get(key) ?? object;
        this.#assumed.delete(key);
        this.#changed(before, undefined);
      },
    });
  }

  /** Told of every difference that readers of this cache see, what is there already first. */
  onChange(listener: Listener<T>): void {
    for (const object of this.informer.list()) listener(undefined, this.get(objectKey(object)));
    this.#listeners.push(listener);
  }

  get(key: ObjectKey): T | undefined {
    return this.#assumed.get(key) ?? this.informer.get(key);
  }
  byIndex(index: string, value: string): readonly T[] {
    const found = this.informer.byIndex(index, value);
    return this.#assumed.size === 0 ? found : found.map((object) => this.#assumed.get(objectKey(object)) ?? object);
  }
  isAssumed(key: ObjectKey): boolean {
    return this.#assumed.has(key);
  }

  /** From now on the object is as given, until something newer is heard. An object that is gone is not assumed. */
  assume(object: T): void {
    const key = objectKey(object);
    const known = this.informer.get(key);
    if (known === undefined || versionOf(known) > versionOf(object)) return;
    const before = this.#assumed.get(key) ?? known;
    this.#assumed.set(key, object);
    this.#changed(before, object);
  }

  /** It came to nothing. */
  forget(key: ObjectKey): void {
    const assumed = this.#assumed.get(key);
    if (assumed === undefined) return;
    this.#assumed.delete(key);
    this.#changed(assumed, this.informer.get(key));
  }

  #changed(before: T | undefined, now: T | undefined): void {
    for (const listener of this.#listeners) listener(before, now);
  }

  #heard(old: T | undefined, object: T): void {
    const key = objectKey(object);
    const assumed = this.#assumed.get(key);
    if (assumed === undefined) {
      if (old !== object) this.#changed(old, object);
      return;
    }
    // what is assumed was made from this version
    if (versionOf(assumed) > versionOf(object) || (versionOf(assumed) === versionOf(object) && old !== undefined)) return;
    this.#assumed.delete(key);
    this.#changed(assumed, object);
  }
}
