import { isIPv6 } from 'node:net';
import { jsonEqual } from '@oarlock/api/json';
import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { configMaps, endpoints, endpointSlices, namespaces, priorityClasses, services } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime, parseTime } from '@oarlock/api/time';
import type { ConfigMap, Endpoints, Service } from '@oarlock/api/types/core-v1';
import type { EndpointSlice } from '@oarlock/api/types/discovery-v1';
import type { Clock, Timer } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { ClusterFacts } from '@oarlock/spi/cluster';
import type { StorageDriver } from '@oarlock/spi/storage';
import { OwnRequests, unless } from './own-requests.ts';
import type { Pipeline } from './pipeline.ts';
import { root } from './watch-cache/watch-cache.ts';

export interface BootstrapOptions {
  readonly pipeline: Pick<Pipeline, 'handle'>;
  readonly storage: StorageDriver;
  readonly facts: Pick<ClusterFacts, 'kubernetesServiceIP'>;
  /** Where other machines reach this server: an IP address and a port. */
  readonly address: string;
  readonly port: number;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Since when it is noted which tokens of Secrets are used (KEP-2799). */
const trackingOfTokens = { namespace: 'kube-system', name: 'kube-apiserver-legacy-service-account-token-tracking' };
const systemNamespaces = ['default', 'kube-system', 'kube-public', 'kube-node-lease'];
/** One key for each server that lives, gone by itself soon after it does not. */
const leaseRoot = `${root}masterleases/`;
const leaseSeconds = 15;
const renewEvery = 10_000;
const retryFrom = 100;
const retryMost = 5_000;

/**
 * What every cluster has from the beginning: the system's namespaces and priority classes, and the Service `kubernetes` with the
 * addresses of all servers that live. Several servers may do this at once, and do it again.
 */
export class Bootstrap {
  readonly #options: BootstrapOptions;
  readonly #requests: OwnRequests;
  readonly #stop = new AbortController();
  #timer: Timer | undefined;
  #unreachable = false;
  #untracked = false;
  #running: Promise<void> | undefined;
  #tracking = false;

  constructor(options: BootstrapOptions) {
    this.#options = options;
    this.#requests = new OwnRequests(options.pipeline);
  }

  /** Resolves when everything is there; tries again until then. Keeps it right afterwards. */
  async start(signal?: AbortSignal): Promise<void> {
    const { clock, log } = this.#options;
    for (let wait = retryFrom; ; wait = Math.min(wait * 2, retryMost)) {
      try {
        await this.#ensure();
        break;
      } catch (error) {
        log.warn({ error: String(error), retryMs: wait }, 'the first objects could not be made');
        await clock.sleep(wait, signal === undefined ? this.#stop.signal : AbortSignal.any([signal, this.#stop.signal]));
      }
    }
    this.#track();
    this.#arm();
  }

  /** Takes this server's address out of the Service, unless it is the last. */
  async stop(): Promise<void> {
    this.#stop.abort(new Error('the API server is stopping'));
    this.#timer?.cancel();
    await this.#running;
    const { storage, address, log } = this.#options;
    try {
      await storage.commit([{ key: `${leaseRoot}${address}`, value: null }], []);
      const left = await this.#addresses();
      if (left.length > 0) await this.#ensureEndpoints(left);
    } catch (error) {
      log.warn({ error: String(error) }, 'the address of this server stays in the Service kubernetes');
    }
  }

  #arm(): void {
    const { clock, log } = this.#options;
    if (this.#stop.signal.aborted) return;
    this.#timer = clock.after(renewEvery, () => {
      this.#running = this.#ensure()
        .catch((error: unknown) => log.warn({ error: String(error) }, 'the first objects could not be checked'))
        .then(() => {
          this.#track();
          this.#arm();
        });
    });
  }

  async #ensure(): Promise<void> {
    const { storage, address } = this.#options;
    // together: storage writes them to the disk as one
    await Promise.all([
      ...systemNamespaces.map((name) => this.#make(namespaces, { kind: 'Namespace', apiVersion: 'v1', metadata: { name } })),
      ...systemPriorityClasses.map((object) => this.#make(priorityClasses, object)),
      storage.commit([{ key: `${leaseRoot}${address}`, value: Buffer.from('{}'), ttlSeconds: leaseSeconds }], []),
    ]);
    await this.#ensureService();
    try {
      await this.#ensureEndpoints(await this.#addresses());
    } catch (error) {
      // a machine without a network has only addresses that Endpoints may not have
      if (!isStatus(error, 'Invalid')) throw error;
      if (!this.#unreachable)
        this.#options.log.warn({ address, error: error.message }, 'the Service kubernetes has no endpoint at this server');
      this.#unreachable = true; // said once
    }
  }

  async #addresses(): Promise<readonly string[]> {
    const { entries } = await this.#options.storage.range({ prefix: leaseRoot });
    return entries.map(({ key }) => key.slice(leaseRoot.length)).sort();
  }

  async #ensureService(): Promise<void> {
    const { facts, port } = this.#options;
    const ports = [{ name: 'https', protocol: 'TCP', port: 443, targetPort: port }];
    const service: Service = {
      kind: 'Service',
      apiVersion: 'v1',
      metadata: { name: 'kubernetes', namespace: 'default', labels: { component: 'apiserver', provider: 'kubernetes' } },
      spec: { type: 'ClusterIP', clusterIP: facts.kubernetesServiceIP, sessionAffinity: 'None', ports },
    };
    await this.#keep(
      services,
      service,
      ({ spec }) => ({ spec: { ...spec, ports } }),
      ({ spec }) => ({ ports: spec?.ports }),
    );
  }

  /** Nothing waits for it: admission may refuse it, or take its time. */
  #track(): void {
    if (this.#tracking) return;
    this.#tracking = true;
    void this.#ensureTracking()
      .catch((error: unknown) => {
        if (this.#untracked || this.#stop.signal.aborted) return;
        this.#untracked = true; // said once
        this.#options.log.warn({ error: String(error) }, 'since when uses of tokens are noted could not be written');
      })
      .finally(() => {
        this.#tracking = false;
      });
  }

  async #ensureTracking(): Promise<void> {
    const today = { since: formatTime(this.#options.clock.now()).slice(0, 10) };
    const tracking: ConfigMap = { kind: 'ConfigMap', apiVersion: 'v1', metadata: trackingOfTokens, data: today };
    await this.#keep(
      configMaps,
      tracking,
      ({ data }) => (parseTime(`${data?.['since'] ?? ''}T00:00:00Z`) === undefined ? { data: today } : { data }),
      ({ data }) => ({ data }),
    );
  }

  async #ensureEndpoints(addresses: readonly string[]): Promise<void> {
    const { port } = this.#options;
    const ports = [{ name: 'https', port, protocol: 'TCP' }];
    const metadata = { name: 'kubernetes', namespace: 'default' };
    const subsets = [{ addresses: addresses.map((ip) => ({ ip })), ports }];
    const endpoint: Endpoints = {
      kind: 'Endpoints',
      apiVersion: 'v1',
      metadata: { ...metadata, labels: { 'endpointslice.kubernetes.io/skip-mirror': 'true' } },
      subsets,
    };
    await this.#keep(
      endpoints,
      endpoint,
      () => ({ subsets }),
      ({ subsets }) => ({ subsets }),
    );
    const addressType = addresses.every((address) => isIPv6(address)) ? 'IPv6' : 'IPv4';
    const own = addresses.filter((address) => isIPv6(address) === (addressType === 'IPv6'));
    const list = own.map((address) => ({ addresses: [address], conditions: { ready: true } }));
    const slice: EndpointSlice = {
      kind: 'EndpointSlice',
      apiVersion: 'discovery.k8s.io/v1',
      metadata: { ...metadata, labels: { 'kubernetes.io/service-name': 'kubernetes' } },
      addressType,
      endpoints: list,
      ports,
    };
    await this.#keep(
      endpointSlices,
      slice,
      () => ({ endpoints: list, ports }),
      ({ endpoints, ports }) => ({ endpoints, ports }),
    );
  }

  async #make(resource: Resource, object: KubeObject): Promise<void> {
    try {
      await this.#requests.get(resource, object);
    } catch (error) {
      if (!isStatus(error, 'NotFound')) throw error;
      await this.#requests.create(resource, object).catch(unless('AlreadyExists'));
    }
  }

  /** Makes an object, or writes what `wanted` says where `seen` shows something else. */
  async #keep<T extends KubeObject>(
    resource: Resource<T>,
    object: T,
    wanted: (current: T) => object,
    seen: (current: T) => object,
  ): Promise<void> {
    for (;;) {
      let current: T;
      try {
        current = await this.#requests.get(resource, object);
      } catch (error) {
        if (!isStatus(error, 'NotFound')) throw error;
        await this.#requests.create(resource, object).catch(unless('AlreadyExists'));
        continue;
      }
      const next = { ...current, ...wanted(current) } as T;
      if (jsonEqual(seen(next), seen(current))) return;
      try {
        await this.#requests.update(resource, next);
        return;
      } catch (error) {
        if (!isStatus(error, 'Conflict', 'NotFound')) throw error;
      }
    }
  }
}

function priorityClass(name: string, value: number, description: string): KubeObject {
  return { kind: 'PriorityClass', apiVersion: 'scheduling.k8s.io/v1', metadata: { name }, ...{ value, globalDefault: false, description } };
}

const systemPriorityClasses = [
  priorityClass(
    'system-cluster-critical',
    2_000_000_000,
    'Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.',
  ),
  priorityClass('system-node-critical', 2_000_001_000, 'Used for system critical pods that must not be moved from their current node.'),
];
