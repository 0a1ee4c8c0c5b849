import { jsonEqual } from '@oarlock/api/json';
import { groups } from '@oarlock/api/kinds';
import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { apiServices, configMaps, customResourceDefinitions } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { APIServiceSpec } from '@oarlock/api/types/apiregistration-v1';
import type { CustomResourceDefinition } from '@oarlock/api/types/apiextensions-v1';
import type { ConfigMap } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { ApiRequest } from '@oarlock/spi/loopback';
import { apiserverIdentity } from '../bootstrap.ts';
import { Following } from '../following.ts';
import type { Pipeline } from '../pipeline.ts';
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
const againMs = 5_000;
const known = new Map(groups.map(({ name }, index) => [name, 18_000 - index * 100]));

/**
 * Keeps an APIService for every group and version that this server has itself, custom resources among them, and the ConfigMap by which
 * extension API servers know this one. Those that administrators make are left alone.
 */
export class ApiServices {
  readonly #options: ApiServicesOptions;
  readonly #definitions: Following<CustomResourceDefinition>;
  #published = false;
  #pending = false;
  #stopped = false;
  #running: Promise<void> | undefined;

  constructor(options: ApiServicesOptions) {
    this.#options = options;
    this.#definitions = new Following(customResourceDefinitions, { ...options, onChange: () => this.#look() });
  }

  async start(): Promise<void> {
    this.#options.aggregator.onServices(() => this.#look());
    await this.#definitions.start();
    this.#look();
    await this.#running;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#definitions.stop();
    await this.#running;
  }

  #look(): void {
    this.#pending = true;
    this.#running ??= this.#rounds().finally(() => {
      this.#running = undefined;
      if (this.#pending && !this.#stopped) this.#look();
    });
  }

  async #rounds(): Promise<void> {
    const { clock, log } = this.#options;
    while (this.#pending && !this.#stopped) {
      this.#pending = false;
      try {
        if (!this.#published) await this.#publish();
        this.#published = true;
        await this.#settle();
      } catch (error) {
        log.warn({ error: String(error) }, 'APIServices could not be settled');
        clock.after(againMs, () => {
          if (!this.#stopped) this.#look();
        });
      }
    }
  }

  async #settle(): Promise<void> {
    const { aggregator } = this.#options;
    const wanted = this.#wanted();
    await Promise.all([...wanted].map(([name, service]) => this.#ensure(name, service)));
    for (const [name, { metadata, spec }] of aggregator.services)
      if (metadata?.labels?.[managed] !== undefined && spec?.service === undefined && !wanted.has(name))
        await this.#call('delete', apiServices, { metadata: { name } }).catch(pass('NotFound'));
  }

  async #ensure(name: string, { spec, label }: Wanted): Promise<void> {
    const present = this.#options.aggregator.services.get(name);
    if (present === undefined)
      await this.#call('create', apiServices, { metadata: { name, labels: { [managed]: label } }, ...{ spec } }).catch(
        pass('AlreadyExists'),
      );
    else if (present.metadata?.labels?.[managed] !== undefined && !jsonEqual(present.spec, spec))
      await this.#call('update', apiServices, { ...present, ...{ spec } }).catch(pass('Conflict', 'NotFound'));
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
        const present = (await this.#call('get', configMaps, { metadata: configMapName })) as ConfigMap | undefined;
        if (jsonEqual(present?.data, data)) return;
        await this.#call('update', configMaps, { ...present, ...{ data } });
        return;
      } catch (error) {
        if (isStatus(error, 'Conflict')) continue;
        if (!isStatus(error, 'NotFound')) throw error;
      }
      await this.#call('create', configMaps, { metadata: configMapName, ...{ data } }).catch(pass('AlreadyExists'));
    }
  }

  async #call(verb: ApiRequest['verb'], resource: Resource, object: KubeObject): Promise<KubeObject | undefined> {
    const { name = '', namespace = '' } = object.metadata ?? {};
    const response = await this.#options.pipeline.handle({
      verb,
      resource,
      subresource: '',
      namespace,
      name: verb === 'create' ? '' : name,
      query: {},
      identity: apiserverIdentity,
      ...((verb === 'create' || verb === 'update') && { body: object }),
    });
    return response.kind === 'object' ? response.item.object : undefined;
  }
}

/** The more preferred, the higher; one that is finished is never below 15. */
function versionPriority(group: string, version: string): number {
  const versions = groups.find(({ name }) => name === group)?.versions ?? [];
  const behind = versions.length - 1 - versions.indexOf(version);
  return group === '' ? 1 : (/alpha|beta/.test(version) ? 1 : 15) + behind;
}

const pass =
  (...reasons: readonly NonNullable<Parameters<typeof isStatus>[1]>[]) =>
  (error: unknown): undefined => {
    if (!isStatus(error, ...reasons)) throw error;
  };
