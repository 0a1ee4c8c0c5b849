import type { Change } from './history.ts';
import { controllerOf, type StoredObject } from './stored-object.ts';

/** A multimap without duplicates. */
class Index {
  readonly #sets = new Map<string, Map<string, StoredObject>>();
  static readonly #none: ReadonlyMap<string, StoredObject> = new Map();

  of(name: string): ReadonlyMap<string, StoredObject> {
    return this.#sets.get(name) ?? Index.#none;
  }
  put(name: string | undefined, key: string, thing: StoredObject): void {
    if (name === undefined) return;
    const set = this.#sets.get(name) ?? new Map<string, StoredObject>();
    this.#sets.set(name, set.set(key, thing));
  }
  remove(name: string | undefined, key: string): void {
    if (name === undefined) return;
    const set = this.#sets.get(name);
    set?.delete(key);
    if (set?.size === 0) this.#sets.delete(name);
  }
}

const nodeOf = (thing: StoredObject) => (thing.kind === 'Pod' ? (thing.spec as { readonly nodeName?: string }).nodeName : undefined);

/** The objects stored at one revision, indexed by key, uid, kind, namespace, controller and node. */
export class ObjectIndex {
  readonly #all = new Map<string, StoredObject>();
  readonly #uids = new Map<string, StoredObject>();
  readonly #kinds = new Index();
  readonly #namespaces = new Index();
  readonly #controlled = new Index();
  readonly #nodes = new Index();
  readonly #waiting = new Set<() => void>();

  put({ key, now, before }: Change): void {
    if (before) {
      this.#all.delete(key);
      if (this.#uids.get(before.metadata.uid)?.kind === before.kind) this.#uids.delete(before.metadata.uid);
      this.#kinds.remove(before.kind, key);
      this.#namespaces.remove(before.metadata.namespace, key);
      this.#controlled.remove(controllerOf(before), key);
      this.#nodes.remove(nodeOf(before), key);
    }
    if (now) {
      this.#all.set(key, now);
      this.#uids.set(now.metadata.uid, now);
      this.#kinds.put(now.kind, key, now);
      this.#namespaces.put(now.metadata.namespace, key, now);
      this.#controlled.put(controllerOf(now), key, now);
      this.#nodes.put(nodeOf(now), key, now);
    }
    for (const look of [...this.#waiting]) look();
  }

  get size(): number {
    return this.#all.size;
  }
  all(): Iterable<StoredObject> {
    return this.#all.values();
  }
  byUid(uid: string | undefined): StoredObject | undefined {
    return uid === undefined ? undefined : this.#uids.get(uid);
  }
  *kind<T extends StoredObject>(kind: string, namespace?: string): Iterable<T> {
    for (const thing of this.#kinds.of(kind).values())
      if (namespace === undefined || thing.metadata.namespace === namespace) yield thing as T;
  }
  inNamespace(namespace: string): Iterable<StoredObject> {
    return this.#namespaces.of(namespace).values();
  }
  *controlledBy<T extends StoredObject>(uid: string, kind: string): Iterable<T> {
    for (const thing of this.#controlled.of(uid).values()) if (thing.kind === kind) yield thing as T;
  }
  *onNode<T extends StoredObject>(node: string): Iterable<T> {
    for (const thing of this.#nodes.of(node).values()) yield thing as T;
  }

  /** Resolves with true as soon as the condition holds, with false after the deadline. */
  until(wanted: () => boolean, timeoutMs: number): Promise<boolean> {
    if (wanted()) return Promise.resolve(true);
    return new Promise((resolve) => {
      const end = (value: boolean) => {
        clearTimeout(timer);
        this.#waiting.delete(look);
        resolve(value);
      };
      const look = () => {
        if (wanted()) end(true);
      };
      const timer = setTimeout(() => end(wanted()), timeoutMs);
      this.#waiting.add(look);
    });
  }
}
