import { deepFreeze, type KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import {
  reaches,
  type AdmissionPlugin,
  type AdmissionRequest,
  type MutationRound,
  type Operation,
  type Versions,
} from '@oarlock/spi/admission';
import type { Clock } from '@oarlock/kernel/clock';
import { changed, ended } from './admission-answer.ts';
import type { AdmissionMetrics, Timed } from './admission-metrics.ts';
import { refuse } from './admission-refusal.ts';
import type { Names } from './authorization.ts';
import type { Call } from './call.ts';

/** What a request asks to be admitted: the parts of `AdmissionRequest` that the call itself does not say. */
export interface Admitted {
  readonly operation: Operation;
  readonly resource: Resource;
  readonly object: KubeObject | undefined;
  readonly old: KubeObject | undefined;
  readonly options: Readonly<Record<string, unknown>>;
  /** Where the name is not that of the request. */
  readonly name?: string;
}

/** What measures admission, and by which clock: milliseconds that never go back. */
export interface AdmissionTimes {
  readonly metrics: AdmissionMetrics;
  readonly clock: Pick<Clock, 'monotonic'>;
}

type VersionsOf = (resource: Resource) => Versions | undefined;

interface Place {
  readonly plugin: AdmissionPlugin;
  /** Of its spans. */
  readonly step: string;
  readonly admitted: Timed | undefined;
  readonly judged: Timed | undefined;
}
interface Stages {
  readonly mutate: readonly Place[];
  readonly validate: readonly Place[];
}
type Mutated = Admitted & { readonly object: KubeObject };

const mutating = Object.freeze({ 'oarlock.phase': 'mutate' });
const validating = Object.freeze({ 'oarlock.phase': 'validate' });

/**
 * The admission plugins, in order; which of them a request reaches is looked up, not asked. Most answer at once: only who does not is
 * waited for.
 */
export class AdmissionChain {
  readonly #places: readonly Place[];
  readonly #stages = new WeakMap<Resource, Map<string, Stages>>();
  readonly #versions: VersionsOf;
  readonly #times: AdmissionTimes | undefined;
  readonly #admitted: Timed | undefined;
  readonly #judged: Timed | undefined;

  constructor(plugins: readonly AdmissionPlugin[], names: Names = [], versions: VersionsOf = () => undefined, times?: AdmissionTimes) {
    this.#versions = versions;
    this.#times = times;
    this.#admitted = times?.metrics.step('admit');
    this.#judged = times?.metrics.step('validate');
    this.#places = plugins.map((plugin, i) => {
      const name = names[i] ?? `#${i}`;
      return {
        plugin,
        step: `admission ${name}`,
        admitted: plugin.mutate && times?.metrics.controller(name, 'admit'),
        judged: plugin.validate && times?.metrics.controller(name, 'validate'),
      };
    });
  }

  #now(): number {
    return this.#times?.clock.monotonic() ?? 0;
  }

  mutates(operation: Operation, resource: Resource, subresource: string): boolean {
    for (const { plugin } of this.#of(operation, resource, subresource).mutate)
      if (plugin.idle?.(operation, resource, subresource) !== true) return true;
    return false;
  }

  /** The object to go on with; the same one when nobody changed it. @throws StatusError as the first refusal says */
  mutate(call: Call, admitted: Mutated): KubeObject | Promise<KubeObject> {
    const places = this.#busy('mutate', call, admitted);
    if (places.length === 0) return admitted.object;
    let again = false;
    const memory = new Map<object, unknown>();
    const reinvoke = () => {
      again = true;
    };
    const once = (object: KubeObject) =>
      again ? this.#round(call, { ...admitted, object }, places, { again: true, reinvoke, memory }) : object;
    return this.#whole(this.#admitted, admitted.operation, () => {
      const object = this.#round(call, admitted, places, { again: false, reinvoke, memory });
      return object instanceof Promise ? object.then(once) : once(object);
    });
  }

  /** @throws StatusError as the first refusal says */
  validate(call: Call, admitted: Admitted): void | Promise<void> {
    const places = this.#busy('validate', call, admitted);
    if (places.length === 0) return undefined;
    const { object } = admitted;
    return this.#whole(this.#judged, admitted.operation, () =>
      this.#judge(call, admitted, places, this.#request(call, admitted, object && deepFreeze(object))),
    );
  }

  /** Runs a stage, and says how long it took. */
  #whole<T>(step: Timed | undefined, operation: Operation, run: () => T | Promise<T>): T | Promise<T> {
    if (step === undefined) return run();
    const began = this.#now();
    const ends = (rejected: boolean) => step(operation, rejected, (this.#now() - began) / 1000);
    try {
      const result = run();
      if (result instanceof Promise)
        return result.then(
          (value) => {
            ends(false);
            return value;
          },
          (error: unknown) => {
            ends(true);
            throw error;
          },
        );
      ends(false);
      return result;
    } catch (error) {
      ends(true);
      throw error;
    }
  }

  #request(
    call: Call,
    { operation, resource, old, options, name }: Admitted,
    object?: KubeObject,
    round?: MutationRound,
  ): AdmissionRequest {
    const { subresource, namespace, identity, name: requested } = call.request;
    return {
      operation,
      resource,
      subresource,
      namespace,
      name: name ?? (requested === '' ? (object?.metadata?.name ?? '') : requested),
      object,
      old,
      options,
      identity,
      dryRun: call.dryRun,
      warn: (message) => call.warn(message),
      annotate: (key, value, level) => call.annotate(key, value, level),
      versions: () => this.#versions(resource),
      ...(call.cause && { cause: call.cause }),
      ...(round && { round }),
    };
  }

  /** Asks the plugins from `from` on. */
  #round(call: Call, admitted: Mutated, places: readonly Place[], round: MutationRound, from = 0): KubeObject | Promise<KubeObject> {
    let { object } = admitted;
    let asked: AdmissionRequest | undefined;
    let began = this.#now();
    for (let at = from; at < places.length; at++) {
      const { plugin, step, admitted: timed } = places[at] as Place;
      const span = call.child(step, mutating);
      const before = object;
      try {
        asked ??= this.#request(call, admitted, deepFreeze(object), round);
        const answer = plugin.mutate?.(asked);
        if (answer instanceof Promise) {
          const late = () => ended(answer, span, (said) => changed(before, said, call, admitted, span));
          return this.#later(timed, began, admitted.operation, late).then((next) =>
            this.#round(call, { ...admitted, object: next }, places, round, at + 1),
          );
        }
        object = changed(before, answer, call, admitted, span);
      } catch (error) {
        span?.end();
        timed?.(admitted.operation, true, (this.#now() - began) / 1000);
        throw error;
      }
      span?.end();
      began = this.#passed(timed, began, admitted.operation);
      if (object !== before) asked = undefined;
    }
    return object;
  }

  #judge(call: Call, admitted: Admitted, places: readonly Place[], asked: AdmissionRequest, from = 0): Promise<void> | undefined {
    let began = this.#now();
    for (let at = from; at < places.length; at++) {
      const { plugin, step, judged: timed } = places[at] as Place;
      const span = call.child(step, validating);
      try {
        const verdict = plugin.validate?.(asked);
        if (verdict instanceof Promise) {
          const late = () => ended(verdict, span, (said) => refuse(said, admitted, call));
          return this.#later(timed, began, admitted.operation, late).then(() => this.#judge(call, admitted, places, asked, at + 1));
        }
        if (verdict !== undefined) refuse(verdict, admitted, call);
      } catch (error) {
        span?.end();
        timed?.(admitted.operation, true, (this.#now() - began) / 1000);
        throw error;
      }
      span?.end();
      began = this.#passed(timed, began, admitted.operation);
    }
    return undefined;
  }

  /** When the next plugin begins: the clock is read once for each. */
  #passed(timed: Timed | undefined, began: number, operation: Operation): number {
    if (timed === undefined) return began;
    const now = this.#now();
    timed(operation, false, (now - began) / 1000);
    return now;
  }

  async #later<T>(timed: Timed | undefined, began: number, operation: Operation, answer: () => Promise<T>): Promise<T> {
    let rejected = true;
    try {
      const result = await answer();
      rejected = false;
      return result;
    } finally {
      timed?.(operation, rejected, (this.#now() - began) / 1000);
    }
  }

  /** Whom a request reaches, but those that have nothing to say at the moment. */
  #busy(stage: keyof Stages, { request: { subresource } }: Call, { operation, resource }: Admitted): readonly Place[] {
    const places = this.#of(operation, resource, subresource)[stage];
    if (!places.some(({ plugin }) => plugin.idle !== undefined)) return places;
    return places.filter(({ plugin }) => plugin.idle?.(operation, resource, subresource) !== true);
  }

  #of(operation: Operation, resource: Resource, subresource: string): Stages {
    let known = this.#stages.get(resource);
    if (known === undefined) this.#stages.set(resource, (known = new Map<string, Stages>()));
    const key = subresource === '' ? operation : `${operation} ${subresource}`;
    let stages = known.get(key);
    if (stages === undefined) {
      const reached = this.#places.filter(({ plugin }) => reaches(plugin.matches, { operation, resource, subresource }));
      stages = {
        mutate: reached.filter(({ plugin }) => plugin.mutate !== undefined),
        validate: reached.filter(({ plugin }) => plugin.validate !== undefined),
      };
      known.set(key, stages);
    }
    return stages;
  }
}
