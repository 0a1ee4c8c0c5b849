import { configMaps, leases } from '@oarlock/api/resources';
import { controllerRole } from '@oarlock/component-server/serve-controller';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Client, Events, Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { Roles } from '@oarlock/spi/role';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { expect, it } from 'vitest';
import { z } from 'zod';

it('reconciles while it holds the Lease, and releases the Lease at the end', async () => {
  const clock = new FakeClock();
  const api = memoryApi({ clock });
  const reconciled: string[] = [];
  const plugin = Controllers.plugin({
    id: 'controller-seen',
    config: z.strictObject({}),
    needs: { informers: Informers },
    create: ({ informers }) => ({
      name: 'seen',
      watches: [watch(informers.forResource(configMaps), ({ metadata }) => [metadata?.name ?? ''])],
      async reconcile(key) {
        reconciled.push(key);
      },
    }),
  });
  const events: string[] = [];
  const name = { namespace: 'tools', name: 'seen' };
  const recorder = (component: string) => ({
    event: (_object: object, _type: string, _reason: string, message: string) => {
      events.push(`${component} ${message.replace(/^\S+/, 'I')}`);
    },
  });
  const host = new PluginHost({ clock })
    .provide(Client, api.client())
    .provide(Informers, api.informers)
    .provide(Events, { recorder })
    .add({ plugin })
    .add({ plugin: controllerRole({ lease: name, leaseDurationMs: 15_000, renewDeadlineMs: 10_000, retryPeriodMs: 2000 }) });
  api.seed(configMaps, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace: 'default', name: 'a' } });
  await host.start();
  await host.get(Roles)[0]?.waitUntilReady?.(new AbortController().signal);
  await api.settle();
  expect(reconciled).toEqual(['a']);
  expect(api.object(leases, name)?.spec?.holderIdentity).toMatch(/_/);
  const stopped = host.stop();
  await api.settle();
  await stopped;
  expect(api.object(leases, name)?.spec?.holderIdentity).toBe('');
  expect(events).toEqual(['seen I became leader', 'seen I stopped leading']);
  await api.stop();
});
