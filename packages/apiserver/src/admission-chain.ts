import { jsonEqual, isObject } from '@oarlock/api/json';
import { deepFreeze, type KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import {
  isVerdict,
  reaches,
  type AdmissionPlugin,
  type AdmissionRequest,
  type MutationRound,
  type Operation,
  type Verdict,
  type Versions,
} from '@oarlock/spi/admission';
import type { Span } from '@opentelemetry/api';
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

type VersionsOf = (resource: Resource) => Versions | undefined;

interface Place {
  readonly plugin: AdmissionPlugin;
  /** Of its spans. */
  readonly step: string;
}
interface Stages {
  readonly mutate: readonly Place[];
  readonly validate: readonly Place[];
}
type Mutated = Admitted & { readonly object: KubeObject };

const maxChanged = 32;
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

  constructor(plugins: readonly AdmissionPlugin[], names: Names = [], versions: VersionsOf = () => undefined) {
    this.#versions = versions;
    this.#places = plugins.map((plugin, i) => ({ plugin, step: `admission ${names[i] ?? `#${i}`}` }));
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
    const object = this.#round(call, admitted, places, { again: false, reinvoke, memory });
    return object instanceof Promise ? object.then(once) : once(object);
  }

  /** @throws StatusError as the first refusal says */
  validate(call: Call, admitted: Admitted): Promise<void> | undefined {
    const places = this.#busy('validate', call, admitted);
    if (places.length === 0) return undefined;
    const { object } = admitted;
    return this.#judge(call, admitted, places, this.#request(call, admitted, object && deepFreeze(object)));
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
    for (let at = from; at < places.length; at++) {
      const { plugin, step } = places[at] as Place;
      const span = call.child(step, mutating);
      const before = object;
      try {
        asked ??= this.#request(call, admitted, deepFreeze(object), round);
        const answer = plugin.mutate?.(asked);
        if (answer instanceof Promise)
          return ended(answer, span, (late) => changed(before, late, call, admitted, span)).then((next) =>
            this.#round(call, { ...admitted, object: next }, places, round, at + 1),
          );
        object = changed(before, answer, call, admitted, span);
      } catch (error) {
        span?.end();
        throw error;
      }
      span?.end();
      if (object !== before) asked = undefined;
    }
    return object;
  }

  #judge(call: Call, admitted: Admitted, places: readonly Place[], asked: AdmissionRequest, from = 0): Promise<void> | undefined {
    for (let at = from; at < places.length; at++) {
      const { plugin, step } = places[at] as Place;
      const span = call.child(step, validating);
      try {
        const verdict = plugin.validate?.(asked);
        if (verdict instanceof Promise)
          return ended(verdict, span, (late) => refuse(late, admitted, call)).then(() =>
            this.#judge(call, admitted, places, asked, at + 1),
          );
        if (verdict !== undefined) refuse(verdict, admitted, call);
      } catch (error) {
        span?.end();
        throw error;
      }
      span?.end();
    }
    return undefined;
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

/** What is made of a late answer, in the span of who gives it. */
async function ended<T, R>(answer: Promise<T>, span: Span | undefined, made: (answer: T) => R): Promise<R> {
  try {
    return made(await answer);
  } finally {
    span?.end();
  }
}

/** The object after an answer. @throws StatusError of a refusal */
function changed(
  before: KubeObject,
  answer: KubeObject | Verdict | undefined,
  call: Call,
  admitted: Admitted,
  span: Span | undefined,
): KubeObject {
  if (answer === undefined || answer === before) return before;
  if (isVerdict(answer)) {
    refuse(answer, admitted, call);
    return before;
  }
  // spelled out when somebody reads the trace
  span?.setAttribute('oarlock.changed', changedPaths(before, answer));
  return answer;
}

/** JSON paths at which two objects differ, for traces: `spec.containers[0].image`. */
export function changedPaths(before: unknown, after: unknown): string[] {
  const paths: string[] = [];
  const visit = (a: unknown, b: unknown, path: string): void => {
    if (paths.length >= maxChanged || a === b) return;
    if (Array.isArray(a) && Array.isArray(b)) {
      for (let i = 0; i < Math.max(a.length, b.length); i++) visit(a[i], b[i], `${path}[${i}]`);
    } else if (isObject(a) && isObject(b)) {
      // admission copies what it changes and shares the rest
      for (const key in a) if (a[key] !== b[key]) visit(a[key], b[key], path === '' ? key : `${path}.${key}`);
      for (const key in b) if (!Object.hasOwn(a, key)) visit(undefined, b[key], path === '' ? key : `${path}.${key}`);
    } else if (!jsonEqual(a, b)) paths.push(path);
  };
  visit(before, after, '');
  return paths;
}
