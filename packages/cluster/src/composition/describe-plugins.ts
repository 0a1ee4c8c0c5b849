import { slotOf } from '@oarlock/kernel/plugin';
import type { HostedPluginInfo } from '@oarlock/kernel/plugin-host';
import { redactConfig } from '@oarlock/primitives/redact-secrets';
import type { PlacedPlugin } from '@oarlock/spi/process';

/** Returns the running plugins for readers. */
export function describePlugins(plugins: readonly Pick<HostedPluginInfo, 'name' | 'plugin' | 'config'>[]): readonly PlacedPlugin[] {
  return plugins.map(({ plugin: { id, provides, needs }, name, config }) => ({
    ...{ name, id },
    slot: provides.id,
    needs: Object.values(needs).map((need) => slotOf(need).id),
    config: redactConfig(config) ?? {},
  }));
}
