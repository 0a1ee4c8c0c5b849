import type { SchedulingPlugin } from '@oarlock/spi/scheduling';
import type { z } from 'zod';

/** Returns a plugin whose `withArgs` validates the arguments of a profile (`pluginConfig`) and creates the plugin with them. */
export function withConfigurableArgs<S extends z.ZodType>(
  schema: S,
  config: z.output<S>,
  create: (args: z.output<S>) => SchedulingPlugin,
): SchedulingPlugin {
  const configured = (args: z.output<S>): SchedulingPlugin => ({
    ...create(args),
    withArgs: (profileArgs) => configured(schema.parse(profileArgs)),
  });
  return configured(config);
}
