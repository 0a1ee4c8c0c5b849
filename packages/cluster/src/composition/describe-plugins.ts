import { slotOf } from '@oarlock/kernel/plugin';
import type { HostedPluginInfo } from '@oarlock/kernel/plugin-host';
import { redactConfig } from '@oarlock/primitives/redact-secrets';
import type { PlacedPlugin } from '@oarlock/spi/process';
import { declaredNeedsOf } from '../hosting/declared-needs.ts';

/** Returns the running plugins for readers. */
export function describePlugins(plugins: readonly Pick<HostedPluginInfo, 'name' | 'plugin' | 'config'>[]): readonly PlacedPlugin[] {
  return plugins.map(({ plugin, name, config }) => ({
    ...{ name, id: plugin.id },
    slot: plugin.provides.id,
    needs: Object.values(declaredNeedsOf(plugin)).map((need) => slotOf(need).id),
    config: redactConfig(config) ?? {},
  }));
}
