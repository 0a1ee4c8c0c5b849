import type { PluginContext } from '@oarlock/kernel/plugin';
import { slot } from '@oarlock/kernel/slot';
import type { Role } from './role.ts';

/** What runs in one process, as whoever reports on all of it sees it. Filled by the composition; asked anew each time. */
export interface ProcessView {
  /** Series of every plugin, for /metrics. */
  registries(): readonly PluginContext['metrics'][];
  /** Every role, for /livez and /readyz. */
  roles(): readonly Role[];
}
export const Process = slot.one<ProcessView>('process/v1');
