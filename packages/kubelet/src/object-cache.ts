import type { KubeObject, ObjectKey } from '@oarlock/api/object';
import { splitKey } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { configMaps, secrets } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { ConfigMap, Secret } from '@oarlock/api/types/core-v1';
import { Reflector, type ReflectorSink } from '@oarlock/client/reflector';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { Cause } from '@oarlock/kernel/tracing';
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

/** Told of every change of an object that it holds, its first appearance after the first look excepted. */
export type ObjectListener = (reference: ObjectReference, cause: Cause | undefined) => void;

export interface ObjectCacheOptions {
  readonly client: Client;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
}

/**
 * ConfigMaps and Secrets that pods of this process refer to. Each is watched by itself, once, for as long as somebody holds it: a node
 * may read what its pods name and nothing else.
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

  /** Keeps an object in view until the returned function is called. */
  hold(reference: ObjectReference, listener: ObjectListener): () => void {
    const id = `${reference.kind} ${reference.key}`;
    let watched = this.#watched.get(id);
    if (watched === undefined) {
      watched = new WatchedObject(reference, this.#options);
      this.#watched.set(id, watched);
    }
    const held = watched;
    // The same listener may hold an object twice.
    const own: ObjectListener = (...args) => listener(...args);
    held.listeners.add(own);
    return () => {
      held.listeners.delete(own);
      if (held.listeners.size > 0 || this.#watched.get(id) !== held) return;
      this.#watched.delete(id);
      held.close();
    };
  }

  /** The object as it is now, or undefined when there is none. Held objects come from memory. @throws StatusError when the server refuses */
  async get<K extends ObjectKind>(kind: K, key: ObjectKey): Promise<ObjectTypes[K] | undefined> {
    const watched = this.#watched.get(`${kind} ${key}`);
    if (watched?.synced) return watched.object as ObjectTypes[K] | undefined;
    const object = await this.#options.client.get<ObjectTypes[K]>(resources[kind], splitKey(key)).catch((error: unknown) => {
      if (isStatus(error, 'NotFound')) return undefined;
      throw error;
    });
    if (watched !== undefined) watched.shown = object?.metadata?.resourceVersion;
    return object;
  }

  close(): void {
    for (const watched of this.#watched.values()) watched.close();
    this.#watched.clear();
  }
}

class WatchedObject implements ReflectorSink<KubeObject> {
  readonly listeners = new Set<ObjectListener>();
  readonly #reference: ObjectReference;
  readonly #stop = new AbortController();
  object: KubeObject | undefined;
  synced = false;
  /** The version that somebody was given before the first list was there. */
  shown: string | undefined;

  constructor(reference: ObjectReference, { client, clock, random, log }: ObjectCacheOptions) {
    this.#reference = reference;
    const { namespace, name } = splitKey(reference.key);
    const reflector = new Reflector<KubeObject>({
      client,
      clock,
      random,
      log,
      resource: resources[reference.kind] as Resource<KubeObject>,
      sink: this,
      scope: { ...(namespace !== undefined && { namespace }), fieldSelector: `metadata.name=${name}` },
    });
    reflector
      .run(this.#stop.signal)
      .catch((error: unknown) => log.error({ err: error, ...reference }, 'watching an object that pods refer to came to its end'));
  }

  async replace(items: readonly KubeObject[]): Promise<void> {
    const [object] = items;
    const before = this.synced ? this.object?.metadata?.resourceVersion : this.shown;
    this.synced = true;
    this.object = object;
    if (before !== object?.metadata?.resourceVersion) this.#tell(undefined);
    this.#settle();
  }

  async apply(events: readonly WatchEvent[]): Promise<void> {
    for (const { type, object, cause } of events) {
      if (type === 'BOOKMARK') continue;
      this.object = type === 'DELETED' ? undefined : object;
      this.#tell(cause);
    }
    this.#settle();
  }

  close(): void {
    this.#stop.abort();
  }

  #tell(cause: Cause | undefined): void {
    for (const listener of [...this.listeners]) listener(this.#reference, cause);
  }

  /** What cannot change needs no watch. */
  #settle(): void {
    if ((this.object as ConfigMap | undefined)?.immutable === true) this.close();
  }
}
