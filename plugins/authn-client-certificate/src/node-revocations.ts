import { configMaps } from '@oarlock/api/resources';
import type { ConfigMap } from '@oarlock/api/types/core-v1';
import { removedNodes } from '@oarlock/spi/authn';
import type { Informer, Informers } from '@oarlock/spi/client';

/** Time in milliseconds that a node's request waits for the list after the start of the API server. */
const syncTimeoutMs = 30_000;

/** The revoked certificates of nodes that were removed from the cluster. */
export class NodeRevocations {
  readonly #list: Informer<ConfigMap>;

  constructor(informers: Informers) {
    const { namespace, name } = removedNodes;
    this.#list = informers.forResource(configMaps, { namespace, fieldSelector: `metadata.name=${name}` });
  }

  /** Resolves when the list is known; undefined if it is known already. The promise rejects if the list stays unknown. */
  get unknown(): Promise<void> | undefined {
    return this.#list.hasSynced ? undefined : this.#list.whenSynced(AbortSignal.timeout(syncTimeoutMs));
  }

  /** Returns true if a certificate of the node, valid from this time in milliseconds since the epoch, is revoked. */
  includes(node: string, validFrom: number): boolean {
    const until = this.#list.get(`${removedNodes.namespace}/${removedNodes.name}`)?.data?.[node];
    // an invalid time revokes all certificates of the node
    return until !== undefined && !(validFrom > Date.parse(until));
  }
}
