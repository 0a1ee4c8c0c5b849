import { jsonEqual } from '@oarlock/api/json/json';
import { groups } from '@oarlock/api/kinds';
import { apiServices, customResourceDefinitions } from '@oarlock/api/resources';
import type { APIServiceSpec } from '@oarlock/api/types/apiregistration-v1';
import type { CustomResourceDefinition } from '@oarlock/api/types/apiextensions-v1';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { LoopbackInformer } from '../controllers/loopback-informer.ts';
import { LoopbackClient, ignoreReasons } from '../controllers/loopback-client.ts';
import type { Pipeline } from '../pipeline/pipeline.ts';
import { CoalescingRunner } from '@oarlock/primitives/concurrency/coalescing-runner';
import type { Aggregator } from './aggregator.ts';
import type { RequestHandler } from '../endpoints/request/response.ts';

export interface ApiServiceControllerOptions {
  readonly pipeline: RequestHandler & Pick<Pipeline, 'servedKinds'>;
  readonly aggregator: Pick<Aggregator, 'services' | 'addServicesListener'>;
  readonly clock: Clock;
  readonly log: Logger;
}

interface DesiredApiService {
  readonly spec: APIServiceSpec;
  readonly label: 'onstart' | 'true';
}

const autoManagedLabel = 'kube-aggregator.kubernetes.io/automanaged';
const customGroupPriority = 1_000;
const customVersionPriority = 100;
const groupPriorities = new Map(groups.map(({ name }, index) => [name, 18_000 - index * 100]));

/**
 * Creates, updates and deletes the APIServices of the group versions that this server serves itself, including those of custom resources
 * (autoregister controller upstream). APIServices that administrators created are not changed.
 */
export class ApiServiceController {
  readonly #options: ApiServiceControllerOptions;
  readonly #definitions: LoopbackInformer<CustomResourceDefinition>;
  readonly #client: LoopbackClient;
  readonly #runner: CoalescingRunner;
  /** True when the APIServices that were present at the start have been compared with the groups that this server serves. */
  #hasCompared = false;

  constructor(options: ApiServiceControllerOptions) {
    this.#options = options;
    this.#client = new LoopbackClient(options.pipeline);
    this.#runner = new CoalescingRunner({ ...options, failureMessage: 'reconciling APIServices failed', run: () => this.#reconcile() });
    this.#definitions = new LoopbackInformer(customResourceDefinitions, { ...options, onChange: () => void this.#runner.trigger() });
  }

  async start(): Promise<void> {
    this.#options.aggregator.addServicesListener(() => void this.#runner.trigger());
    await this.#definitions.start();
    await this.#runner.trigger();
  }

  /** Resolves when the APIServices of all local groups exist. */
  whenRegistered(): Promise<void> {
    return this.#runner.whenSucceeded();
  }

  async stop(): Promise<void> {
    await Promise.all([this.#definitions.stop(), this.#runner.stop()]);
  }

  async #reconcile(): Promise<void> {
    const { aggregator } = this.#options;
    const desired = this.#desiredApiServices();
    await Promise.all([...desired].map(([name, service]) => this.#ensureApiService(name, service)));
    for (const [name, { metadata, spec }] of aggregator.services) {
      const label = metadata?.labels?.[autoManagedLabel];
      // as upstream only once: another server of the cluster may serve the group version, and creates its APIService again
      const isOfOtherServer = label === 'onstart' && this.#hasCompared;
      if (label !== undefined && !isOfOtherServer && spec?.service === undefined && !desired.has(name))
        await this.#client.delete(apiServices, { metadata: { name } }).catch(ignoreReasons('NotFound'));
    }
    this.#hasCompared = true;
  }

  async #ensureApiService(name: string, { spec, label }: DesiredApiService): Promise<void> {
    const present = this.#options.aggregator.services.get(name);
    if (present === undefined)
      await this.#client
        .create(apiServices, { metadata: { name, labels: { [autoManagedLabel]: label } }, ...{ spec } })
        .catch(ignoreReasons('AlreadyExists'));
    else if (present.metadata?.labels?.[autoManagedLabel] !== undefined && !jsonEqual(present.spec, spec))
      await this.#client.update(apiServices, { ...present, ...{ spec } }).catch(ignoreReasons('Conflict', 'NotFound'));
  }

  #desiredApiServices(): ReadonlyMap<string, DesiredApiService> {
    const desired = new Map<string, DesiredApiService>();
    const add = ({ group, ...spec }: APIServiceSpec & { readonly group: string }, label: DesiredApiService['label']) => {
      const name = `${spec.version}.${group}`;
      if (!desired.has(name)) desired.set(name, { spec: { ...(group !== '' && { group }), ...spec }, label });
    };
    for (const { group, version } of this.#options.pipeline.servedKinds()) {
      const priority = groupPriorities.get(group);
      if (priority !== undefined)
        add({ group, version, groupPriorityMinimum: priority, versionPriority: versionPriority(group, version) }, 'onstart');
    }
    for (const { metadata, spec, status } of this.#definitions.objects.values()) {
      if (metadata?.deletionTimestamp !== undefined) continue;
      if (status?.conditions?.some(({ type, status: is }) => type === 'Established' && is === 'True') !== true) continue;
      for (const { name, served } of spec?.versions ?? [])
        if (served === true)
          add(
            { group: spec.group, version: name, groupPriorityMinimum: customGroupPriority, versionPriority: customVersionPriority },
            'true',
          );
    }
    return desired;
  }
}

/** Returns the versionPriority of an APIService: higher for preferred versions, at least 15 for stable versions. */
function versionPriority(group: string, version: string): number {
  const versions = groups.find(({ name }) => name === group)?.versions ?? [];
  const lessPreferred = versions.length - 1 - versions.indexOf(version);
  return group === '' ? 1 : (/alpha|beta/.test(version) ? 1 : 15) + lessPreferred;
}
