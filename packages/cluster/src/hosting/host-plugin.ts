import type { Fault, SourcePosition } from '@oarlock/kernel/errors';
import type { Plugin, PluginContext, Slot } from '@oarlock/kernel/plugin';
import type { LifecycleLimits, Placement } from '@oarlock/kernel/placement';
import type { PluginHealth } from '@oarlock/kernel/plugin-health';
import { slotName } from '@oarlock/kernel/slot';
import type { PlacementSpec } from '../cluster-file/cluster-schema.ts';
import type { LoadResult } from '../plugins/plugin-loader.ts';
import { callLimitsOf, type CallLimits } from './internal/call-limits.ts';
import { guardOf } from './internal/guard.ts';
import { guardInstance } from './internal/guard-instance.ts';
import { GuardedCalls } from './internal/guarded-calls.ts';
import { canBeIsolated, defaultMemoryMiB, isolatePlugin, missingDeclaration, unsupportedNeeds } from './internal/isolate-plugin.ts';

type LoadedPlugin = Extract<LoadResult, { readonly plugin: Plugin }>;
export type HostedPlugin = Pick<Placement, 'plugin' | 'decorate' | 'limits'>;
type Locate = (key: string) => { readonly at?: SourcePosition; readonly path: string };

const keys = ['deadlineMs', 'failurePolicy', 'placement', 'memoryMiB'] as const;
/** A start may download or compile; a cluster stops within 10 s. */
const lifecycleLimits: LifecycleLimits = { startMs: 120_000, stopMs: 3_000 };
const isFirstParty = ({ module, source }: LoadedPlugin): boolean =>
  source === undefined && (module === '' || module.startsWith('@oarlock/'));

/**
 * Returns the plugin with the limits and the placement that the cluster file specifies, or faults if these are invalid. Plugins of other authors
 * always run behind a guard. Oarlock's own plugins need none by default, because the contract suites check that they behave as a guard would enforce.
 */
export function hostPlugin(
  found: LoadedPlugin,
  placement: PlacementSpec,
  locate: Locate,
): HostedPlugin | { readonly faults: readonly Fault[] } {
  const { plugin } = found;
  const faults = [...limitFaults(plugin, placement, locate), ...placementFaults(found, placement, locate)];
  if (faults.length > 0) return { faults };
  if (keys.every((key) => placement[key] === undefined) && isFirstParty(found)) return { plugin };
  const limits = limitsOf(plugin.provides, placement);
  const { memoryMiB = defaultMemoryMiB, config, placement: where = 'host' } = placement;
  if (where === 'host') return { plugin, limits: lifecycleLimits, decorate: decorator(plugin.provides, placement, limits) };
  return {
    plugin: isolatePlugin(plugin, { module: found.module, config, limits, memoryMiB, where }),
    limits: lifecycleLimits,
    // the thread enforces the limits of calls: it can end a call that blocks it
    decorate: decorator(plugin.provides, placement, {}),
  };
}

function decorator(
  slot: Slot<unknown>,
  { failurePolicy = 'Fail' }: PlacementSpec,
  limits: CallLimits,
): NonNullable<HostedPlugin['decorate']> {
  const guard = guardOf(slot);
  return (instance: object, context: PluginContext, health: PluginHealth): object => {
    const options = { calls: new GuardedCalls(health, context.clock), limits };
    return guard?.(instance, context, { ...options, failurePolicy }) ?? guardInstance(instance, slot, { ...options, context });
  };
}

/** `deadlineMs` is one limit for all methods of the slot, or limits by method. */
function limitsOf(slot: Slot<unknown>, { deadlineMs }: PlacementSpec): CallLimits {
  const defaults = callLimitsOf(slot);
  if (typeof deadlineMs !== 'number') return { ...defaults, ...deadlineMs };
  return Object.fromEntries(Object.keys(defaults).map((method) => [method, deadlineMs]));
}

function limitFaults({ provides }: Plugin, { deadlineMs, failurePolicy }: PlacementSpec, locate: Locate): readonly Fault[] {
  const faults: Fault[] = [];
  const methods = Object.keys(callLimitsOf(provides));
  const name = slotName(provides.id);
  if (deadlineMs !== undefined && methods.length === 0)
    faults.push(fault(locate('deadlineMs'), `calls of ${name} plugins have no deadline`, 'remove it'));
  else if (typeof deadlineMs === 'object')
    for (const method of Object.keys(deadlineMs).filter((key) => !methods.includes(key)))
      faults.push(
        fault(
          locate('deadlineMs'),
          `calls of ${name} plugins with a deadline are ${methods.join(', ')}, not ${method}`,
          'correct the name',
        ),
      );
  if (failurePolicy !== undefined && guardOf(provides) === undefined)
    faults.push(fault(locate('failurePolicy'), 'failurePolicy applies only to admission, authn and authz plugins', 'remove it'));
  return faults;
}

function placementFaults({ plugin, module }: LoadedPlugin, { placement, memoryMiB }: PlacementSpec, locate: Locate): readonly Fault[] {
  const isIsolated = placement === 'thread' || placement === 'process';
  if (!isIsolated)
    return memoryMiB === undefined
      ? []
      : [
          fault(
            locate('memoryMiB'),
            'memoryMiB applies only to a plugin in a thread or process of its own',
            'add `placement: thread`, or remove it',
          ),
        ];
  const at = locate('placement');
  if (!canBeIsolated(plugin.provides))
    return [fault(at, `${slotName(plugin.provides.id)} plugins run in the process of their role only`, 'remove it')];
  if (!module.includes('/')) return [fault(at, `${plugin.id} is not a module, so a ${placement} cannot load it`, 'name it by its path')];
  const undeclared = missingDeclaration(plugin);
  if (undeclared !== undefined)
    return [
      fault(at, `${plugin.id} cannot run in a ${placement} of its own: it does not declare ${undeclared}`, 'declare them in the plugin'),
    ];
  const missing = unsupportedNeeds(plugin);
  if (missing.length === 0) return [];
  const message = `${plugin.id} cannot run in a ${placement} of its own: it needs ${missing.join(' and ')}, but only client, informers, events and cluster are available there`;
  return [fault(at, message, 'remove `placement`, or the dependency')];
}

const fault = (where: ReturnType<Locate>, message: string, remedy: string): Fault => ({ code: 'ConfigInvalid', ...where, message, remedy });
