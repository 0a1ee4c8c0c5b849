import type { KubeObject } from '@oarlock/api/object';
import { configMaps, customResourceDefinitions, namespaces } from '@oarlock/api/resources';
import { resource } from '@oarlock/api/resource';
import type { CustomResourceDefinition } from '@oarlock/api/types/apiextensions-v1';
import garbageCollector from '@oarlock/controllers/api-machinery/garbage-collector/garbage-collector';
import namespaceController from '@oarlock/controllers/api-machinery/namespace/namespace-controller';
import type { FakeClock } from '@oarlock/testing/fake-clock';
import type { MemoryApi } from '@oarlock/testing/memory-api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { startControllers, type RunningController } from '../support/run-controller.ts';

const widgets = resource('example.com', 'v1', 'widgets', 'Widget', true);
const definition: CustomResourceDefinition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'widgets.example.com' },
  spec: {
    group: 'example.com',
    scope: 'Namespaced',
    names: { plural: 'widgets', kind: 'Widget' },
    versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: { type: 'object' } } }],
  },
  status: { conditions: [{ type: 'Established', status: 'True' }] },
};

let running: RunningController;
let clock: FakeClock;
let api: MemoryApi;

beforeEach(async () => {
  running = await startControllers([{ plugin: garbageCollector }, { plugin: namespaceController }]);
  ({ clock, api } = running);
});
afterEach(() => running.stop());

async function define(): Promise<void> {
  const created = await api.client().create(customResourceDefinitions, definition);
  const { status } = definition;
  await api.client().update(customResourceDefinitions, { ...created, ...(status && { status }) }, { subresource: 'status' });
}

const widget = (name: string, more: KubeObject['metadata'] = {}): KubeObject => ({
  apiVersion: 'example.com/v1',
  kind: 'Widget',
  metadata: { namespace: 'd', name, ...more },
});

describe('custom resources', () => {
  it('are garbage collected like built-in kinds: should support cascading deletion of custom resources', async () => {
    await define();
    await clock.settle();
    const owner = await api.client().create(widgets, widget('owner'));
    const ref = { apiVersion: 'example.com/v1', kind: 'Widget', name: 'owner', uid: owner.metadata?.uid ?? '' };
    await api.client().create(widgets, widget('dependent', { ownerReferences: [ref] }));
    await api
      .client()
      .create(configMaps, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace: 'd', name: 'data', ownerReferences: [ref] } });
    await clock.settle();
    expect(api.objects(widgets, 'd')).toHaveLength(2);
    await api.client().delete(widgets, { namespace: 'd', name: 'owner' });
    await clock.advance(1_000);
    expect(api.objects(widgets, 'd')).toEqual([]);
    expect(api.objects(configMaps, 'd')).toEqual([]);
  });

  it('are deleted with their namespace', async () => {
    await api
      .client()
      .create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'd' }, spec: { finalizers: ['kubernetes'] } });
    await define();
    await api.client().create(widgets, widget('a'));
    await clock.settle();
    await api.client().delete(namespaces, { name: 'd' });
    await clock.advance(10_000);
    expect(api.objects(widgets, 'd')).toEqual([]);
  });

  it('are no longer watched when their definition is deleted', async () => {
    await define();
    await clock.settle();
    const informer = api.informers.forResource(widgets);
    await informer.whenSynced();
    await api.client().delete(customResourceDefinitions, { name: 'widgets.example.com' });
    await clock.settle();
    expect(api.informers.forResource(widgets)).not.toBe(informer);
  });
});
