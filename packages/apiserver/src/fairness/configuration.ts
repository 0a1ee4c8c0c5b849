import { jsonEqual } from '@oarlock/api/json';
import type { Resource } from '@oarlock/api/resource';
import { flowSchemas, priorityLevelConfigurations } from '@oarlock/api/resources';
import { formatTime } from '@oarlock/api/time';
import type { FlowSchema, PriorityLevelConfiguration } from '@oarlock/api/types/flowcontrol-v1';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import { Following } from '../following.ts';
import { OwnRequests, unless } from '../own-requests.ts';
import type { Pipeline } from '../pipeline.ts';
import { Rounds } from '../rounds.ts';
import { mandatoryLevels, mandatorySchemas, suggestedLevels, suggestedSchemas } from './defaults.ts';
import type { PriorityAndFairness } from './priority-and-fairness.ts';

export interface FairnessConfigurationOptions {
  readonly pipeline: Pick<Pipeline, 'handle'>;
  readonly fairness: PriorityAndFairness;
  readonly clock: Clock;
  readonly log: Logger;
}

const autoUpdate = 'apf.kubernetes.io/autoupdate-spec';
type Configured = FlowSchema | PriorityLevelConfiguration;

/**
 * Makes the objects that priority and fairness begins with, keeps the mandatory ones as they have to be, hands on what is configured, and
 * says of each FlowSchema whether its level is there.
 */
export class FairnessConfiguration {
  readonly #options: FairnessConfigurationOptions;
  readonly #schemas: Following<FlowSchema>;
  readonly #levels: Following<PriorityLevelConfiguration>;
  readonly #requests: OwnRequests;
  readonly #rounds: Rounds;
  #suggested = false;
  #complete = false;

  constructor(options: FairnessConfigurationOptions) {
    this.#options = options;
    this.#requests = new OwnRequests(options.pipeline);
    this.#rounds = new Rounds({ ...options, complaint: 'priority and fairness could not be configured', settle: () => this.#settle() });
    const following = { ...options, onChange: () => void this.#rounds.look() };
    this.#schemas = new Following(flowSchemas, following);
    this.#levels = new Following(priorityLevelConfigurations, following);
  }

  async start(): Promise<void> {
    await Promise.all([this.#schemas.start(), this.#levels.start()]);
    await this.#rounds.look();
    this.#options.fairness.start();
  }

  async stop(): Promise<void> {
    this.#options.fairness.stop();
    await Promise.all([this.#schemas.stop(), this.#levels.stop(), this.#rounds.stop()]);
  }

  async #settle(): Promise<void> {
    const [schemas, levels] = [this.#schemas.objects, this.#levels.objects];
    // while the objects of a new cluster are being made, some of them would place requests worse than the built-in ones do
    this.#complete ||=
      all(suggestedLevels, levels) && all(suggestedSchemas, schemas) && all(mandatoryLevels, levels) && all(mandatorySchemas, schemas);
    if (this.#complete) this.#options.fairness.configure([...schemas.values()], [...levels.values()]);
    await Promise.all([
      ...mandatoryLevels.map((object) => this.#keep(priorityLevelConfigurations, object, levels.get(object.metadata?.name ?? ''), true)),
      ...mandatorySchemas.map((object) => this.#keep(flowSchemas, object, schemas.get(object.metadata?.name ?? ''), true)),
    ]);
    if (!this.#suggested) {
      await Promise.all([
        ...suggestedLevels.map((object) => this.#keep(priorityLevelConfigurations, object, levels.get(object.metadata?.name ?? ''), false)),
        ...suggestedSchemas.map((object) => this.#keep(flowSchemas, object, schemas.get(object.metadata?.name ?? ''), false)),
      ]);
      this.#suggested = true;
    }
    if (this.#complete) for (const schema of schemas.values()) await this.#report(schema, levels);
  }

  /** What an administrator has taken over stays, unless nothing would work without it. */
  async #keep(resource: Resource, wanted: Configured, present: Configured | undefined, mandatory: boolean): Promise<void> {
    if (present === undefined) {
      await this.#requests.create(resource, wanted).catch(unless('AlreadyExists'));
      return;
    }
    const own = mandatory || present.metadata?.annotations?.[autoUpdate] === 'true';
    if (!own || covers(present.spec, wanted.spec)) return;
    await this.#requests.update(resource, { ...present, ...{ spec: wanted.spec } }).catch(unless('Conflict', 'NotFound'));
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
    await this.#requests.update(flowSchemas, body, 'status').catch(unless('Conflict', 'NotFound'));
  }
}

const all = (wanted: readonly Configured[], present: ReadonlyMap<string, unknown>): boolean =>
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
