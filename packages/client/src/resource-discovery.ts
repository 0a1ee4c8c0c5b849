import { apiVersionOf, type Resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import { systemClock, type Clock } from '@oarlock/primitives/clock';
import type { Client } from '@oarlock/spi/client';

interface ResourceList {
  readonly resources?: readonly { readonly name: string }[];
}
interface DiscoveredVersion {
  readonly names: Promise<ReadonlySet<string>>;
  /** Time of the request on the monotonic clock, in milliseconds. */
  readonly at: number;
}

/** Interval in milliseconds between discovery requests for a missing resource (the interval of upstream's garbage collector). */
const refreshIntervalMs = 30_000;

/**
 * The resources that a server serves, from its discovery documents. Each group version is fetched once, and again only while a caller waits for it.
 */
export class ResourceDiscovery {
  readonly #client: Client;
  readonly #clock: Clock;
  readonly #versions = new Map<string, DiscoveredVersion>();

  constructor(client: Client, clock: Clock = systemClock) {
    this.#client = client;
    this.#clock = clock;
  }

  /** Returns whether the server serves a resource. @throws StatusError if the server does not respond */
  async has(resource: Resource): Promise<boolean> {
    return this.#has(resource, Number.POSITIVE_INFINITY);
  }

  /** Returns the resources that the server does not serve. @throws StatusError if the server does not respond */
  async missing(resources: Iterable<Resource>): Promise<readonly Resource[]> {
    const found = await Promise.all([...resources].map(async (resource) => ((await this.has(resource)) ? [] : [resource])));
    return found.flat();
  }

  /** Returns true if the server certainly does not serve the resource; false if it does not respond. */
  async isMissing(resource: Resource): Promise<boolean> {
    return this.#has(resource, refreshIntervalMs).then(
      (has) => !has,
      () => false,
    );
  }

  /** Resolves when the server serves all resources. Retries while the server does not respond. @throws the signal's reason if the signal aborts */
  async whenServed(resources: readonly Resource[], signal: AbortSignal): Promise<void> {
    for (;;) {
      const has = await Promise.all(resources.map((each) => this.#has(each, refreshIntervalMs))).catch(() => [false]);
      signal.throwIfAborted();
      if (has.every(Boolean)) return;
      await this.#clock.sleep(refreshIntervalMs, signal);
    }
  }

  async #has(resource: Resource, maxAgeMs: number): Promise<boolean> {
    const groupVersion = apiVersionOf(resource);
    const now = this.#clock.monotonic();
    let version = this.#versions.get(groupVersion);
    if (version === undefined || now - version.at >= maxAgeMs) {
      version = { names: this.#namesOf(groupVersion), at: now };
      this.#versions.set(groupVersion, version);
    }
    try {
      return (await version.names).has(resource.resource);
    } catch (error) {
      if (this.#versions.get(groupVersion) === version) this.#versions.delete(groupVersion); // fetched again by the next call
      throw error;
    }
  }

  async #namesOf(groupVersion: string): Promise<ReadonlySet<string>> {
    const path = groupVersion.includes('/') ? `/apis/${groupVersion}` : `/api/${groupVersion}`;
    try {
      const { resources = [] } = (await this.#client.raw('GET', path)) as ResourceList;
      return new Set(resources.map(({ name }) => name));
    } catch (error) {
      if (isStatus(error, 'NotFound')) return new Set();
      throw error;
    }
  }
}
