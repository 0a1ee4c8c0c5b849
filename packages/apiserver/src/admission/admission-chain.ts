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
import type { RequestContext } from '../endpoints/request/request-context.ts';

/** The metrics of admission, and the monotonic clock in milliseconds that measures them. */
export interface AdmissionTiming {
  readonly metrics: AdmissionMetrics;
  readonly clock: Pick<Clock, 'monotonic'>;
}

type EquivalentResourcesOf = (resource: Resource) => EquivalentResources | undefined;

export interface AdmissionChainOptions {
  readonly names?: PluginNames;
  /** Returns the other resource versions that the rules of webhooks and policies may name (matchPolicy Equivalent). */
  readonly versions?: EquivalentResourcesOf;
  readonly timing?: AdmissionTiming | undefined;
}

interface ChainedPlugin {
  readonly plugin: AdmissionPlugin;
  /** The name of the spans that record the calls of the plugin. */
  readonly spanName: string;
  readonly observeMutate: ObserveAdmission | undefined;
  readonly observeValidate: ObserveAdmission | undefined;
}
interface ReachedPlugins {
  readonly mutate: readonly ChainedPlugin[];
  readonly validate: readonly ChainedPlugin[];
}
type MutationAttributes = AdmissionAttributes & { readonly object: KubeObject };

/** The run of one admission phase, mutating or validating, for one request. */
interface PhaseRun<A extends AdmissionAttributes = AdmissionAttributes> {
  readonly context: RequestContext;
  readonly attributes: A;
  readonly plugins: readonly ChainedPlugin[];
}

const mutateSpanAttributes = Object.freeze({ 'oarlock.phase': 'mutate' });
const validateSpanAttributes = Object.freeze({ 'oarlock.phase': 'validate' });

/**
 * The admission plugins, called in order. The plugins that match a request are cached. A plugin that returns synchronously does not cost a
 * promise.
 */
export class AdmissionChain {
  readonly #plugins: readonly ChainedPlugin[];
  readonly #reachedPlugins = new WeakMap<Resource, Map<string, ReachedPlugins>>();
  readonly #versions: EquivalentResourcesOf;
  readonly #timing: AdmissionTiming | undefined;
  readonly #observeMutateStep: ObserveAdmission | undefined;
  readonly #observeValidateStep: ObserveAdmission | undefined;

  constructor(plugins: readonly AdmissionPlugin[], { names = [], versions = () => undefined, timing }: AdmissionChainOptions = {}) {
    this.#versions = versions;
    this.#timing = timing;
    this.#observeMutateStep = timing?.metrics.step('admit');
    this.#observeValidateStep = timing?.metrics.step('validate');
    this.#plugins = plugins.map((plugin, i) => {
      const name = names[i] ?? `#${i}`;
      return {
        plugin,
        spanName: `admission ${name}`,
        observeMutate: plugin.mutate && timing?.metrics.controller(name, 'admit'),
        observeValidate: plugin.validate && timing?.metrics.controller(name, 'validate'),
      };
    });
  }

  #now(): number {
    return this.#timing?.clock.monotonic() ?? 0;
  }

  /** Returns true if at least one mutating plugin matches requests with this operation and resource. */
  mutates(operation: Operation, resource: Resource, subresource: string): boolean {
    for (const { plugin } of this.#pluginsReachedBy(operation, resource, subresource).mutate)
      if (plugin.isIdle?.(operation, resource, subresource) !== true) return true;
    return false;
  }

  /**
   * Runs the mutating plugins and returns the resulting object; the same object if no plugin changed it.
   * @throws StatusError of the first plugin that denies the request
   */
  mutate(context: RequestContext, attributes: MutationAttributes): KubeObject | Promise<KubeObject> {
    const plugins = this.#activePlugins('mutate', context, attributes);
    if (plugins.length === 0) return attributes.object;
    let mustReinvoke = false;
    const pluginState = new Map<object, unknown>();
    const reinvoke = () => {
      mustReinvoke = true;
    };
    const reinvokeIfRequested = (object: KubeObject) => {
      if (!mustReinvoke) return object;
      const run = { context, attributes: { ...attributes, object }, plugins };
      return this.#runMutators(run, { isReinvocation: true, reinvoke, pluginState });
    };
    return this.#runStep(this.#observeMutateStep, attributes.operation, () => {
      const object = this.#runMutators({ context, attributes, plugins }, { isReinvocation: false, reinvoke, pluginState });
      return object instanceof Promise ? object.then(reinvokeIfRequested) : reinvokeIfRequested(object);
    });
  }

  /** Runs the validating plugins. @throws StatusError of the first plugin that denies the request */
  validate(context: RequestContext, attributes: AdmissionAttributes): void | Promise<void> {
    const plugins = this.#activePlugins('validate', context, attributes);
    if (plugins.length === 0) return undefined;
    const { object } = attributes;
    return this.#runStep(this.#observeValidateStep, attributes.operation, () =>
      this.#runValidators({ context, attributes, plugins }, this.#admissionRequest(context, attributes, object && deepFreeze(object))),
    );
  }

  /** Runs all plugins of one phase with `run`, and observes the duration of the phase. */
  #runStep<T>(observe: ObserveAdmission | undefined, operation: Operation, run: () => T | Promise<T>): T | Promise<T> {
    if (observe === undefined) return run();
    const began = this.#now();
    const observeEnd = (rejected: boolean) => observe(operation, rejected, (this.#now() - began) / 1000);
    try {
      const result = run();
      if (result instanceof Promise)
        return result.then(
          (value) => {
            observeEnd(false);
            return value;
          },
          (error: unknown) => {
            observeEnd(true);
            throw error;
          },
        );
      observeEnd(false);
      return result;
    } catch (error) {
      observeEnd(true);
      throw error;
    }
  }

  #admissionRequest(
    context: RequestContext,
    { operation, resource, old, options, name }: AdmissionAttributes,
    object?: KubeObject,
    pass?: MutationPass,
  ): AdmissionRequest {
    const { subresource, namespace, identity, name: requested } = context.request;
    const { spanContext } = context;
    // fields are assigned one by one: a literal with spreads costs 10 us, more than most plugins
    const request: { -readonly [F in keyof AdmissionRequest]: AdmissionRequest[F] } = {
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
      addLatency: (step, ms) => context.addLatency(step, ms),
      equivalents: () => this.#versions(resource),
    };
    if (spanContext !== undefined) request.spanContext = spanContext;
    if (pass !== undefined) request.mutation = pass;
    return request;
  }

  /** Runs the mutating plugins, beginning with the plugin at index `from`. */
  #runMutators(run: PhaseRun<MutationAttributes>, pass: MutationPass, from = 0): KubeObject | Promise<KubeObject> {
    const { context, attributes, plugins } = run;
    const { operation } = attributes;
    let { object } = attributes;
    let request: AdmissionRequest | undefined;
    let began = this.#now();
    for (let at = from; at < plugins.length; at++) {
      const { plugin, spanName, observeMutate: observe } = plugins[at] as ChainedPlugin;
      const span = context.startChildSpan(spanName, mutateSpanAttributes);
      const before = object;
      try {
        request ??= this.#admissionRequest(context, attributes, deepFreeze(object), pass);
        const answer = plugin.mutate?.(request);
        if (answer instanceof Promise) {
          const apply = () => awaitInSpan(answer, span, (result) => applyMutation(before, result, { context, attributes, span }));
          return this.#observeAsyncPlugin(observe, began, operation, apply).then((next) =>
            this.#runMutators({ ...run, attributes: { ...attributes, object: next } }, pass, at + 1),
          );
        }
        object = applyMutation(before, answer, { context, attributes, span });
      } catch (error) {
        span?.end();
        observe?.(operation, true, (this.#now() - began) / 1000);
        throw error;
      }
      span?.end();
      began = this.#observePlugin(observe, began, operation);
      if (object !== before) request = undefined;
    }
    return object;
  }

  #runValidators(run: PhaseRun, request: AdmissionRequest, from = 0): Promise<void> | undefined {
    const { context, attributes, plugins } = run;
    const { operation } = attributes;
    let began = this.#now();
    for (let at = from; at < plugins.length; at++) {
      const { plugin, spanName, observeValidate: observe } = plugins[at] as ChainedPlugin;
      const span = context.startChildSpan(spanName, validateSpanAttributes);
      try {
        const decision = plugin.validate?.(request);
        if (decision instanceof Promise) {
          const check = () => awaitInSpan(decision, span, (result) => throwIfDenied(result, attributes, context));
          return this.#observeAsyncPlugin(observe, began, operation, check).then(() => this.#runValidators(run, request, at + 1));
        }
        if (decision !== undefined) throwIfDenied(decision, attributes, context);
      } catch (error) {
        span?.end();
        observe?.(operation, true, (this.#now() - began) / 1000);
        throw error;
      }
      span?.end();
      began = this.#observePlugin(observe, began, operation);
    }
    return undefined;
  }

  /**
   * Observes the duration of a synchronous plugin, and returns the start time of the next plugin, so that the clock is read once per
   * plugin.
   */
  #observePlugin(observe: ObserveAdmission | undefined, began: number, operation: Operation): number {
    if (observe === undefined) return began;
    const now = this.#now();
    observe(operation, false, (now - began) / 1000);
    return now;
  }

  async #observeAsyncPlugin<T>(
    observe: ObserveAdmission | undefined,
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
      observe?.(operation, rejected, (this.#now() - began) / 1000);
    }
  }

  /** Returns the plugins that match a request, except plugins that are idle. */
  #activePlugins(
    stage: keyof ReachedPlugins,
    { request: { subresource } }: RequestContext,
    { operation, resource }: AdmissionAttributes,
  ): readonly ChainedPlugin[] {
    const plugins = this.#pluginsReachedBy(operation, resource, subresource)[stage];
    if (!plugins.some(({ plugin }) => plugin.isIdle !== undefined)) return plugins;
    return plugins.filter(({ plugin }) => plugin.isIdle?.(operation, resource, subresource) !== true);
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
