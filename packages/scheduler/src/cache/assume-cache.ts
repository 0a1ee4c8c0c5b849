import { objectKey, type KubeObject, type ObjectKey } from '@oarlock/api/object';
import type { Informer } from '@oarlock/spi/client';

const versionOf = ({ metadata }: KubeObject): bigint => {
  const text = metadata?.resourceVersion ?? '';
  return /^\d{1,20}$/.test(text) ? BigInt(text) : 0n;
};

type Listener<T> = (before: T | undefined, now: T | undefined) => void;

/**
 * An informer's cache with an overlay of assumed objects: objects whose write the informer has not observed yet, or that are not written yet. An
 * assumed object is replaced when the informer observes a newer version (resource versions are comparable: KEP-5504), and is dropped when the object
 * is deleted or by `forget`.
 */
export class AssumeCache<T extends KubeObject> {
  readonly informer: Informer<T>;
  readonly #assumed = new Map<ObjectKey, T>();
  readonly #listeners: Listener<T>[] = [];

  constructor(informer: Informer<T>) {
    this.informer = informer;
    informer.addEventHandler({
      onAdd: (object) => this.#onInformerEvent(undefined, object),
      onUpdate: (object, old) => this.#onInformerEvent(old, object),
      onDelete: (object) => {
        const key = objectKey(object);
        const before = this.#assumed.get(key) ?? object;
        this.#assumed.delete(key);
        this.#notify(before, undefined);
      },
    });
  }

  /** Calls the listener for each object in the cache, then for each change, including assumed objects. */
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

  /** Adds an assumed object. Does nothing if the informer's cache has a newer version of the object or does not have the object. */
  assume(object: T): void {
    const key = objectKey(object);
    const cached = this.informer.get(key);
    if (cached === undefined || versionOf(cached) > versionOf(object)) return;
    const before = this.#assumed.get(key) ?? cached;
    this.#assumed.set(key, object);
    this.#notify(before, object);
  }

  /** Drops an assumed object. */
  forget(key: ObjectKey): void {
    const assumed = this.#assumed.get(key);
    if (assumed === undefined) return;
    this.#assumed.delete(key);
    this.#notify(assumed, this.informer.get(key));
  }

  #notify(before: T | undefined, now: T | undefined): void {
    for (const listener of this.#listeners) listener(before, now);
  }

  #onInformerEvent(old: T | undefined, object: T): void {
    const key = objectKey(object);
    const assumed = this.#assumed.get(key);
    if (assumed === undefined) {
      if (old !== object) this.#notify(old, object);
      return;
    }
    // keep the assumed object: it is newer than this version, or was derived from it
    if (versionOf(assumed) > versionOf(object) || (versionOf(assumed) === versionOf(object) && old !== undefined)) return;
    this.#assumed.delete(key);
    this.#notify(assumed, object);
  }
}
