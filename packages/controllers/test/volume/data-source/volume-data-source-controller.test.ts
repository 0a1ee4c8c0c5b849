import { customResourceDefinitions, persistentVolumeClaims } from '@oarlock/api/resources';
import type { PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import { silentLogger } from '@oarlock/primitives/logger';
import { noTracer } from '@oarlock/kernel/tracing';
import type { Controller } from '@oarlock/spi/controller';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { expect, it, onTestFinished } from 'vitest';
import volumeDataSource, { volumePopulators } from '../../../src/volume/data-source/volume-data-source-controller.ts';

const claim = (name: string, dataSourceRef?: object, volumeName?: string): PersistentVolumeClaim =>
  ({
    metadata: { namespace: 'default', name },
    spec: { ...(dataSourceRef && { dataSourceRef }), ...(volumeName && { volumeName }) },
  }) as PersistentVolumeClaim;
const definition = {
  metadata: { name: 'volumepopulators.populator.storage.k8s.io' },
  spec: {
    group: 'populator.storage.k8s.io',
    scope: 'Cluster' as const,
    names: { kind: 'VolumePopulator', plural: 'volumepopulators' },
    versions: [{ name: 'v1beta1', served: true, storage: true, schema: { openAPIV3Schema: { type: 'object' } } }],
  },
};
const hello = { apiGroup: 'hello.example.com', kind: 'Hello', name: 'one' };

it('warns about claims without a VolumePopulator if VolumePopulators are defined', async () => {
  const clock = new FakeClock();
  const api = memoryApi({ clock });
  const recordedEvents: string[] = [];
  const client = api.client();
  const events = {
    recorder: (component: string) => ({
      event: (about: { metadata?: { name?: string } }, type: string, reason: string, message: string) =>
        void recordedEvents.push(`${component} ${about.metadata?.name} ${type} ${reason} ${message}`),
    }),
  };
  const controller = volumeDataSource.create(
    { config: {}, informers: api.informers, events, client } as never,
    { clock, log: silentLogger, tracer: noTracer, dataDir: '' } as never,
  ) as Controller;
  onTestFinished(controller.addDynamicWatches?.(() => () => undefined) ?? (() => undefined));
  const look = (name: string) =>
    controller.reconcile(`default/${name}`, { client, signal: new AbortController().signal } as Parameters<typeof controller.reconcile>[1]);
  api.seed(
    persistentVolumeClaims,
    claim('empty'),
    claim('copy', { kind: 'PersistentVolumeClaim', name: 'empty' }),
    claim('restored', { apiGroup: 'snapshot.storage.k8s.io', kind: 'VolumeSnapshot', name: 's' }),
    claim('hello', hello),
    claim('bound', hello, 'pv-1'),
  );
  await Promise.all([
    api.informers.forResource(persistentVolumeClaims).whenSynced(),
    api.informers.forResource(customResourceDefinitions).whenSynced(),
  ]);
  const all = ['empty', 'copy', 'restored', 'hello', 'bound', 'gone'];
  for (const name of all) await look(name);
  expect(recordedEvents).toEqual([]);
  await client.create(customResourceDefinitions, definition as never);
  await expect
    .poll(() => api.informers.forResource(customResourceDefinitions).get('volumepopulators.populator.storage.k8s.io'))
    .toBeDefined();
  // the kind is discovered when the definition is established
  await client.patch(
    customResourceDefinitions,
    { name: definition.metadata.name },
    'merge',
    { status: { conditions: [{ type: 'Established', status: 'True' }] } },
    { subresource: 'status' },
  );
  await expect.poll(async () => (await look('hello'), recordedEvents.length)).toBeGreaterThan(0);
  recordedEvents.length = 0;
  for (const name of all) await look(name);
  expect(recordedEvents).toEqual([
    'data-source-validator hello Warning UnrecognizedDataSourceKind The data source for this PVC does not match any registered VolumePopulator',
  ]);
  recordedEvents.length = 0;
  await client.create(volumePopulators, { metadata: { name: 'hello' }, sourceKind: { group: 'hello.example.com', kind: 'Hello' } });
  await look('hello');
  expect(recordedEvents).toEqual([]);
  await api.stop();
});
