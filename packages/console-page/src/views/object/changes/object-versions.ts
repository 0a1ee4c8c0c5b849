import { isApiError, type ApiClient, type KubeObject, type ObjectList } from '../../../api/client.ts';
import { pathOf, type ApiResource } from '../../../api/resources.ts';

/** Why there is no version before one: the object was created with it, the storage was compacted, or resource versions are not numbers. */
export type HistoryEnd = 'created' | 'compacted' | 'unordered';

/** A version of an object, and what is known about the version before it; undefined until it is loaded. */
export interface ObjectVersion {
  readonly object: KubeObject;
  readonly previous?: KubeObject | HistoryEnd;
}

/** Reads the version of an object before another. */
export type ReadPrevious = (object: KubeObject, signal: AbortSignal) => Promise<KubeObject | HistoryEnd>;

/**
 * Returns a function that reads earlier versions. A list with `resourceVersionMatch=Exact` returns the state at a resource version, and resource versions can be
 * compared as numbers (KEP-5504): the state just before a version contains the version before it. Storages keep old versions until they are compacted.
 */
export function previousReader(client: ApiClient, resource: ApiResource): ReadPrevious {
  return async ({ metadata: { namespace = '', name, uid, resourceVersion } }, signal) => {
    const version = BigInt(/^\d+$/.test(resourceVersion) ? resourceVersion : 0);
    if (version < 2n) return version === 0n ? 'unordered' : 'created';
    try {
      const { items } = await client.json<ObjectList>(pathOf(resource, namespace), {
        query: { fieldSelector: `metadata.name=${name}`, resourceVersion: String(version - 1n), resourceVersionMatch: 'Exact' },
        signal,
      });
      const [previous] = items;
      return previous === undefined || previous.metadata.uid !== uid ? 'created' : previous;
    } catch (error) {
      if (isApiError(error, 410)) return 'compacted';
      throw error;
    }
  };
}

/** The number of versions that the page keeps. */
const maxVersions = 500;

/** The versions of one object that the page knows. What it has read it keeps, also when the storage no longer has it. */
export class ObjectVersions {
  readonly #read: ReadPrevious;
  readonly #onRead: () => void;
  readonly #previous = new Map<string, KubeObject | HistoryEnd>();
  #newest: KubeObject;

  /** @param onRead called after each version that is read: a page of versions takes several requests */
  constructor(newest: KubeObject, read: ReadPrevious, onRead: () => void = () => undefined) {
    this.#newest = newest;
    this.#read = read;
    this.#onRead = onRead;
  }

  /** The known versions without a gap, the newest first. */
  get list(): readonly ObjectVersion[] {
    const result: ObjectVersion[] = [];
    for (let object: KubeObject | undefined = this.#newest; object !== undefined; ) {
      const previous: KubeObject | HistoryEnd | undefined = this.#previous.get(object.metadata.resourceVersion);
      result.push({ object, ...(previous !== undefined && { previous }) });
      object = typeof previous === 'object' ? previous : undefined;
    }
    return result;
  }

  /** Adds the newest version, and reads those between it and the known ones, up to `count`. */
  async add(object: KubeObject, count: number, signal: AbortSignal): Promise<void> {
    const known = this.#previous.size === 0 ? undefined : this.#newest.metadata.resourceVersion;
    if (this.#previous.size >= maxVersions) this.#previous.clear(); // an object that changes all the time
    this.#newest = object;
    await this.#load(count, signal, known);
  }

  /** Reads up to `count` versions before the earliest that is known. */
  loadEarlier(count: number, signal: AbortSignal): Promise<void> {
    return this.#load(count, signal);
  }

  async #load(count: number, signal: AbortSignal, until?: string): Promise<void> {
    for (let left = count; left > 0; left -= 1) {
      const last = this.list.at(-1);
      if (last === undefined || last.previous !== undefined) return;
      const { resourceVersion } = last.object.metadata;
      const previous = await this.#read(last.object, signal);
      this.#previous.set(resourceVersion, previous);
      this.#onRead();
      if (typeof previous === 'object' && previous.metadata.resourceVersion === until) return;
    }
  }
}
