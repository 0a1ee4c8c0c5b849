import { apiVersionOf, type Resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import { systemClock, type Clock } from '@oarlock/kernel/clock';
import type { Client } from '@oarlock/spi/client';

interface ResourceList {
  readonly resources?: readonly { readonly name: string }[];
}
interface Answer {
  readonly names: Promise<ReadonlySet<string>>;
  /** By the monotonic clock. */
  readonly at: number;
}

/** How often a server is asked whether it has by now what it had not: as often as upstream's garbage collector asks. Milliseconds. */
const askAgainMs = 30_000;

/** Which resources a server has, by its discovery documents: each group and version is asked for once, and again only while somebody waits for it. */
export class ServedResources {
  readonly #client: Client;
  readonly #clock: Clock;
  readonly #versions = new Map<string, Answer>();

  constructor(client: Client, clock: Clock = systemClock) {
    this.#client = client;
    this.#clock = clock;
  }

  /** @throws StatusError when the server does not answer */
  async has(resource: Resource): Promise<boolean> {
    return this.#has(resource, Number.POSITIVE_INFINITY);
  }

  /** Those of `resources` that the server does not have. @throws StatusError when the server does not answer */
  async missing(resources: Iterable<Resource>): Promise<readonly Resource[]> {
    const found = await Promise.all([...resources].map(async (resource) => ((await this.has(resource)) ? [] : [resource])));
    return found.flat();
  }

  /** Whether the server says by now that it does not have it. One that does not answer says nothing. */
  async lacks(resource: Resource): Promise<boolean> {
    return this.#has(resource, askAgainMs).then(
      (has) => !has,
      () => false,
    );
  }

  /** Resolves when the server has all of them. One that does not answer is taken for one that does not have them yet. @throws the reason of the signal */
  async whenServed(resources: readonly Resource[], signal: AbortSignal): Promise<void> {
    for (;;) {
      const has = await Promise.all(resources.map((each) => this.#has(each, askAgainMs))).catch(() => [false]);
      signal.throwIfAborted();
      if (has.every(Boolean)) return;
      await this.#clock.sleep(askAgainMs, signal);
    }
  }

  async #has(resource: Resource, maxAgeMs: number): Promise<boolean> {
    const groupVersion = apiVersionOf(resource);
    const now = this.#clock.monotonic();
    let answer = this.#versions.get(groupVersion);
    if (answer === undefined || now - answer.at >= maxAgeMs) {
      answer = { names: this.#namesOf(groupVersion), at: now };
      this.#versions.set(groupVersion, answer);
    }
    try {
      return (await answer.names).has(resource.resource);
    } catch (error) {
      if (this.#versions.get(groupVersion) === answer) this.#versions.delete(groupVersion); // asked again the next time
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
