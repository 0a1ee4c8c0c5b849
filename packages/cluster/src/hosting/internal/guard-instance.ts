import type { PluginContext, Slot } from '@oarlock/kernel/plugin';
import { Cloud } from '@oarlock/spi/cloud';
import { Controllers, type Controller } from '@oarlock/spi/controller';
import { Paths } from '@oarlock/spi/paths';
import { Runtime } from '@oarlock/spi/runtime';
import { Scheduling, unschedulable, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { Storage, StorageError } from '@oarlock/spi/storage';
import { errorText } from '@oarlock/primitives/error-text';
import type { CallLimits } from './call-limits.ts';
import { PluginFault, type GuardedCalls } from './guarded-calls.ts';

type Method = (...args: readonly unknown[]) => unknown;

/** How the methods of a slot are called, apart from their time limits. */
interface SlotRules {
  /** Synchronous methods that are called once per node or pod comparison: only the watchdog learns of them. */
  readonly hot?: ReadonlySet<string>;
  /** Methods whose errors nothing handles: they are logged. */
  readonly notified?: ReadonlySet<string>;
  /** True for the plugin on which all others depend. */
  readonly isEssential?: boolean;
  /** Members with methods of their own. */
  readonly parts?: readonly string[];
  /** By method, the index of the argument with the seconds that the caller allows beyond the time limit of the call. */
  readonly allowedSeconds?: Readonly<Record<string, number>>;
  /** Returns the error that the slot's consumers expect for a fault of the plugin. */
  toError?(fault: PluginFault): Error;
}

const rules = new Map<symbol, SlotRules>([
  [
    Scheduling.token,
    {
      hot: new Set(['podGroup', 'addPod', 'removePod', 'filter', 'preScore', 'score', 'normalizeScore', 'queueSort', 'preBindPreFlight']),
      notified: new Set(['unreserve', 'postBind', 'setHandle']),
    },
  ],
  [Cloud.token, { parts: ['nodes', 'routes', 'loadBalancers'] }],
  [Paths.token, { parts: ['authenticator'] }],
  // the grace period of the container, and the time limit of the command
  [Runtime.token, { allowedSeconds: { stopContainer: 1, execSync: 2 } }],
  [Storage.token, { isEssential: true, toError: (fault) => new StorageError('Unavailable', fault.message) }],
]);

export interface InstanceGuardOptions {
  readonly context: Pick<PluginContext, 'name' | 'log'>;
  readonly calls: GuardedCalls;
  readonly limits: CallLimits;
}

/** Returns an object with the members of a plugin's instance, whose methods fail alone if the plugin throws, hangs or is suspended. */
export function guardInstance(instance: object, slot: Slot<unknown>, options: InstanceGuardOptions): object {
  const guarded = guardMembers(instance, rules.get(slot.token) ?? {}, options);
  if (slot.token === Controllers.token) return guardController(guarded as Controller);
  if (slot.token === Scheduling.token) return guardScheduling(guarded as SchedulingPlugin, options);
  return guarded;
}

function guardMembers(instance: object, slotRules: SlotRules, options: InstanceGuardOptions): object {
  const guarded: Record<string, unknown> = {};
  for (const key of memberNames(instance)) {
    const value = Reflect.get(instance, key, instance) as unknown;
    if (typeof value === 'function') guarded[key] = guardMethod({ method: (value as Method).bind(instance), key }, slotRules, options);
    else if (slotRules.parts?.includes(key) === true && typeof value === 'object' && value !== null)
      guarded[key] = guardMembers(value, slotRules, options);
    else Object.defineProperty(guarded, key, { get: () => Reflect.get(instance, key, instance) as unknown, enumerable: true });
  }
  return guarded;
}

function guardMethod(
  { method, key }: { readonly method: Method; readonly key: string },
  { hot, notified, isEssential, allowedSeconds = {}, toError = (fault) => fault }: SlotRules,
  { calls, limits, context: { name, log } }: InstanceGuardOptions,
): Method {
  if (hot?.has(key) === true) return (...args) => calls.enter(() => method(...args));
  const failed = (error: unknown): Error => {
    if (!(error instanceof PluginFault)) return error as Error;
    return toError(new PluginFault(`plugin ${JSON.stringify(name)}, ${key}: ${error.message}`));
  };
  const ms = limits[key];
  const allowed = allowedSeconds[key];
  return (...args) => {
    try {
      const limit = ms === undefined || allowed === undefined ? ms : ms + Number(args[allowed]) * 1_000;
      const answer = calls.call(limit, () => method(...args), isEssential);
      return answer instanceof Promise
        ? answer.catch((error: unknown) => {
            throw failed(error);
          })
        : answer;
    } catch (error) {
      if (notified?.has(key) !== true) throw failed(error);
      log.error({ err: error, method: key }, 'the plugin failed in a call whose result nothing waits for');
      return undefined;
    }
  };
}

/** Aborts the signal of a reconcile that has no result in time: the key is reconciled again, and the abandoned reconcile should end. */
function guardController(guarded: Controller): Controller {
  const { reconcile } = guarded;
  return Object.defineProperty(guarded, 'reconcile', {
    value: (async (key, context) => {
      const abort = new AbortController();
      const stop = () => abort.abort(context.signal.reason);
      if (context.signal.aborted) stop();
      context.signal.addEventListener('abort', stop, { once: true });
      try {
        return await reconcile(key, { ...context, signal: abort.signal });
      } finally {
        context.signal.removeEventListener('abort', stop);
        abort.abort();
      }
    }) satisfies Controller['reconcile'],
  });
}

/** A PreEnqueue plugin that throws gates the pod, and Permit must decide synchronously. */
function guardScheduling(guarded: SchedulingPlugin, options: InstanceGuardOptions): SchedulingPlugin {
  const { calls, context } = options;
  const { log } = context;
  const { preEnqueue, permit, withArgs } = guarded;
  return Object.assign(guarded, {
    ...(preEnqueue && {
      preEnqueue: ((pod) => {
        try {
          return preEnqueue(pod);
        } catch (error) {
          log.error({ err: error }, 'the plugin failed before a pod was queued');
          return unschedulable(errorText(error));
        }
      }) satisfies SchedulingPlugin['preEnqueue'],
    }),
    ...(permit && {
      permit: ((state, pod, node) => {
        const status: unknown = permit(state, pod, node);
        if (!(status instanceof Promise)) return status as ReturnType<typeof permit>;
        const fault = new PluginFault('permit returned a promise: return a status, such as wait(timeoutMs)');
        calls.health.report('deadline', fault);
        status.catch((error: unknown) => log.error({ err: error }, 'the plugin failed in permit'));
        throw fault;
      }) satisfies SchedulingPlugin['permit'],
    }),
    ...(withArgs && {
      withArgs: ((args) => guardInstance(withArgs(args), Scheduling, options) as SchedulingPlugin) satisfies SchedulingPlugin['withArgs'],
    }),
  });
}

/** Returns the names of own and inherited members. */
function memberNames(instance: object): ReadonlySet<string> {
  const found = new Set<string>();
  for (let at: object | null = instance; at !== null && at !== Object.prototype; at = Object.getPrototypeOf(at) as object | null)
    for (const key of Object.getOwnPropertyNames(at)) if (key !== 'constructor') found.add(key);
  return found;
}
