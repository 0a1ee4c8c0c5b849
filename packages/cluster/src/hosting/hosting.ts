import type { Fault, SourcePosition } from '@oarlock/kernel/errors';
import type { Plugin } from '@oarlock/kernel/plugin';
import type { Placement } from '@oarlock/kernel/placement';
import type { PlacementSpec } from '../cluster-schema.ts';
import type { Loaded } from '../plugin-loader.ts';
import { defaultDeadlineMs, guardOf } from './guard.ts';
import { defaultMemoryMiB, isolated, outOfReach } from './isolated.ts';

type Found = Extract<Loaded, { readonly plugin: Plugin }>;
export interface Hosted {
  readonly plugin: Plugin;
  readonly wrap?: NonNullable<Placement['wrap']>;
}

const keys = ['deadlineMs', 'failurePolicy', 'isolation', 'memoryMiB'] as const;
const isOurs = ({ module, source }: Found): boolean => source === undefined && (module === '' || module.startsWith('@oarlock/'));

/**
 * A plugin with what keeps it from hurting requests, as its placement says. Plugins of others are guarded also when it says nothing; ours
 * promise in their contract what a guard would see to.
 */
export function hosted(
  found: Found,
  placement: PlacementSpec,
  locate: (key: string) => { readonly at?: SourcePosition; readonly path: string },
): Hosted | { readonly faults: readonly Fault[] } {
  const { plugin, module } = found;
  const { deadlineMs = defaultDeadlineMs, failurePolicy = 'Fail', isolation = 'none', memoryMiB = defaultMemoryMiB } = placement;
  const said = keys.filter((key) => placement[key] !== undefined);
  const guard = guardOf(plugin.provides);
  const fault = (key: string, message: string, remedy: string): Fault => ({ code: 'ConfigInvalid', ...locate(key), message, remedy });
  if (guard === undefined) {
    const faults = said.map((key) => fault(key, `${key} is for plugins that requests wait for: admission, authn and authz`, 'remove it'));
    return faults.length > 0 ? { faults } : { plugin };
  }
  if (isolation === 'none') {
    if (placement.memoryMiB !== undefined)
      return {
        faults: [fault('memoryMiB', 'memoryMiB is for a plugin with a thread of its own', 'add `isolation: worker`, or remove it')],
      };
    if (said.length === 0 && isOurs(found)) return { plugin };
    return { plugin, wrap: (made, context) => guard(made, context, { deadlineMs, failurePolicy }) };
  }
  if (!module.includes('/'))
    return { faults: [fault('isolation', `${plugin.id} is made here, and a thread cannot load it`, 'name it by its file')] };
  const missing = outOfReach(plugin);
  if (missing.length > 0) {
    const message = `${plugin.id} cannot run in a thread of its own: it needs ${missing.join(' and ')}, and only client, informers, events and cluster reach there`;
    return { faults: [fault('isolation', message, 'remove `isolation`, or the need')] };
  }
  return {
    plugin: isolated(plugin, { module, config: placement.config, deadlineMs, memoryMiB }),
    // the thread has its own deadline
    wrap: (made, context) => guard(made, context, { deadlineMs: undefined, failurePolicy }),
  };
}
