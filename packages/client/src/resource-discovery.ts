import { apiVersionOf, type Resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import { systemClock, type Clock } from '@oarlock/primitives/clock';
import type { Client } from '@oarlock/spi/client';
import { DefinitionWatch } from './definition-watch.ts';

interface ResourceList {
  readonly resources?: readonly { readonly name: string }[];
}
interface DiscoveredVersion {
  readonly names: Promise<ReadonlySet<string>>;
  /** Time of the request on the monotonic clock, in milliseconds. */
  readonly at: number;
  /** The number of changes of definitions before the request. */
  readonly changes: number;
}

/** Interval in milliseconds between discovery requests for a missing resource (the interval of upstream's garbage collector). */
const refreshIntervalMs = 30_000;
/** The first interval after a change of a definition, which servers add to their discovery some time after the change. Doubles up to the interval above. */
const changedIntervalMs = 100;

/**
 * The resources that a server serves, from its discovery documents. Each group version is fetched once, and again only while a caller waits for it.
 */
export class ResourceDiscovery {
  readonly #client: Client;
  readonly #clock: Clock;
  readonly #versions = new Map<string, DiscoveredVersion>();
  readonly #definitions: DefinitionWatch;
  #changes = 0;

  constructor(client: Client, clock: Clock = systemClock) {
    this.#client = client;
    this.#clock = clock;
    this.#definitions = new DefinitionWatch(client, clock);
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

  /**
   * Resolves when the server serves all resources: soon after a change of their definitions, or within 30 s if the definitions cannot be watched. Retries
   * while the server does not respond. @throws the signal's reason if the signal aborts
   */
  async whenServed(resources: readonly Resource[], signal: AbortSignal): Promise<void> {
    let wake = () => {};
    const removeListener = this.#definitions.onChange(() => {
      this.#changes++;
      wake();
    });
    try {
      let intervalMs = refreshIntervalMs;
      let maxAgeMs = refreshIntervalMs;
      for (;;) {
        const changes = this.#changes;
        const has = await Promise.all(resources.map((each) => this.#has(each, maxAgeMs))).catch(() => [false]);
        signal.throwIfAborted();
        if (has.every(Boolean)) return;
        if (changes === this.#changes) await this.#sleep(intervalMs, { signal, onWake: (callback) => (wake = callback) });
        maxAgeMs = intervalMs;
        intervalMs = changes === this.#changes ? Math.min(2 * intervalMs, refreshIntervalMs) : changedIntervalMs;
      }
    } finally {
      removeListener();
    }
  }

  /** Resolves after the time, or earlier when the function that `onWake` receives is called. @throws the signal's reason if the signal aborts */
  #sleep(ms: number, { signal, onWake }: { readonly signal: AbortSignal; onWake(wake: () => void): void }): Promise<void> {
    return new Promise((resolve, reject) => {
      const end = () => {
        timer.cancel();
        signal.removeEventListener('abort', end);
        if (signal.aborted) reject(signal.reason);
        else resolve();
      };
      const timer = this.#clock.after(ms, end);
      signal.addEventListener('abort', end, { once: true });
      onWake(end);
    });
  }

  async #has(resource: Resource, maxAgeMs: number): Promise<boolean> {
    const groupVersion = apiVersionOf(resource);
    const now = this.#clock.monotonic();
    let version = this.#versions.get(groupVersion);
    const isOld =
      version !== undefined && maxAgeMs < Number.POSITIVE_INFINITY && (version.changes !== this.#changes || now - version.at >= maxAgeMs);
    if (version === undefined || isOld) {
      version = { names: this.#namesOf(groupVersion), at: now, changes: this.#changes };
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
