import { familyOf } from '@oarlock/api/ip-number';
import { jsonEqual } from '@oarlock/api/json';
import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { ipAddresses, serviceCIDRs, services } from '@oarlock/api/resources';
import { formatTime } from '@oarlock/api/time';
import type { Service } from '@oarlock/api/types/core-v1';
import type { IPAddress, ParentReference, ServiceCIDR } from '@oarlock/api/types/networking-v1';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import { Following } from './following.ts';
import { IPRange } from './ip-range.ts';
import { apiserverIdentity, OwnRequests, unless } from './own-requests.ts';
import type { Pipeline } from './pipeline.ts';
import { Rounds } from './rounds.ts';
import { allocator, ipFamilyLabel, isReady, managedByLabel } from './service-ranges.ts';

export interface ServiceCidrsOptions {
  readonly pipeline: Pick<Pipeline, 'handle'>;
  /** What the default ServiceCIDR holds. */
  readonly cidrs: readonly string[];
  readonly clock: Clock;
  readonly log: Logger;
}

const defaultName = 'kubernetes';
const finalizer = 'networking.k8s.io/service-cidr-finalizer';
const ready = { type: 'Ready', status: 'True', reason: '', message: 'Kubernetes Service CIDR is ready' };
const waiting = {
  type: 'Ready',
  status: 'False',
  reason: 'Terminating',
  message: 'There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR',
};

/**
 * Looks after ServiceCIDRs and IPAddresses (KEP-1880): the default ServiceCIDR is there, each says whether it is ready and goes only when
 * no address needs it, Services have the IPAddresses of their addresses, and no other IPAddress of the allocator's is left.
 */
export class ServiceCidrs {
  readonly #options: ServiceCidrsOptions;
  readonly #cidrs: Following<ServiceCIDR>;
  readonly #addresses: Following<IPAddress>;
  readonly #requests: OwnRequests;
  readonly #rounds: Rounds;
  #gone: IPAddress[] = [];
  /** What there was at the start has been seen to. */
  #complete = false;

  constructor(options: ServiceCidrsOptions) {
    this.#options = options;
    this.#requests = new OwnRequests(options.pipeline);
    this.#rounds = new Rounds({ ...options, complaint: 'ServiceCIDRs and IPAddresses could not be settled', settle: () => this.#round() });
    this.#cidrs = new Following(serviceCIDRs, { ...options, onChange: () => void this.#rounds.look() });
    this.#addresses = new Following(ipAddresses, {
      ...options,
      onChange: (gone) => {
        if (gone.length === 0) return;
        this.#gone.push(...(gone as readonly IPAddress[]));
        void this.#rounds.look();
      },
    });
  }

  /** Resolves when everything is as it should be, or could not be made so at once: then it is tried again. */
  async start(): Promise<void> {
    await Promise.all([this.#cidrs.start(), this.#addresses.start()]);
    await this.#rounds.look();
  }

  async stop(): Promise<void> {
    await Promise.all([this.#cidrs.stop(), this.#addresses.stop(), this.#rounds.stop()]);
  }

  async #round(): Promise<void> {
    if (!this.#complete) await this.#make(serviceCIDRs, { metadata: { name: defaultName }, ...{ spec: { cidrs: this.#options.cidrs } } });
    for (const cidr of this.#cidrs.objects.values()) await this.#settle(cidr);
    if (!this.#complete) await this.#repair();
    this.#complete = true;
    for (let lost = this.#gone.shift(); lost !== undefined; lost = this.#gone.shift()) await this.#restore(lost);
  }

  async #settle(cidr: ServiceCIDR): Promise<void> {
    const { metadata = {} } = cidr;
    const held = metadata.finalizers?.includes(finalizer) === true;
    if (metadata.deletionTimestamp === undefined) {
      if (!held) await this.#update(cidr, '', { metadata: { ...metadata, finalizers: [...(metadata.finalizers ?? []), finalizer] } });
      await this.#report(cidr, ready);
    } else if (held) {
      if (this.#needed(cidr)) await this.#report(cidr, waiting);
      else
        await this.#update(cidr, '', { metadata: { ...metadata, finalizers: metadata.finalizers?.filter((name) => name !== finalizer) } });
    }
  }

  /** Whether an address is in this range and in no other that stays. */
  #needed(cidr: ServiceCIDR): boolean {
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
    const { lastTransitionTime, ...said } = before ?? {};
    if (jsonEqual(said, condition)) return;
    const at = before?.status === condition.status ? lastTransitionTime : formatTime(this.#options.clock.now());
    const others = (cidr.status?.conditions ?? []).filter(({ type }) => type !== 'Ready');
    await this.#update(cidr, 'status', { status: { ...cidr.status, conditions: [...others, { ...condition, lastTransitionTime: at }] } });
  }

  /** An address that lost its object while a Service has it gets it back. */
  async #restore({ metadata, spec }: IPAddress): Promise<void> {
    const ip = metadata?.name ?? '';
    if (this.#addresses.objects.has(ip) || !(await this.#used(ip, spec?.parentRef))) return;
    await this.#make(ipAddresses, addressObject(ip, spec?.parentRef ?? { name: '', resource: '' }));
  }

  /** Objects of Services that are gone go, and Services without objects get them. What was written together with its Service is right. */
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
        if (!this.#addresses.objects.has(ip)) await this.#make(ipAddresses, addressObject(ip, { resource: 'services', namespace, name }));
      }
    }
    for (const [ip, { metadata, spec }] of this.#addresses.objects) {
      if (metadata?.labels?.[managedByLabel] !== allocator || used.has(ip) || (await this.#used(ip, spec?.parentRef))) continue;
      await this.#requests
        .delete(ipAddresses, { metadata: { name: ip } }, { uid: metadata.uid ?? '' })
        .catch(unless('NotFound', 'Conflict'));
    }
  }

  /** Whether the Service that an address is said to be of has it. */
  async #used(ip: string, parent: ParentReference | undefined): Promise<boolean> {
    const { resource = '', namespace = '', name = '' } = parent ?? {};
    if (resource !== 'services' || name === '') return false;
    const service = (await this.#newest(services, namespace, name)) as Service | undefined;
    return service?.spec?.clusterIPs?.includes(ip) === true;
  }

  async #newest(resource: Resource, namespace: string, name: string): Promise<KubeObject | undefined> {
    try {
      return await this.#requests.get(resource, { metadata: { name, namespace } });
    } catch (error) {
      unless('NotFound')(error);
      return undefined;
    }
  }

  async #make(resource: Resource, object: KubeObject): Promise<void> {
    await this.#requests.create(resource, object).catch(unless('AlreadyExists'));
  }

  /** Somebody else's change comes as an event of its own. */
  async #update(object: ServiceCIDR, subresource: string, parts: object): Promise<void> {
    await this.#requests.update(serviceCIDRs, { ...object, ...parts }, subresource).catch(unless('Conflict', 'NotFound'));
  }
}

const addressObject = (ip: string, { group = '', resource, namespace = '', name }: ParentReference): KubeObject => ({
  metadata: { name: ip, labels: { [ipFamilyLabel]: familyOf(ip) ?? 'IPv4', [managedByLabel]: allocator } },
  ...{ spec: { parentRef: { group, resource, namespace, name } } },
});
