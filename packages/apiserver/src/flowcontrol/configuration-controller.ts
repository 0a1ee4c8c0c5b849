import { jsonEqual } from '@oarlock/api/json/json';
import type { Resource } from '@oarlock/api/resource';
import { flowSchemas, priorityLevelConfigurations } from '@oarlock/api/resources';
import { formatTime } from '@oarlock/api/values/time';
import type { FlowSchema, PriorityLevelConfiguration } from '@oarlock/api/types/flowcontrol-v1';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { LoopbackInformer } from '../controllers/loopback-informer.ts';
import { LoopbackClient, ignoreReasons } from '../controllers/loopback-client.ts';
import { CoalescingRunner } from '@oarlock/primitives/coalescing-runner';
import { mandatoryPriorityLevels, mandatoryFlowSchemas, suggestedPriorityLevels, suggestedFlowSchemas } from './bootstrap-configuration.ts';
import type { PriorityAndFairness } from './priority-and-fairness.ts';
import type { RequestHandler } from '../request/response.ts';

export interface FlowControlConfigurationOptions {
  readonly pipeline: RequestHandler;
  readonly fairness: PriorityAndFairness;
  readonly clock: Clock;
  readonly log: Logger;
}

const autoUpdate = 'apf.kubernetes.io/autoupdate-spec';
type ConfigurationObject = FlowSchema | PriorityLevelConfiguration;

/**
 * Makes the objects that priority and fairness begins with, keeps the mandatory ones as they have to be, hands on what is configured, and
 * says of each FlowSchema whether its level is there.
 */
export class FlowControlConfigurationController {
  readonly #options: FlowControlConfigurationOptions;
  readonly #schemas: LoopbackInformer<FlowSchema>;
  readonly #levels: LoopbackInformer<PriorityLevelConfiguration>;
  readonly #client: LoopbackClient;
  readonly #runner: CoalescingRunner;
  #suggested = false;
  #complete = false;

  constructor(options: FlowControlConfigurationOptions) {
    this.#options = options;
    this.#client = new LoopbackClient(options.pipeline);
    this.#runner = new CoalescingRunner({
      ...options,
      failureMessage: 'priority and fairness could not be configured',
      run: () => this.#reconcile(),
    });
    const following = { ...options, onChange: () => void this.#runner.trigger() };
    this.#schemas = new LoopbackInformer(flowSchemas, following);
    this.#levels = new LoopbackInformer(priorityLevelConfigurations, following);
  }

  async start(): Promise<void> {
    await Promise.all([this.#schemas.start(), this.#levels.start()]);
    await this.#runner.trigger();
    this.#options.fairness.start();
  }

  async stop(): Promise<void> {
    this.#options.fairness.stop();
    await Promise.all([this.#schemas.stop(), this.#levels.stop(), this.#runner.stop()]);
  }

  async #reconcile(): Promise<void> {
    const [schemas, levels] = [this.#schemas.objects, this.#levels.objects];
    // while the objects of a new cluster are being made, some of them would place requests worse than the built-in ones do
    this.#complete ||=
      allPresent(suggestedPriorityLevels, levels) &&
      allPresent(suggestedFlowSchemas, schemas) &&
      allPresent(mandatoryPriorityLevels, levels) &&
      allPresent(mandatoryFlowSchemas, schemas);
    if (this.#complete) this.#options.fairness.configure([...schemas.values()], [...levels.values()]);
    await Promise.all([
      ...mandatoryPriorityLevels.map((object) =>
        this.#ensureObject(priorityLevelConfigurations, object, levels.get(object.metadata?.name ?? ''), true),
      ),
      ...mandatoryFlowSchemas.map((object) => this.#ensureObject(flowSchemas, object, schemas.get(object.metadata?.name ?? ''), true)),
    ]);
    if (!this.#suggested) {
      await Promise.all([
        ...suggestedPriorityLevels.map((object) =>
          this.#ensureObject(priorityLevelConfigurations, object, levels.get(object.metadata?.name ?? ''), false),
        ),
        ...suggestedFlowSchemas.map((object) => this.#ensureObject(flowSchemas, object, schemas.get(object.metadata?.name ?? ''), false)),
      ]);
      this.#suggested = true;
    }
    if (this.#complete) for (const schema of schemas.values()) await this.#report(schema, levels);
  }

  /** What an administrator has taken over stays, unless nothing would work without it. */
  async #ensureObject(
    resource: Resource,
    wanted: ConfigurationObject,
    present: ConfigurationObject | undefined,
    mandatory: boolean,
  ): Promise<void> {
    if (present === undefined) {
      await this.#client.create(resource, wanted).catch(ignoreReasons('AlreadyExists'));
      return;
    }
    const own = mandatory || present.metadata?.annotations?.[autoUpdate] === 'true';
    if (!own || covers(present.spec, wanted.spec)) return;
    await this.#client.update(resource, { ...present, ...{ spec: wanted.spec } }).catch(ignoreReasons('Conflict', 'NotFound'));
  }

  async #report(schema: FlowSchema, levels: ReadonlyMap<string, PriorityLevelConfiguration>): Promise<void> {
    const level = schema.spec?.priorityLevelConfiguration?.name ?? '';
    const there = levels.has(level);
    const condition = {
      type: 'Dangling',
      status: there ? 'False' : 'True',
      reason: there ? 'Found' : 'NotFound',
      message: `This FlowSchema references the PriorityLevelConfiguration object named ${JSON.stringify(level)} ${there ? 'and it exists' : 'but there is no such object'}`,
    };
    const before = schema.status?.conditions?.find(({ type }) => type === condition.type);
    const { lastTransitionTime, ...said } = before ?? {};
    if (jsonEqual(said, condition)) return;
    const at = before?.status === condition.status ? lastTransitionTime : formatTime(this.#options.clock.now());
    const others = (schema.status?.conditions ?? []).filter(({ type }) => type !== condition.type);
    const body = { ...schema, ...{ status: { conditions: [...others, { ...condition, lastTransitionTime: at }] } } };
    await this.#client.update(flowSchemas, body, 'status').catch(ignoreReasons('Conflict', 'NotFound'));
  }
}

const allPresent = (wanted: readonly ConfigurationObject[], present: ReadonlyMap<string, unknown>): boolean =>
  wanted.every(({ metadata }) => present.has(metadata?.name ?? ''));

/** Whether everything that is wanted stands there; what defaulting adds does not count. */
function covers(present: unknown, wanted: unknown): boolean {
  if (Array.isArray(wanted))
    return Array.isArray(present) && present.length === wanted.length && wanted.every((item, i) => covers(present[i], item));
  if (typeof wanted === 'object' && wanted !== null)
    return (
      typeof present === 'object' &&
      present !== null &&
      Object.entries(wanted).every(([key, value]) => covers((present as Readonly<Record<string, unknown>>)[key], value))
    );
  return present === wanted;
}
