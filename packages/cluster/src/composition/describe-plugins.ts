import { slotOf } from '@oarlock/kernel/plugin';
import { redactConfig } from '@oarlock/primitives/redact-secrets';
import type { PlacedPlugin } from '@oarlock/spi/process';
import type { PlannedPlugin } from './plan.ts';

/** Returns the plugins of a plan for readers. */
export function describePlugins(plugins: readonly PlannedPlugin[]): readonly PlacedPlugin[] {
  return plugins.map(({ plugin, name, config }) => {
    const { id, provides, needs } = plugin;
    const parsed = plugin.config.safeParse(config);
    return {
      ...{ name, id },
      slot: provides.id,
      needs: Object.values(needs).map((need) => slotOf(need).id),
      config: redactConfig(parsed.success ? parsed.data : config) ?? {},
    };
  });
}
