import { isIPv6 } from 'node:net';
import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { endpointSlices, nodes, services } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Node } from '@oarlock/api/types/core-v1';
import type { EndpointSlice } from '@oarlock/api/types/discovery-v1';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Client, Informer, Informers } from '@oarlock/spi/client';
import { clusterDnsName, clusterDnsService, type DnsServer } from '@oarlock/spi/dns';

export interface DnsServiceOptions {
  readonly client: Client;
  readonly informers: Informers;
  readonly dns: DnsServer;
  /** The cluster IP of the DNS Service, which pods use as nameserver in resolv.conf. */
  readonly serviceIP: string;
  readonly nodeName: string;
  readonly clock: Clock;
  readonly log: Logger;
}

const { namespace, name } = clusterDnsName;
const minRetryMs = 100;
const maxRetryMs = 30_000;

/**
 * Maintains the Service of the cluster DNS and the EndpointSlice for the DNS server of this node. A DNS server that runs in pods has a Service
 * of its own with a selector instead.
 *
 * A node that fails leaves its EndpointSlice. Pods of other nodes are not affected, because the hints of the endpoint name its own node. The slice
 * belongs to the Node object and is deleted with it.
 */
export class DnsService {
  readonly #options: DnsServiceOptions;
  readonly #nodes: Informer<Node>;
  readonly #stop = new AbortController();
  #unsubscribe: (() => void) | undefined;
  #running: Promise<void> = Promise.resolve();

  constructor(options: DnsServiceOptions) {
    this.#options = options;
    this.#nodes = options.informers.forResource(nodes, { fieldSelector: `metadata.name=${options.nodeName}` });
  }

  start(): void {
    const ensure = () => {
      this.#running = this.#running.then(() => this.#retryUntilDone());
    };
    ensure();
    // the Node of a machine can be deleted and registered again while its DNS server runs
    this.#unsubscribe = this.#nodes.addEventHandler({
      onAdd: ensure,
      onUpdate: (node, old) => {
        if (node.metadata?.uid !== old.metadata?.uid) ensure();
      },
    });
  }

  async stop(): Promise<void> {
    this.#unsubscribe?.();
    this.#stop.abort();
    await this.#running;
    const { log } = this.#options;
    await this.#removeEndpoints().catch((error: unknown) => {
      log.warn({ err: error }, 'the EndpointSlice of this DNS server could not be removed');
    });
  }

  async #removeEndpoints(): Promise<void> {
    try {
      await this.#options.client.delete(endpointSlices, { namespace, name: this.#sliceName });
    } catch (error) {
      if (!isStatus(error, 'NotFound')) throw error;
    }
  }

  get #sliceName(): string {
    return `${name}-${this.#options.nodeName}`;
  }

  async #retryUntilDone(): Promise<void> {
    const { clock, log } = this.#options;
    const { signal } = this.#stop;
    let warned = false;
    for (let wait = minRetryMs; !signal.aborted; wait = Math.min(wait * 2, maxRetryMs)) {
      try {
        await this.#ensure();
        return;
      } catch (error) {
        if (signal.aborted) return;
        if (isStatus(error, 'Forbidden', 'Invalid')) {
          // an Invalid object stays invalid; the Service that a node may not create may be created by the control plane
          if (!warned)
            log.warn({ error: (error as Error).message }, `the DNS server of this node could not be added to the Service ${name}`);
          if (isStatus(error, 'Invalid')) return;
          warned = true;
        } else log.debug({ err: error, retryMs: wait }, `the Service ${name} could not be written`);
        await clock.sleep(wait, signal).catch(() => undefined); // `stop` ends the wait
      }
    }
  }

  async #ensure(): Promise<void> {
    const { client, serviceIP, log } = this.#options;
    const service = await createIfMissing(client, services, clusterDnsService(serviceIP));
    if (Object.keys(service.spec?.selector ?? {}).length > 0) {
      log.info({ service: `${namespace}/${name}` }, 'the Service has a selector and is left to its pods');
      await this.#removeEndpoints();
      return;
    }
    const desired = this.#slice();
    const present = await createIfMissing(client, endpointSlices, desired);
    // left by a server that was killed
    if (contentOf(present) !== contentOf(desired)) {
      const resourceVersion = present.metadata?.resourceVersion;
      await client.update(endpointSlices, {
        ...desired,
        metadata: { ...desired.metadata, ...(resourceVersion !== undefined && { resourceVersion }) },
      });
    }
  }

  #slice(): EndpointSlice {
    const { dns, nodeName } = this.#options;
    const port = dns.port ?? 53;
    const uid = this.#nodes.get(nodeName)?.metadata?.uid;
    return {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: {
        name: this.#sliceName,
        namespace,
        labels: { 'kubernetes.io/service-name': name, 'endpointslice.kubernetes.io/managed-by': 'dns.oarlock.dev' },
        ...(uid !== undefined && { ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: nodeName, uid }] }),
      },
      addressType: isIPv6(dns.address) ? 'IPv6' : 'IPv4',
      endpoints: [{ addresses: [dns.address], conditions: { ready: true }, hints: { forNodes: [{ name: nodeName }] }, nodeName }],
      ports: [
        { name: 'dns', protocol: 'UDP', port },
        { name: 'dns-tcp', protocol: 'TCP', port },
      ],
    };
  }
}

/** Returns the fields of a slice that its DNS server determines, as text. */
function contentOf({ metadata, endpoints = [], ports = [] }: EndpointSlice): string {
  const owners = (metadata?.ownerReferences ?? []).map(({ uid }) => uid);
  return JSON.stringify([owners, endpoints, ports]);
}

/** Returns the existing object, or creates it. A node may read the Service but not create it. */
async function createIfMissing<T extends KubeObject>(client: Client, resource: Resource<T>, object: T): Promise<T> {
  const get = () => client.get(resource, { namespace, name: object.metadata?.name ?? '' });
  try {
    return await get();
  } catch (error) {
    if (!isStatus(error, 'NotFound')) throw error;
  }
  try {
    return await client.create(resource, object);
  } catch (error) {
    if (!isStatus(error, 'AlreadyExists')) throw error;
    return get();
  }
}
