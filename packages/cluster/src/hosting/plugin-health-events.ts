import type { PluginHealthView } from '@oarlock/kernel/plugin-health';
import type { EventRecorderFactory } from '@oarlock/spi/client';

/** The object that Events about the control plane name: the ConfigMap in which the control plane publishes its configuration. */
export const controlPlaneObject = {
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { namespace: 'kube-system', name: 'oarlock-config' },
} as const;

/** Returns a listener that writes an Event when a plugin becomes unhealthy, suspended or healthy. */
export function pluginHealthEvents(events: EventRecorderFactory, host: string): (health: PluginHealthView) => void {
  const recorder = events.recorder('oarlock', host);
  return ({ name, healthy, suspended, reason = '' }) => {
    if (healthy) recorder.event(controlPlaneObject, 'Normal', 'PluginHealthy', `plugin ${name} is healthy again`);
    else recorder.event(controlPlaneObject, 'Warning', suspended ? 'PluginSuspended' : 'PluginUnhealthy', `plugin ${name}: ${reason}`);
  };
}
