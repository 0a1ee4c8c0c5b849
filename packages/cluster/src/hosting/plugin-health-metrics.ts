import type { PluginFaultKind, PluginHealthView } from '@oarlock/kernel/plugin-health';
import { Counter, Gauge, Registry } from 'prom-client';

const kinds: readonly PluginFaultKind[] = ['error', 'deadline', 'late', 'ended', 'denied'];

/** Returns a registry with the health of plugins and the number of their faults, read when the metrics are. */
export function pluginHealthMetrics(health: () => readonly PluginHealthView[]): Registry {
  const registry = new Registry();
  new Gauge({
    name: 'oarlock_plugin_healthy',
    help: 'Whether a plugin is healthy (1) or has had a fault within the last minute (0).',
    labelNames: ['plugin', 'slot'],
    registers: [registry],
    collect() {
      this.reset();
      for (const { name, slot, healthy } of health()) this.set({ plugin: name, slot }, healthy ? 1 : 0);
    },
  });
  new Counter({
    name: 'oarlock_plugin_faults_total',
    help: 'Faults of a plugin by kind: errors of calls, exceeded deadlines, late errors that no call returned, and ended threads.',
    labelNames: ['plugin', 'slot', 'kind'],
    registers: [registry],
    collect() {
      this.reset();
      for (const { name, slot, faults } of health()) for (const kind of kinds) this.inc({ plugin: name, slot, kind }, faults[kind]);
    },
  });
  return registry;
}
