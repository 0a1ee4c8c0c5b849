import { jsonEqual } from '@oarlock/api/json/json';
import type { Resource } from '@oarlock/api/resource';
import { flowSchemas, priorityLevelConfigurations } from '@oarlock/api/resources';
import { formatTime } from '@oarlock/api/values/time';
import type { FlowSchema, PriorityLevelConfiguration } from '@oarlock/api/types/flowcontrol-v1';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { LoopbackInformer } from '../controllers/loopback-informer.ts';
import { LoopbackClient, ignoreReasons } from '../controllers/loopback-client.ts';
import { CoalescingRunner } from '@oarlock/primitives/concurrency/coalescing-runner';
import { deferred } from '@oarlock/primitives/concurrency/deferred';
import { mandatoryPriorityLevels, mandatoryFlowSchemas, suggestedPriorityLevels, suggestedFlowSchemas } from './bootstrap-configuration.ts';
import type { PriorityAndFairness } from './priority-and-fairness.ts';
import type { RequestHandler } from '../endpoints/request/response.ts';

export interface FlowControlConfigurationOptions {
  readonly pipeline: RequestHandler;
  readonly fairness: PriorityAndFairness;
  readonly clock: Clock;
  readonly log: Logger;
}

const autoUpdate = 'apf.kubernetes.io/autoupdate-spec';
type ConfigurationObject = FlowSchema | PriorityLevelConfiguration;

/**
 * Creates the bootstrap configuration of API Priority and Fairness, restores mandatory objects, applies the configuration, and sets the
 * condition `Dangling` of each FlowSchema, which shows whether its priority level is missing (apf_controller upstream).
 */
export class FlowControlConfigurationController {
  readonly #options: FlowControlConfigurationOptions;
  readonly #schemas: LoopbackInformer<FlowSchema>;
  readonly #levels: LoopbackInformer<PriorityLevelConfiguration>;
  readonly #client: LoopbackClient;
  readonly #runner: CoalescingRunner;
  readonly #configured = deferred();
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

  /** Resolves when all bootstrap objects exist. */
  whenBootstrapped(): Promise<void> {
    return this.#runner.whenSucceeded();
  }

  /** Resolves when the stored configuration classifies requests. */
  whenConfigured(): Promise<void> {
    return this.#configured.promise;
  }

  async stop(): Promise<void> {
    this.#options.fairness.stop();
    await Promise.all([this.#schemas.stop(), this.#levels.stop(), this.#runner.stop()]);
  }

  async #reconcile(): Promise<void> {
    const [schemas, levels] = [this.#schemas.objects, this.#levels.objects];
    // until all bootstrap objects of a new cluster exist, the built-in configuration classifies requests better than a part of them
    this.#complete ||=
      allPresent(suggestedPriorityLevels, levels) &&
      allPresent(suggestedFlowSchemas, schemas) &&
      allPresent(mandatoryPriorityLevels, levels) &&
      allPresent(mandatoryFlowSchemas, schemas);
    if (this.#complete) {
      this.#options.fairness.configure([...schemas.values()], [...levels.values()]);
      this.#configured.resolve();
    }
    await Promise.all([
      ...mandatoryPriorityLevels.map((object) =>
        this.#ensureObject(priorityLevelConfigurations, {
          bootstrap: object,
          current: levels.get(object.metadata?.name ?? ''),
          mandatory: true,
        }),
      ),
      ...mandatoryFlowSchemas.map((object) =>
        this.#ensureObject(flowSchemas, { bootstrap: object, current: schemas.get(object.metadata?.name ?? ''), mandatory: true }),
      ),
    ]);
    if (!this.#suggested) {
      await Promise.all([
        ...suggestedPriorityLevels.map((object) =>
          this.#ensureObject(priorityLevelConfigurations, {
            bootstrap: object,
            current: levels.get(object.metadata?.name ?? ''),
            mandatory: false,
          }),
        ),
        ...suggestedFlowSchemas.map((object) =>
          this.#ensureObject(flowSchemas, { bootstrap: object, current: schemas.get(object.metadata?.name ?? ''), mandatory: false }),
        ),
      ]);
      await Promise.all([
        this.#removeUnwanted(flowSchemas, schemas, [...mandatoryFlowSchemas, ...suggestedFlowSchemas]),
        this.#removeUnwanted(priorityLevelConfigurations, levels, [...mandatoryPriorityLevels, ...suggestedPriorityLevels]),
      ]);
      this.#suggested = true;
    }
    if (this.#complete) for (const schema of schemas.values()) await this.#report(schema, levels);
  }

  /**
   * Creates or restores a bootstrap object. A suggested object without the autoupdate annotation is not changed, because an administrator
   * has taken it over.
   */
  async #ensureObject(
    resource: Resource,
    {
      bootstrap,
      current,
      mandatory,
    }: { readonly bootstrap: ConfigurationObject; readonly current: ConfigurationObject | undefined; readonly mandatory: boolean },
  ): Promise<void> {
    if (current === undefined) {
      await this.#client.create(resource, bootstrap).catch(ignoreReasons('AlreadyExists'));
      return;
    }
    const own = mandatory || current.metadata?.annotations?.[autoUpdate] === 'true';
    if (!own || covers(current.spec, bootstrap.spec)) return;
    await this.#client.update(resource, { ...current, ...{ spec: bootstrap.spec } }).catch(ignoreReasons('Conflict', 'NotFound'));
  }

  /** Deletes the objects with the autoupdate annotation that are no longer part of the configuration: an earlier version created them. */
  async #removeUnwanted(
    resource: Resource,
    existing: ReadonlyMap<string, ConfigurationObject>,
    wanted: readonly ConfigurationObject[],
  ): Promise<void> {
    const names = new Set(wanted.map(({ metadata }) => metadata?.name));
    for (const [name, object] of existing) {
      const { metadata } = object;
      if (names.has(name) || metadata?.annotations?.[autoUpdate] !== 'true') continue;
      await this.#client.delete(resource, object, { uid: metadata.uid ?? '' }).catch(ignoreReasons('Conflict', 'NotFound'));
    }
  }

  async #report(schema: FlowSchema, levels: ReadonlyMap<string, PriorityLevelConfiguration>): Promise<void> {
    const level = schema.spec?.priorityLevelConfiguration?.name ?? '';
    const exists = levels.has(level);
    const condition = {
      type: 'Dangling',
      status: exists ? 'False' : 'True',
      reason: exists ? 'Found' : 'NotFound',
      message: `This FlowSchema references the PriorityLevelConfiguration object named ${JSON.stringify(level)} ${exists ? 'and it exists' : 'but there is no such object'}`,
    };
    const before = schema.status?.conditions?.find(({ type }) => type === condition.type);
    const { lastTransitionTime, ...reported } = before ?? {};
    if (jsonEqual(reported, condition)) return;
    const at = before?.status === condition.status ? lastTransitionTime : formatTime(this.#options.clock.now());
    const others = (schema.status?.conditions ?? []).filter(({ type }) => type !== condition.type);
    const body = { ...schema, ...{ status: { conditions: [...others, { ...condition, lastTransitionTime: at }] } } };
    await this.#client.update(flowSchemas, body, 'status').catch(ignoreReasons('Conflict', 'NotFound'));
  }
}

const allPresent = (objects: readonly ConfigurationObject[], existing: ReadonlyMap<string, unknown>): boolean =>
  objects.every(({ metadata }) => existing.has(metadata?.name ?? ''));

/**
 * Returns true if `actual` contains all fields of `expected` with equal values. `actual` may contain more fields, because defaults were
 * applied.
 */
function covers(actual: unknown, expected: unknown): boolean {
  if (Array.isArray(expected))
    return Array.isArray(actual) && actual.length === expected.length && expected.every((item, i) => covers(actual[i], item));
  if (typeof expected === 'object' && expected !== null)
    return (
      typeof actual === 'object' &&
      actual !== null &&
      Object.entries(expected).every(([key, value]) => covers((actual as Readonly<Record<string, unknown>>)[key], value))
    );
  return actual === expected;
}
