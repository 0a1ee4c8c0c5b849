import type { PluginHealthView } from '@oarlock/kernel/plugin-health';
import type { EventRecorder, EventRecorderFactory } from '@oarlock/spi/client';

/** The object that Events about the control plane name: the ConfigMap in which the control plane publishes its configuration. */
export const controlPlaneObject = {
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { namespace: 'kube-system', name: 'oarlock-config' },
} as const;

/**
 * Returns a listener that writes an Event when a plugin becomes unhealthy, suspended or healthy. Each plugin is a source of its own: the limit of Events
 * from one source about one object would drop those of other plugins.
 */
export function pluginHealthEvents(events: EventRecorderFactory, host: string): (health: PluginHealthView) => void {
  const recorders = new Map<string, EventRecorder>();
  return ({ name, healthy, suspended, reason = '' }) => {
    let recorder = recorders.get(name);
    if (recorder === undefined) recorders.set(name, (recorder = events.recorder(`oarlock/${name}`, host)));
    if (healthy) recorder.event(controlPlaneObject, 'Normal', 'PluginHealthy', `plugin ${name} is healthy again`);
    else recorder.event(controlPlaneObject, 'Warning', suspended ? 'PluginSuspended' : 'PluginUnhealthy', `plugin ${name}: ${reason}`);
  };
}
