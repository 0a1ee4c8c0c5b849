import { isIPv6 } from 'node:net';
import { jsonEqual } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { configMaps, endpoints, endpointSlices, namespaces, priorityClasses, services } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime, parseTime } from '@oarlock/api/values/time';
import type { ConfigMap, Endpoints, Service } from '@oarlock/api/types/core-v1';
import type { EndpointSlice } from '@oarlock/api/types/discovery-v1';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import { deferred } from '@oarlock/primitives/concurrency/deferred';
import type { Logger } from '@oarlock/primitives/logger';
import type { ClusterFacts } from '@oarlock/spi/cluster';
import type { StorageDriver } from '@oarlock/spi/storage';
import { LoopbackClient, ignoreReasons } from './loopback-client.ts';
import { EndpointLeases } from './endpoint-leases.ts';
import type { RequestHandler } from '../endpoints/request/response.ts';

export interface BootstrapControllerOptions {
  readonly pipeline: RequestHandler;
  readonly storage: StorageDriver;
  readonly facts: Pick<ClusterFacts, 'kubernetesServiceIP'>;
  /** The IP address and port at which other machines reach this server. */
  readonly address: string;
  readonly port: number;
  readonly clock: Clock;
  readonly log: Logger;
}

/** The name of the ConfigMap that contains the time since which the use of legacy service account tokens is tracked (KEP-2799). */
const trackingOfTokens = { namespace: 'kube-system', name: 'kube-apiserver-legacy-service-account-token-tracking' };
const systemNamespaces = ['default', 'kube-system', 'kube-public', 'kube-node-lease'];
const renewIntervalMs = 10_000;
const minRetryDelayMs = 100;
const maxRetryDelayMs = 5_000;

/**
 * Creates the objects that every cluster has: system namespaces, priority classes, and the Service `kubernetes` with the addresses of all
 * running API servers. Several API servers can run the controller concurrently, because every step is idempotent.
 */
export class BootstrapController {
  readonly #options: BootstrapControllerOptions;
  readonly #client: LoopbackClient;
  readonly #stop = new AbortController();
  #timer: Timer | undefined;
  #unreachable = false;
  #untracked = false;
  #running: Promise<void> | undefined;
  #tracking = false;
  readonly #created = { namespaces: deferred(), priorityClasses: deferred() };
  readonly #trackingAttempted = deferred();
  readonly #leases: EndpointLeases;

  constructor(options: BootstrapControllerOptions) {
    this.#options = options;
    this.#leases = new EndpointLeases({ ...options, onChange: () => this.#reconcileAddresses() });
    this.#client = new LoopbackClient(options.pipeline);
  }

  /** Creates the objects, with retries, and resolves when all of them exist. Afterwards reconciles them periodically. */
  async start(signal?: AbortSignal): Promise<void> {
    const { clock, log } = this.#options;
    for (let wait = minRetryDelayMs; ; wait = Math.min(wait * 2, maxRetryDelayMs)) {
      try {
        await this.#reconcile();
        break;
      } catch (error) {
        log.warn({ error: String(error), retryMs: wait }, 'bootstrap objects could not be created');
        await clock.sleep(wait, signal === undefined ? this.#stop.signal : AbortSignal.any([signal, this.#stop.signal]));
      }
    }
    this.#track();
    this.#schedule();
    this.#leases.start();
  }

  /** Resolves when the system namespaces exist. */
  whenNamespacesExist(): Promise<void> {
    return this.#created.namespaces.promise;
  }

  /** Resolves when the system priority classes exist. */
  whenPriorityClassesExist(): Promise<void> {
    return this.#created.priorityClasses.promise;
  }

  /** Resolves after the first attempt to create the tracking ConfigMap, even if the attempt fails. */
  whenTrackingAttempted(): Promise<void> {
    return this.#trackingAttempted.promise;
  }

  /** Removes the address of this server from the endpoints of the Service `kubernetes`, unless it is the last address. */
  async stop(): Promise<void> {
    this.#stop.abort(new Error('the API server is stopping'));
    this.#timer?.cancel();
    await this.#running;
    await this.#leases.stop();
    try {
      await this.#leases.remove();
      const left = await this.#leases.addresses();
      if (left.length > 0) await this.#ensureEndpoints(left);
    } catch (error) {
      this.#options.log.warn({ error: String(error) }, 'the address of this server could not be removed from the Service kubernetes');
    }
  }

  #schedule(): void {
    const { clock, log } = this.#options;
    if (this.#stop.signal.aborted) return;
    this.#timer = clock.after(renewIntervalMs, () => {
      this.#running = this.#reconcile()
        .catch((error: unknown) => log.warn({ error: String(error) }, 'bootstrap objects could not be reconciled'))
        .then(() => {
          this.#track();
          this.#schedule();
        });
    });
  }

  async #reconcile(): Promise<void> {
    // concurrently: storage writes them to disk in one batch
    await Promise.all([
      this.#createNamespaces().then(this.#created.namespaces.resolve),
      this.#createPriorityClasses().then(this.#created.priorityClasses.resolve),
      this.#leases.renew(),
    ]);
    await this.#ensureService();
    await this.#reconcileAddresses();
  }

  /** Writes the addresses of all running API servers to the endpoints of the Service `kubernetes`. */
  async #reconcileAddresses(): Promise<void> {
    const { address } = this.#options;
    try {
      await this.#ensureEndpoints(await this.#leases.addresses());
    } catch (error) {
      // without a network the machine only has loopback addresses, which Endpoints reject
      if (!isStatus(error, 'Invalid')) throw error;
      if (!this.#unreachable)
        this.#options.log.warn({ address, error: error.message }, 'the Service kubernetes has no endpoint at this server');
      this.#unreachable = true; // logged once
    }
  }

  async #createNamespaces(): Promise<void> {
    await Promise.all(
      systemNamespaces.map((name) => this.#createIfMissing(namespaces, { kind: 'Namespace', apiVersion: 'v1', metadata: { name } })),
    );
  }

  async #createPriorityClasses(): Promise<void> {
    await Promise.all(systemPriorityClasses.map((object) => this.#createIfMissing(priorityClasses, object)));
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
    await this.#updateIfDifferent(services, {
      object: service,
      wanted: ({ spec }) => ({ spec: { ...spec, ports } }),
      seen: ({ spec }) => ({ ports: spec?.ports }),
    });
  }

  /** Creates the tracking ConfigMap in the background, because admission may reject the object or be slow. */
  #track(): void {
    if (this.#tracking) return;
    this.#tracking = true;
    void this.#ensureTracking()
      .catch((error: unknown) => {
        if (this.#untracked || this.#stop.signal.aborted) return;
        this.#untracked = true; // logged once
        this.#options.log.warn({ error: String(error) }, 'the start of legacy token tracking could not be recorded');
      })
      .finally(() => {
        this.#tracking = false;
        this.#trackingAttempted.resolve();
      });
  }

  async #ensureTracking(): Promise<void> {
    const today = { since: formatTime(this.#options.clock.now()).slice(0, 10) };
    const tracking: ConfigMap = { kind: 'ConfigMap', apiVersion: 'v1', metadata: trackingOfTokens, data: today };
    await this.#updateIfDifferent(configMaps, {
      object: tracking,
      wanted: ({ data }) => (parseTime(`${data?.['since'] ?? ''}T00:00:00Z`) === undefined ? { data: today } : { data }),
      seen: ({ data }) => ({ data }),
    });
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
    await this.#updateIfDifferent(endpoints, { object: endpoint, wanted: () => ({ subsets }), seen: ({ subsets }) => ({ subsets }) });
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
    await this.#updateIfDifferent(endpointSlices, {
      object: slice,
      wanted: () => ({ endpoints: list, ports }),
      seen: ({ endpoints, ports }) => ({ endpoints, ports }),
    });
  }

  async #createIfMissing(resource: Resource, object: KubeObject): Promise<void> {
    try {
      await this.#client.get(resource, object);
    } catch (error) {
      if (!isStatus(error, 'NotFound')) throw error;
      await this.#client.create(resource, object).catch(ignoreReasons('AlreadyExists'));
    }
  }

  /** Creates the object `wanted` if none exists, and updates the existing object `seen` if it differs. */
  async #updateIfDifferent<T extends KubeObject>(
    resource: Resource<T>,
    { object, wanted, seen }: { readonly object: T; readonly wanted: (current: T) => object; readonly seen: (current: T) => object },
  ): Promise<void> {
    for (;;) {
      let current: T;
      try {
        current = await this.#client.get(resource, object);
      } catch (error) {
        if (!isStatus(error, 'NotFound')) throw error;
        await this.#client.create(resource, object).catch(ignoreReasons('AlreadyExists'));
        continue;
      }
      const next = { ...current, ...wanted(current) } as T;
      if (jsonEqual(seen(next), seen(current))) return;
      try {
        await this.#client.update(resource, next);
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
