import { events } from '@oarlock/api/resources';
import { EventBroadcaster } from '@oarlock/client/events/event-broadcaster';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { expect, it } from 'vitest';
import { pluginHealthEvents } from '../../src/hosting/plugin-health-events.ts';

it('an Event about a plugin is written also while many other plugins become unhealthy', async () => {
  const clock = new FakeClock();
  const api = memoryApi({ clock });
  const broadcaster = new EventBroadcaster({ client: api.client(), clock, random: () => 0.5 });
  const report = pluginHealthEvents(broadcaster, 'node-a');
  const names = Array.from({ length: 40 }, (_, index) => `admission-${index}`);
  for (const name of names) report({ name, healthy: false, suspended: false, reason: 'it loops' } as never);
  await broadcaster.flush();
  const items = api.objects(events);
  expect(items.map(({ message }) => message)).toEqual(names.map((name) => `plugin ${name}: it loops`));
  expect(items[0]).toMatchObject({
    type: 'Warning',
    reason: 'PluginUnhealthy',
    involvedObject: { kind: 'ConfigMap', namespace: 'kube-system', name: 'oarlock-config' },
    source: { component: 'oarlock/admission-0', host: 'node-a' },
  });
  await broadcaster.stop();
});
