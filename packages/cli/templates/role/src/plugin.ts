import { Roles } from '@oarlock/spi/role';
import { z } from 'zod';
import { Heartbeat } from './heartbeat.ts';

/** Writes a log line at a fixed interval. */
export default Roles.plugin({
  id: '__ID__',
  config: z.strictObject({ everySeconds: z.number().min(1).max(86_400).default(60) }),
  create: ({ config }, { clock, log }) =>
    new Heartbeat({ clock, everyMs: config.everySeconds * 1000, beat: (count) => log.info({ count }, 'alive') }),
});
