import type { Fault, SourcePosition } from '@oarlock/kernel/errors';
import type { Plugin } from '@oarlock/kernel/plugin';
import type { Placement } from '@oarlock/kernel/placement';
import type { PlacementSpec } from '../config/cluster-schema.ts';
import type { LoadResult } from '../plugins/plugin-loader.ts';
import { defaultDeadlineMs, guardOf } from './internal/guard.ts';
import { defaultMemoryMiB, isolatePlugin, unsupportedNeeds } from './internal/isolate-plugin.ts';

type LoadedPlugin = Extract<LoadResult, { readonly plugin: Plugin }>;
export interface HostedPlugin {
  readonly plugin: Plugin;
  readonly decorate?: NonNullable<Placement['decorate']>;
}

const keys = ['deadlineMs', 'failurePolicy', 'isolation', 'memoryMiB'] as const;
const isFirstParty = ({ module, source }: LoadedPlugin): boolean =>
  source === undefined && (module === '' || module.startsWith('@oarlock/'));

/**
 * Returns the plugin with the isolation that its placement specifies, or faults if the placement is invalid. Plugins of other authors always run
 * behind a guard. Oarlock's own plugins need none by default, because the contract suites check that they behave as a guard would enforce.
 */
export function hostPlugin(
  found: LoadedPlugin,
  placement: PlacementSpec,
  locate: (key: string) => { readonly at?: SourcePosition; readonly path: string },
): HostedPlugin | { readonly faults: readonly Fault[] } {
  const { plugin, module } = found;
  const { deadlineMs = defaultDeadlineMs, failurePolicy = 'Fail', isolation = 'none', memoryMiB = defaultMemoryMiB } = placement;
  const specified = keys.filter((key) => placement[key] !== undefined);
  const guard = guardOf(plugin.provides);
  const fault = (key: string, message: string, remedy: string): Fault => ({ code: 'ConfigInvalid', ...locate(key), message, remedy });
  if (guard === undefined) {
    const faults = specified.map((key) => fault(key, `${key} applies only to admission, authn and authz plugins`, 'remove it'));
    return faults.length > 0 ? { faults } : { plugin };
  }
  if (isolation === 'none') {
    if (placement.memoryMiB !== undefined)
      return {
        faults: [fault('memoryMiB', 'memoryMiB applies only to a plugin in a worker thread', 'add `isolation: worker`, or remove it')],
      };
    if (specified.length === 0 && isFirstParty(found)) return { plugin };
    return { plugin, decorate: (instance, context) => guard(instance, context, { deadlineMs, failurePolicy }) };
  }
  if (!module.includes('/'))
    return { faults: [fault('isolation', `${plugin.id} is not a module, so a worker thread cannot load it`, 'name it by its path')] };
  const missing = unsupportedNeeds(plugin);
  if (missing.length > 0) {
    const message = `${plugin.id} cannot run in a worker thread: it needs ${missing.join(' and ')}, but only client, informers, events and cluster are available there`;
    return { faults: [fault('isolation', message, 'remove `isolation`, or the dependency')] };
  }
  return {
    plugin: isolatePlugin(plugin, { module, config: placement.config, deadlineMs, memoryMiB }),
    // the thread enforces the deadline
    decorate: (instance, context) => guard(instance, context, { deadlineMs: undefined, failurePolicy }),
  };
}
