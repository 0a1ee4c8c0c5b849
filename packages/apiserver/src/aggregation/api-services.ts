import { jsonEqual } from '@oarlock/api/json';
import { groups } from '@oarlock/api/kinds';
import { apiServices, configMaps, customResourceDefinitions } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { APIServiceSpec } from '@oarlock/api/types/apiregistration-v1';
import type { CustomResourceDefinition } from '@oarlock/api/types/apiextensions-v1';
import type { ConfigMap } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import { Following } from '../following.ts';
import { OwnRequests, unless } from '../own-requests.ts';
import type { Pipeline } from '../pipeline.ts';
import { Rounds } from '../rounds.ts';
import type { Aggregator } from './aggregator.ts';
import { authenticationData } from './front-proxy.ts';

export interface ApiServicesOptions {
  readonly pipeline: Pick<Pipeline, 'handle' | 'served'>;
  readonly aggregator: Pick<Aggregator, 'services' | 'onServices'>;
  readonly caBundle: string;
  readonly clock: Clock;
  readonly log: Logger;
}

interface Wanted {
  readonly spec: APIServiceSpec;
  readonly label: 'onstart' | 'true';
}

const managed = 'kube-aggregator.kubernetes.io/automanaged';
const customGroupPriority = 1_000;
const customVersionPriority = 100;
const configMapName = { name: 'extension-apiserver-authentication', namespace: 'kube-system' };
const known = new Map(groups.map(({ name }, index) => [name, 18_000 - index * 100]));

/**
 * Keeps an APIService for every group and version that this server has itself, custom resources among them, and the ConfigMap by which
 * extension API servers know this one. Those that administrators make are left alone.
 */
export class ApiServices {
  readonly #options: ApiServicesOptions;
  readonly #definitions: Following<CustomResourceDefinition>;
  readonly #requests: OwnRequests;
  readonly #rounds: Rounds;
  #published = false;

  constructor(options: ApiServicesOptions) {
    this.#options = options;
    this.#requests = new OwnRequests(options.pipeline);
    this.#rounds = new Rounds({ ...options, complaint: 'APIServices could not be settled', settle: () => this.#settle() });
    this.#definitions = new Following(customResourceDefinitions, { ...options, onChange: () => void this.#rounds.look() });
  }

  async start(): Promise<void> {
    this.#options.aggregator.onServices(() => void this.#rounds.look());
    await this.#definitions.start();
    await this.#rounds.look();
  }

  async stop(): Promise<void> {
    await Promise.all([this.#definitions.stop(), this.#rounds.stop()]);
  }

  async #settle(): Promise<void> {
    if (!this.#published) await this.#publish();
    this.#published = true;
    const { aggregator } = this.#options;
    const wanted = this.#wanted();
    await Promise.all([...wanted].map(([name, service]) => this.#ensure(name, service)));
    for (const [name, { metadata, spec }] of aggregator.services)
      if (metadata?.labels?.[managed] !== undefined && spec?.service === undefined && !wanted.has(name))
        await this.#requests.delete(apiServices, { metadata: { name } }).catch(unless('NotFound'));
  }

  async #ensure(name: string, { spec, label }: Wanted): Promise<void> {
    const present = this.#options.aggregator.services.get(name);
    if (present === undefined)
      await this.#requests
        .create(apiServices, { metadata: { name, labels: { [managed]: label } }, ...{ spec } })
        .catch(unless('AlreadyExists'));
    else if (present.metadata?.labels?.[managed] !== undefined && !jsonEqual(present.spec, spec))
      await this.#requests.update(apiServices, { ...present, ...{ spec } }).catch(unless('Conflict', 'NotFound'));
  }

  #wanted(): ReadonlyMap<string, Wanted> {
    const wanted = new Map<string, Wanted>();
    const add = (group: string, version: string, groupPriorityMinimum: number, versionPriority: number, label: 'onstart' | 'true') => {
      const spec = { ...(group !== '' && { group }), version, groupPriorityMinimum, versionPriority };
      if (!wanted.has(`${version}.${group}`)) wanted.set(`${version}.${group}`, { spec, label });
    };
    for (const { group, version } of this.#options.pipeline.served()) {
      const priority = known.get(group);
      if (priority !== undefined) add(group, version, priority, versionPriority(group, version), 'onstart');
    }
    for (const { metadata, spec, status } of this.#definitions.objects.values()) {
      if (metadata?.deletionTimestamp !== undefined) continue;
      if (status?.conditions?.some(({ type, status: is }) => type === 'Established' && is === 'True') !== true) continue;
      for (const { name, served } of spec?.versions ?? [])
        if (served === true) add(spec.group, name, customGroupPriority, customVersionPriority, 'true');
    }
    return wanted;
  }

  async #publish(): Promise<void> {
    const data = authenticationData(this.#options.caBundle);
    for (;;) {
      try {
        const present = (await this.#requests.get(configMaps, { metadata: configMapName })) as ConfigMap | undefined;
        if (jsonEqual(present?.data, data)) return;
        await this.#requests.update(configMaps, { ...present, ...{ data } });
        return;
      } catch (error) {
        if (isStatus(error, 'Conflict')) continue;
        if (!isStatus(error, 'NotFound')) throw error;
      }
      await this.#requests.create(configMaps, { metadata: configMapName, ...{ data } }).catch(unless('AlreadyExists'));
    }
  }
}

/** The more preferred, the higher; one that is finished is never below 15. */
function versionPriority(group: string, version: string): number {
  const versions = groups.find(({ name }) => name === group)?.versions ?? [];
  const behind = versions.length - 1 - versions.indexOf(version);
  return group === '' ? 1 : (/alpha|beta/.test(version) ? 1 : 15) + behind;
}
