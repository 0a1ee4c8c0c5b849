import type { Clock } from '@oarlock/primitives/clock';
import type { PluginContext } from '@oarlock/kernel/plugin';
import type { SwappableInstance } from '@oarlock/kernel/placement';
import type { Slot } from '@oarlock/kernel/plugin';
import type { SpanContext } from '@oarlock/kernel/tracing';
import { Admission, allow, matchesRules, type AdmissionPlugin, type AdmissionRequest } from '@oarlock/spi/admission';
import { Authn, type Authenticator } from '@oarlock/spi/authn';
import { Authz, type Authorizer } from '@oarlock/spi/authz';
import { Controllers, type Controller, type ControllerWatch } from '@oarlock/spi/controller';
import { Scheduling, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { Generation } from './internal/generation.ts';
import { schedulingView } from './internal/scheduling-view.ts';

/** A function that creates the object that consumers hold instead of a plugin, so that the plugin can be replaced while requests run. */
type MakeFront = (first: object, context: PluginContext) => SwappableInstance;

const fronts = new Map<symbol, MakeFront>([
  [Admission.token, (first, { clock }) => admissionFront(first as AdmissionPlugin, clock)],
  [Authn.token, (first, { clock }) => authnFront(first as Authenticator, clock)],
  [Authz.token, (first, context) => authzFront(first as Authorizer, context)],
  [Controllers.token, (first, { clock }) => controllerFront(first as Controller, clock)],
  [Scheduling.token, (first, { clock }) => schedulingFront(first as SchedulingPlugin, clock)],
]);

/** Returns the front of a slot, or undefined if the slot's plugins cannot be replaced while they run. */
export const frontOf = (slot: Slot<unknown>): MakeFront | undefined => fronts.get(slot.token);

class CurrentInstance<T> {
  #current: Generation<T>;
  readonly #clock: Clock;
  constructor(first: T, clock: Clock) {
    this.#current = new Generation(first);
    this.#clock = clock;
  }
  get current(): Generation<T> {
    return this.#current;
  }
  swap(next: T): Promise<void> {
    const before = this.#current;
    this.#current = new Generation(next);
    return before.drained(this.#clock);
  }
}

function admissionFront(first: AdmissionPlugin, clock: Clock): SwappableInstance {
  const behind = new CurrentInstance(first, clock);
  // the version that mutated a request also validates it
  const generations = new WeakMap<SpanContext, Generation<AdmissionPlugin>>();
  const of = ({ spanContext }: AdmissionRequest): Generation<AdmissionPlugin> => {
    const known = spanContext && generations.get(spanContext);
    if (known !== undefined && !known.ended) return known;
    if (spanContext !== undefined) generations.set(spanContext, behind.current);
    return behind.current;
  };
  const instance: AdmissionPlugin = {
    matches: [{ resources: ['*'], operations: ['*'] }],
    isIdle(operation, resource, subresource) {
      const { value } = behind.current;
      return (
        !matchesRules(value.matches, { operation, resource, subresource }) || value.isIdle?.(operation, resource, subresource) === true
      );
    },
    mutate: (request) =>
      of(request).run(
        (plugin) => (matchesRules(plugin.matches, request) ? plugin.mutate?.(request) : undefined) ?? request.object ?? allow,
      ),
    validate: (request) =>
      of(request).run((plugin) => (matchesRules(plugin.matches, request) ? plugin.validate?.(request) : undefined) ?? allow),
  };
  return { instance, swap: (next) => behind.swap(next as AdmissionPlugin) };
}

function authnFront(first: Authenticator, clock: Clock): SwappableInstance {
  const behind = new CurrentInstance(first, clock);
  const instance: Authenticator = { authenticate: (credentials) => behind.current.run((plugin) => plugin.authenticate(credentials)) };
  return { instance, swap: (next) => behind.swap(next as Authenticator) };
}

function authzFront(first: Authorizer, { clock, log, signal }: PluginContext): SwappableInstance {
  const behind = new CurrentInstance(first, clock);
  const instance: Authorizer = {
    authorize: (attributes) => behind.current.run((plugin) => plugin.authorize(attributes)),
    rulesFor: (identity, namespace) =>
      behind.current.run(
        (plugin) => plugin.rulesFor?.(identity, namespace) ?? { resources: [], paths: [], incomplete: 'the authorizer cannot list rules' },
      ),
    ...(first.postStartHook && { postStartHook: first.postStartHook }),
  };
  return {
    instance,
    swap(next) {
      const { postStartHook: hook } = next as Authorizer;
      hook?.run(signal).catch((error: unknown) => {
        if (!signal.aborted) log.error({ err: error, hook: hook.name }, 'the post-start hook of the new version failed');
      });
      return behind.swap(next as Authorizer);
    },
  };
}

/**
 * Returns a controller that delegates to the current version. Adds the watches of each new version, so that the new version reconciles every object.
 */
function controllerFront(first: Controller, clock: Clock): SwappableInstance {
  const behind = new CurrentInstance(first, clock);
  let addWatch: ((watch: ControllerWatch) => () => void) | undefined;
  let removers: (() => void)[] = [];
  const addWatches = () => {
    const { value } = behind.current;
    if (addWatch === undefined) return;
    removers = value.watches.map(addWatch);
    const left = value.addDynamicWatches?.(addWatch);
    if (left !== undefined) removers.push(left);
  };
  const removeWatches = () => {
    for (const each of removers.splice(0)) each();
  };
  const instance: Controller = {
    get name() {
      return behind.current.value.name;
    },
    watches: [],
    ...(first.concurrentReconciles !== undefined && { concurrentReconciles: first.concurrentReconciles }),
    addDynamicWatches(add) {
      addWatch = add;
      addWatches();
      return () => {
        addWatch = undefined;
        removeWatches();
      };
    },
    async reconcile(key, context) {
      const { signal } = context;
      // watches of a new version were added after the controller had synced: wait for their informers
      return behind.current.run(async (controller) => {
        for (const { informer } of controller.watches) if (!informer.hasSynced) await informer.whenSynced(signal);
        return controller.reconcile(key, context);
      });
    },
  };
  return {
    instance,
    swap(next) {
      removeWatches();
      const drained = behind.swap(next as Controller);
      addWatches();
      return drained;
    },
  };
}

function schedulingFront(first: SchedulingPlugin, clock: Clock): SwappableInstance {
  const behind = new CurrentInstance(first, clock);
  const view = schedulingView(
    first,
    (call) => behind.current.run(call),
    () => behind.current.value,
  );
  return {
    instance: view.plugin,
    swap(next) {
      const drained = behind.swap(next as SchedulingPlugin);
      view.onSwap(next as SchedulingPlugin);
      return drained;
    },
  };
}
