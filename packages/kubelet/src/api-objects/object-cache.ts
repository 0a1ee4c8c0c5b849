import type { KubeObject, ObjectKey } from '@oarlock/api/object';
import { splitKey } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { configMaps, secrets } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { ConfigMap, Secret } from '@oarlock/api/types/core-v1';
import { Reflector, type ReflectorStore } from '@oarlock/client/cache/reflector';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { SpanContext } from '@oarlock/kernel/tracing';
import type { Client, WatchEvent } from '@oarlock/spi/client';

export type ObjectKind = 'ConfigMap' | 'Secret';
export interface ObjectTypes {
  readonly ConfigMap: ConfigMap;
  readonly Secret: Secret;
}
export interface ObjectReference {
  readonly kind: ObjectKind;
  readonly key: ObjectKey;
}

const resources: { readonly [K in ObjectKind]: Resource<ObjectTypes[K]> } = { ConfigMap: configMaps, Secret: secrets };

/** Called when a watched object changes. The initial list calls it only if the object's version differs from the version that `get` returned before. */
export type ObjectChangeListener = (reference: ObjectReference, spanContext: SpanContext | undefined) => void;

export interface ObjectCacheOptions {
  readonly client: Client;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
}

/**
 * Caches the ConfigMaps and Secrets that pods of this process reference. Each object has its own watch while a pod uses the object, because the
 * Node authorizer lets a node read only the objects that its pods reference.
 */
export class ObjectCache {
  readonly #options: ObjectCacheOptions;
  readonly #watched = new Map<string, WatchedObject>();

  constructor(options: ObjectCacheOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#watched.size;
  }

  /** Watches an object. The returned function ends the watch for this listener. */
  watch(reference: ObjectReference, listener: ObjectChangeListener): () => void {
    const id = `${reference.kind} ${reference.key}`;
    let watched = this.#watched.get(id);
    if (watched === undefined) {
      watched = new WatchedObject(reference, this.#options);
      this.#watched.set(id, watched);
    }
    const current = watched;
    // one listener may watch an object twice
    const own: ObjectChangeListener = (...args) => listener(...args);
    current.listeners.add(own);
    return () => {
      current.listeners.delete(own);
      if (current.listeners.size > 0 || this.#watched.get(id) !== current) return;
      this.#watched.delete(id);
      current.close();
    };
  }

  /**
   * Returns the current object, or undefined if the object does not exist. A watched object is read from the cache, any other from the API server.
   * @throws StatusError if the API server returns another error than NotFound
   */
  async get<K extends ObjectKind>(kind: K, key: ObjectKey): Promise<ObjectTypes[K] | undefined> {
    const watched = this.#watched.get(`${kind} ${key}`);
    if (watched?.synced) return watched.object as ObjectTypes[K] | undefined;
    const object = await this.#options.client.get<ObjectTypes[K]>(resources[kind], splitKey(key)).catch((error: unknown) => {
      if (isStatus(error, 'NotFound')) return undefined;
      throw error;
    });
    if (watched !== undefined) watched.returnedVersion = object?.metadata?.resourceVersion;
    return object;
  }

  close(): void {
    for (const watched of this.#watched.values()) watched.close();
    this.#watched.clear();
  }
}

class WatchedObject implements ReflectorStore<KubeObject> {
  readonly listeners = new Set<ObjectChangeListener>();
  readonly #reference: ObjectReference;
  readonly #stop = new AbortController();
  object: KubeObject | undefined;
  synced = false;
  /** The resource version that `get` returned before the watch received its initial list. */
  returnedVersion: string | undefined;

  constructor(reference: ObjectReference, { client, clock, random, log }: ObjectCacheOptions) {
    this.#reference = reference;
    const { namespace, name } = splitKey(reference.key);
    const reflector = new Reflector<KubeObject>({
      client,
      clock,
      random,
      log,
      resource: resources[reference.kind] as Resource<KubeObject>,
      store: this,
      scope: { ...(namespace !== undefined && { namespace }), fieldSelector: `metadata.name=${name}` },
    });
    reflector
      .run(this.#stop.signal)
      .catch((error: unknown) => log.error({ err: error, ...reference }, 'the watch of an object that pods refer to ended'));
  }

  async replace(items: readonly KubeObject[]): Promise<void> {
    const [object] = items;
    const before = this.synced ? this.object?.metadata?.resourceVersion : this.returnedVersion;
    this.synced = true;
    this.object = object;
    if (before !== object?.metadata?.resourceVersion) this.#notifyListeners(undefined);
    this.#closeIfImmutable();
  }

  async apply(events: readonly WatchEvent[]): Promise<void> {
    for (const { type, object, spanContext } of events) {
      if (type === 'BOOKMARK') continue;
      this.object = type === 'DELETED' ? undefined : object;
      this.#notifyListeners(spanContext);
    }
    this.#closeIfImmutable();
  }

  close(): void {
    this.#stop.abort();
  }

  #notifyListeners(spanContext: SpanContext | undefined): void {
    for (const listener of [...this.listeners]) listener(this.#reference, spanContext);
  }

  /** Stops the watch if the object is immutable. */
  #closeIfImmutable(): void {
    if ((this.object as ConfigMap | undefined)?.immutable === true) this.close();
  }
}
