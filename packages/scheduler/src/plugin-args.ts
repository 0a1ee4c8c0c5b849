import type { SchedulingPlugin } from '@oarlock/spi/scheduling';
import type { z } from 'zod';

/** A plugin that a profile may give arguments of its own (`pluginConfig`): what `make` makes for them, over the same caches. */
export function configurable<S extends z.ZodType>(
  schema: S,
  config: z.output<S>,
  make: (args: z.output<S>) => SchedulingPlugin,
): SchedulingPlugin {
  const of = (args: z.output<S>): SchedulingPlugin => ({ ...make(args), withArgs: (given) => of(schema.parse(given)) });
  return of(config);
}
