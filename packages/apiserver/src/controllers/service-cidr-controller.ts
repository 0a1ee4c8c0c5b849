import { familyOf } from '@oarlock/api/net/ip-number';
import { jsonEqual } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { ipAddresses, serviceCIDRs, services } from '@oarlock/api/resources';
import { formatTime } from '@oarlock/api/values/time';
import type { Service } from '@oarlock/api/types/core-v1';
import type { IPAddress, ParentReference, ServiceCIDR } from '@oarlock/api/types/networking-v1';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { LoopbackInformer } from './loopback-informer.ts';
import { IPRange } from '../registry/strategies/ip-range.ts';
import { apiserverIdentity, LoopbackClient, ignoreReasons } from './loopback-client.ts';
import { CoalescingRunner } from '@oarlock/primitives/concurrency/coalescing-runner';
import { managedByAllocator, ipFamilyLabel, isReady, managedByLabel } from '../registry/strategies/service-allocator.ts';
import type { RequestHandler } from '../endpoints/request/response.ts';

export interface ServiceCidrControllerOptions {
  readonly pipeline: RequestHandler;
  /** The IP ranges of the default ServiceCIDR. */
  readonly cidrs: readonly string[];
  readonly clock: Clock;
  readonly log: Logger;
}

const defaultName = 'kubernetes';
const finalizer = 'networking.k8s.io/service-cidr-finalizer';
const ready = { type: 'Ready', status: 'True', reason: '', message: 'Kubernetes Service CIDR is ready' };
const terminating = {
  type: 'Ready',
  status: 'False',
  reason: 'Terminating',
  message: 'There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR',
};

/**
 * Reconciles ServiceCIDRs and IPAddresses (KEP-1880): creates the default ServiceCIDR, sets the condition Ready, protects a ServiceCIDR
 * with a finalizer while allocated addresses need it, restores missing IPAddresses of Services, and deletes orphaned IPAddresses.
 */
export class ServiceCidrController {
  readonly #options: ServiceCidrControllerOptions;
  readonly #cidrs: LoopbackInformer<ServiceCIDR>;
  readonly #addresses: LoopbackInformer<IPAddress>;
  readonly #requests: LoopbackClient;
  readonly #runner: CoalescingRunner;
  #deletedAddresses: IPAddress[] = [];
  /** True after the initial state has been reconciled. */
  #synced = false;

  constructor(options: ServiceCidrControllerOptions) {
    this.#options = options;
    this.#requests = new LoopbackClient(options.pipeline);
    this.#runner = new CoalescingRunner({
      ...options,
      failureMessage: 'ServiceCIDRs and IPAddresses could not be reconciled',
      run: () => this.#reconcileAll(),
    });
    this.#cidrs = new LoopbackInformer(serviceCIDRs, { ...options, onChange: () => void this.#runner.trigger() });
    this.#addresses = new LoopbackInformer(ipAddresses, {
      ...options,
      onChange: (deleted) => {
        if (deleted.length === 0) return;
        this.#deletedAddresses.push(...(deleted as readonly IPAddress[]));
        void this.#runner.trigger();
      },
    });
  }

  /** Starts the controller. Resolves after the first reconciliation, even if it failed and will be retried. */
  async start(): Promise<void> {
    await Promise.all([this.#cidrs.start(), this.#addresses.start()]);
    await this.#runner.trigger();
  }

  async stop(): Promise<void> {
    await Promise.all([this.#cidrs.stop(), this.#addresses.stop(), this.#runner.stop()]);
  }

  async #reconcileAll(): Promise<void> {
    if (!this.#synced)
      await this.#createIfMissing(serviceCIDRs, { metadata: { name: defaultName }, ...{ spec: { cidrs: this.#options.cidrs } } });
    for (const cidr of this.#cidrs.objects.values()) await this.#reconcile(cidr);
    if (!this.#synced) await this.#repair();
    this.#synced = true;
    for (let deleted = this.#deletedAddresses.shift(); deleted !== undefined; deleted = this.#deletedAddresses.shift())
      await this.#restore(deleted);
  }

  async #reconcile(cidr: ServiceCIDR): Promise<void> {
    const { metadata = {} } = cidr;
    const hasFinalizer = metadata.finalizers?.includes(finalizer) === true;
    if (metadata.deletionTimestamp === undefined) {
      if (!hasFinalizer)
        await this.#update(cidr, '', { metadata: { ...metadata, finalizers: [...(metadata.finalizers ?? []), finalizer] } });
      await this.#report(cidr, ready);
    } else if (hasFinalizer) {
      if (this.#hasOrphanedAddresses(cidr)) await this.#report(cidr, terminating);
      else
        await this.#update(cidr, '', { metadata: { ...metadata, finalizers: metadata.finalizers?.filter((name) => name !== finalizer) } });
    }
  }

  /**
   * Returns true if an IPAddress would have no range without this ServiceCIDR: it is in this range and in no range of a remaining
   * ServiceCIDR.
   */
  #hasOrphanedAddresses(cidr: ServiceCIDR): boolean {
    const rangesOf = (value: ServiceCIDR) => (value.spec?.cidrs ?? []).map((text) => new IPRange(text));
    const own = rangesOf(cidr);
    const others = [...this.#cidrs.objects.values()]
      .filter((other) => other.metadata?.name !== cidr.metadata?.name && other.metadata?.deletionTimestamp === undefined && isReady(other))
      .flatMap(rangesOf);
    for (const address of this.#addresses.objects.keys())
      if (own.some((range) => range.contains(address)) && !others.some((range) => range.contains(address))) return true;
    return false;
  }

  async #report(cidr: ServiceCIDR, condition: typeof ready): Promise<void> {
    const before = cidr.status?.conditions?.find(({ type }) => type === 'Ready');
    const { lastTransitionTime, ...reported } = before ?? {};
    if (jsonEqual(reported, condition)) return;
    const at = before?.status === condition.status ? lastTransitionTime : formatTime(this.#options.clock.now());
    const others = (cidr.status?.conditions ?? []).filter(({ type }) => type !== 'Ready');
    await this.#update(cidr, 'status', { status: { ...cidr.status, conditions: [...others, { ...condition, lastTransitionTime: at }] } });
  }

  /** Recreates an IPAddress that was deleted while its Service still uses the address. */
  async #restore({ metadata, spec }: IPAddress): Promise<void> {
    const ip = metadata?.name ?? '';
    if (this.#addresses.objects.has(ip) || !(await this.#isInUse(ip, spec?.parentRef))) return;
    await this.#createIfMissing(ipAddresses, addressObject(ip, spec?.parentRef ?? { name: '', resource: '' }));
  }

  /**
   * Deletes the IPAddresses of Services that do not exist, and creates missing IPAddresses. IPAddresses that are committed together with
   * their Service are always consistent.
   */
  async #repair(): Promise<void> {
    const all = await this.#options.pipeline.handle({
      verb: 'list',
      resource: services,
      subresource: '',
      namespace: '',
      name: '',
      query: {},
      identity: apiserverIdentity,
    });
    const used = new Set<string>();
    for (const { object } of all.kind === 'list' ? all.items : []) {
      const { metadata = {}, spec } = object as Service;
      for (const ip of spec?.clusterIPs ?? []) {
        if (familyOf(ip) === undefined) continue;
        used.add(ip);
        const { name = '', namespace = '' } = metadata;
        if (!this.#addresses.objects.has(ip))
          await this.#createIfMissing(ipAddresses, addressObject(ip, { resource: 'services', namespace, name }));
      }
    }
    for (const [ip, { metadata, spec }] of this.#addresses.objects) {
      if (metadata?.labels?.[managedByLabel] !== managedByAllocator || used.has(ip) || (await this.#isInUse(ip, spec?.parentRef))) continue;
      await this.#requests
        .delete(ipAddresses, { metadata: { name: ip } }, { uid: metadata.uid ?? '' })
        .catch(ignoreReasons('NotFound', 'Conflict'));
    }
  }

  /** Returns true if the Service that the IPAddress refers to exists and uses the address. */
  async #isInUse(ip: string, parent: ParentReference | undefined): Promise<boolean> {
    const { resource = '', namespace = '', name = '' } = parent ?? {};
    if (resource !== 'services' || name === '') return false;
    const service = (await this.#getLatest(services, namespace, name)) as Service | undefined;
    return service?.spec?.clusterIPs?.includes(ip) === true;
  }

  async #getLatest(resource: Resource, namespace: string, name: string): Promise<KubeObject | undefined> {
    try {
      return await this.#requests.get(resource, { metadata: { name, namespace } });
    } catch (error) {
      ignoreReasons('NotFound')(error);
      return undefined;
    }
  }

  async #createIfMissing(resource: Resource, object: KubeObject): Promise<void> {
    await this.#requests.create(resource, object).catch(ignoreReasons('AlreadyExists'));
  }

  /** Updates a ServiceCIDR. A conflict is ignored, because the concurrent change causes another reconciliation. */
  async #update(object: ServiceCIDR, subresource: string, parts: object): Promise<void> {
    await this.#requests.update(serviceCIDRs, { ...object, ...parts }, subresource).catch(ignoreReasons('Conflict', 'NotFound'));
  }
}

const addressObject = (ip: string, parentRef: ParentReference): KubeObject => ({
  metadata: { name: ip, labels: { [ipFamilyLabel]: familyOf(ip) ?? 'IPv4', [managedByLabel]: managedByAllocator } },
  ...{ spec: { parentRef } },
});
