import { deepFreeze, type KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import {
  matchesRules,
  type AdmissionPlugin,
  type AdmissionRequest,
  type MutationPass,
  type Operation,
  type EquivalentResources,
} from '@oarlock/spi/admission';
import type { Clock } from '@oarlock/primitives/clock';
import { applyMutation, awaitInSpan } from './admission-result.ts';
import type { AdmissionAttributes } from './admission-attributes.ts';
import type { AdmissionMetrics, ObserveAdmission } from './admission-metrics.ts';
import { throwIfDenied } from './admission-rejection.ts';
import type { PluginNames } from '../authorization/authorization.ts';
import type { RequestContext } from '../request/request-context.ts';

/** The metrics of admission and the monotonic clock, in milliseconds, that they use. */
export interface AdmissionTiming {
  readonly metrics: AdmissionMetrics;
  readonly clock: Pick<Clock, 'monotonic'>;
}

type EquivalentResourcesOf = (resource: Resource) => EquivalentResources | undefined;

interface ChainedPlugin {
  readonly plugin: AdmissionPlugin;
  /** The name of the plugin's spans. */
  readonly spanName: string;
  readonly observeMutate: ObserveAdmission | undefined;
  readonly observeValidate: ObserveAdmission | undefined;
}
interface ReachedPlugins {
  readonly mutate: readonly ChainedPlugin[];
  readonly validate: readonly ChainedPlugin[];
}
type MutationAttributes = AdmissionAttributes & { readonly object: KubeObject };

const mutateSpanAttributes = Object.freeze({ 'oarlock.phase': 'mutate' });
const validateSpanAttributes = Object.freeze({ 'oarlock.phase': 'validate' });

/**
 * Runs the admission plugins in order. The plugins that match a request are looked up in a cache. Plugins that return synchronously do not
 * cost a promise.
 */
export class AdmissionChain {
  readonly #plugins: readonly ChainedPlugin[];
  readonly #reachedPlugins = new WeakMap<Resource, Map<string, ReachedPlugins>>();
  readonly #versions: EquivalentResourcesOf;
  readonly #timing: AdmissionTiming | undefined;
  readonly #observeMutateStep: ObserveAdmission | undefined;
  readonly #observeValidateStep: ObserveAdmission | undefined;

  constructor(
    plugins: readonly AdmissionPlugin[],
    names: PluginNames = [],
    versions: EquivalentResourcesOf = () => undefined,
    times?: AdmissionTiming,
  ) {
    this.#versions = versions;
    this.#timing = times;
    this.#observeMutateStep = times?.metrics.step('admit');
    this.#observeValidateStep = times?.metrics.step('validate');
    this.#plugins = plugins.map((plugin, i) => {
      const name = names[i] ?? `#${i}`;
      return {
        plugin,
        spanName: `admission ${name}`,
        observeMutate: plugin.mutate && times?.metrics.controller(name, 'admit'),
        observeValidate: plugin.validate && times?.metrics.controller(name, 'validate'),
      };
    });
  }

  #now(): number {
    return this.#timing?.clock.monotonic() ?? 0;
  }

  mutates(operation: Operation, resource: Resource, subresource: string): boolean {
    for (const { plugin } of this.#pluginsReachedBy(operation, resource, subresource).mutate)
      if (plugin.isIdle?.(operation, resource, subresource) !== true) return true;
    return false;
  }

  /** Runs the mutating plugins; returns the same object if none changed it. @throws StatusError of the first denial */
  mutate(context: RequestContext, admitted: MutationAttributes): KubeObject | Promise<KubeObject> {
    const places = this.#activePlugins('mutate', context, admitted);
    if (places.length === 0) return admitted.object;
    let again = false;
    const memory = new Map<object, unknown>();
    const reinvoke = () => {
      again = true;
    };
    const once = (object: KubeObject) =>
      again ? this.#runMutators(context, { ...admitted, object }, places, { isReinvocation: true, reinvoke, pluginState: memory }) : object;
    return this.#runStep(this.#observeMutateStep, admitted.operation, () => {
      const object = this.#runMutators(context, admitted, places, { isReinvocation: false, reinvoke, pluginState: memory });
      return object instanceof Promise ? object.then(once) : once(object);
    });
  }

  /** Runs the validating plugins. @throws StatusError of the first denial */
  validate(context: RequestContext, admitted: AdmissionAttributes): void | Promise<void> {
    const places = this.#activePlugins('validate', context, admitted);
    if (places.length === 0) return undefined;
    const { object } = admitted;
    return this.#runStep(this.#observeValidateStep, admitted.operation, () =>
      this.#runValidators(context, admitted, places, this.#admissionRequest(context, admitted, object && deepFreeze(object))),
    );
  }

  /** Runs all plugins of one phase and observes its duration. */
  #runStep<T>(step: ObserveAdmission | undefined, operation: Operation, run: () => T | Promise<T>): T | Promise<T> {
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

  #admissionRequest(
    context: RequestContext,
    { operation, resource, old, options, name }: AdmissionAttributes,
    object?: KubeObject,
    round?: MutationPass,
  ): AdmissionRequest {
    const { subresource, namespace, identity, name: requested } = context.request;
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
      dryRun: context.dryRun,
      warn: (message) => context.warn(message),
      annotate: (key, value, level) => context.annotate(key, value, level),
      equivalents: () => this.#versions(resource),
      ...(context.spanContext && { spanContext: context.spanContext }),
      ...(round && { mutation: round }),
    };
  }

  /** Runs the mutating plugins from index `from` on. */
  #runMutators(
    context: RequestContext,
    admitted: MutationAttributes,
    places: readonly ChainedPlugin[],
    round: MutationPass,
    from = 0,
  ): KubeObject | Promise<KubeObject> {
    let { object } = admitted;
    let asked: AdmissionRequest | undefined;
    let began = this.#now();
    for (let at = from; at < places.length; at++) {
      const { plugin, spanName: step, observeMutate: timed } = places[at] as ChainedPlugin;
      const span = context.startChildSpan(step, mutateSpanAttributes);
      const before = object;
      try {
        asked ??= this.#admissionRequest(context, admitted, deepFreeze(object), round);
        const answer = plugin.mutate?.(asked);
        if (answer instanceof Promise) {
          const late = () => awaitInSpan(answer, span, (said) => applyMutation(before, said, context, admitted, span));
          return this.#observeAsyncPlugin(timed, began, admitted.operation, late).then((next) =>
            this.#runMutators(context, { ...admitted, object: next }, places, round, at + 1),
          );
        }
        object = applyMutation(before, answer, context, admitted, span);
      } catch (error) {
        span?.end();
        timed?.(admitted.operation, true, (this.#now() - began) / 1000);
        throw error;
      }
      span?.end();
      began = this.#observePlugin(timed, began, admitted.operation);
      if (object !== before) asked = undefined;
    }
    return object;
  }

  #runValidators(
    context: RequestContext,
    admitted: AdmissionAttributes,
    places: readonly ChainedPlugin[],
    asked: AdmissionRequest,
    from = 0,
  ): Promise<void> | undefined {
    let began = this.#now();
    for (let at = from; at < places.length; at++) {
      const { plugin, spanName: step, observeValidate: timed } = places[at] as ChainedPlugin;
      const span = context.startChildSpan(step, validateSpanAttributes);
      try {
        const verdict = plugin.validate?.(asked);
        if (verdict instanceof Promise) {
          const late = () => awaitInSpan(verdict, span, (said) => throwIfDenied(said, admitted, context));
          return this.#observeAsyncPlugin(timed, began, admitted.operation, late).then(() =>
            this.#runValidators(context, admitted, places, asked, at + 1),
          );
        }
        if (verdict !== undefined) throwIfDenied(verdict, admitted, context);
      } catch (error) {
        span?.end();
        timed?.(admitted.operation, true, (this.#now() - began) / 1000);
        throw error;
      }
      span?.end();
      began = this.#observePlugin(timed, began, admitted.operation);
    }
    return undefined;
  }

  /** Observes a synchronous plugin and returns the start time of the next one: the clock is read once per plugin. */
  #observePlugin(timed: ObserveAdmission | undefined, began: number, operation: Operation): number {
    if (timed === undefined) return began;
    const now = this.#now();
    timed(operation, false, (now - began) / 1000);
    return now;
  }

  async #observeAsyncPlugin<T>(
    timed: ObserveAdmission | undefined,
    began: number,
    operation: Operation,
    answer: () => Promise<T>,
  ): Promise<T> {
    let rejected = true;
    try {
      const result = await answer();
      rejected = false;
      return result;
    } finally {
      timed?.(operation, rejected, (this.#now() - began) / 1000);
    }
  }

  /** Returns the plugins that match a request, without those that are idle. */
  #activePlugins(
    stage: keyof ReachedPlugins,
    { request: { subresource } }: RequestContext,
    { operation, resource }: AdmissionAttributes,
  ): readonly ChainedPlugin[] {
    const places = this.#pluginsReachedBy(operation, resource, subresource)[stage];
    if (!places.some(({ plugin }) => plugin.isIdle !== undefined)) return places;
    return places.filter(({ plugin }) => plugin.isIdle?.(operation, resource, subresource) !== true);
  }

  #pluginsReachedBy(operation: Operation, resource: Resource, subresource: string): ReachedPlugins {
    let known = this.#reachedPlugins.get(resource);
    if (known === undefined) this.#reachedPlugins.set(resource, (known = new Map<string, ReachedPlugins>()));
    const key = subresource === '' ? operation : `${operation} ${subresource}`;
    let stages = known.get(key);
    if (stages === undefined) {
      const reached = this.#plugins.filter(({ plugin }) => matchesRules(plugin.matches, { operation, resource, subresource }));
      stages = {
        mutate: reached.filter(({ plugin }) => plugin.mutate !== undefined),
        validate: reached.filter(({ plugin }) => plugin.validate !== undefined),
      };
      known.set(key, stages);
    }
    return stages;
  }
}
