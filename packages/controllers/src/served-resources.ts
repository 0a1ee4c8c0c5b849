import { apiVersionOf, groupResource, type Resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import type { Client } from '@oarlock/spi/client';

interface ResourceList {
  readonly resources?: readonly { readonly name: string }[];
}

/** Which resources a server has, by its discovery documents: each group and version is asked for once. */
export class ServedResources {
  readonly #client: Client;
  readonly #versions = new Map<string, Promise<ReadonlySet<string>>>();

  constructor(client: Client) {
    this.#client = client;
  }

  /** @throws StatusError when the server does not answer */
  async has(resource: Resource): Promise<boolean> {
    const groupVersion = apiVersionOf(resource);
    let names = this.#versions.get(groupVersion);
    if (names === undefined) {
      names = this.#namesOf(groupVersion);
      this.#versions.set(groupVersion, names);
    }
    try {
      return (await names).has(resource.resource);
    } catch (error) {
      this.#versions.delete(groupVersion); // asked again the next time
      throw error;
    }
  }

  /** Those of `resources` that the server does not have, as `pods` and `deployments.apps`. */
  async missing(resources: Iterable<Resource>): Promise<readonly string[]> {
    const found = await Promise.all([...resources].map(async (resource) => ((await this.has(resource)) ? [] : [groupResource(resource)])));
    return found.flat();
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
