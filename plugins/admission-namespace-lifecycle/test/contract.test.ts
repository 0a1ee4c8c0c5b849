import { configMaps, namespaces, nodes, pods } from '@oarlock/api/resources';
import { resource } from '@oarlock/api/resource';
import { failure } from '@oarlock/api/status';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Admission } from '@oarlock/spi/admission';
import { admissionContract, admissionRequest } from '@oarlock/spi/admission/contract';
import { Client, Informers } from '@oarlock/spi/client';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { describe, expect, it } from 'vitest';
import plugin from '../src/plugin.ts';

const namespace = (name: string, phase = 'Active', deletionTimestamp?: string) => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name, ...(deletionTimestamp !== undefined && { deletionTimestamp, finalizers: ['x/y'] }) },
  spec: { finalizers: ['kubernetes'] },
  status: { phase },
});
const reviews = resource('authorization.k8s.io', 'v1', 'localsubjectaccessreviews', 'LocalSubjectAccessReview', true);

async function open(config: unknown = {}) {
  const clock = new FakeClock();
  const api = memoryApi({ clock });
  api.seed(
    namespaces,
    namespace('default'),
    namespace('here'),
    namespace('going', 'Terminating', '2026-01-01T00:00:00Z'),
    namespace('marked', 'Active', '2026-01-01T00:00:00Z'),
    namespace('kube-system'),
  );
  const [created] = new PluginHost({ clock })
    .provide(Client, api.client())
    .provide(Informers, api.informers)
    .add({ plugin, config })
    .get(Admission);
  if (created === undefined) throw new Error('not created');
  await clock.settle();
  return { clock, api, plugin: created };
}
const map = (inside: string) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace: inside, name: 'm' } });
const removal = (name: string) => admissionRequest('DELETE', namespaces, undefined, { old: namespace(name), name });

admissionContract('admission-namespace-lifecycle', async () => {
  const { api, plugin: created } = await open();
  return {
    plugin: created,
    cases: [
      { title: 'an existing namespace', request: admissionRequest('CREATE', configMaps, map('here')), expected: 'allowed' },
      {
        title: 'a missing namespace',
        request: admissionRequest('CREATE', configMaps, map('nowhere')),
        expected: 'denied',
        message: 'namespaces "nowhere" not found',
      },
      {
        title: 'a terminating namespace',
        request: admissionRequest('CREATE', configMaps, map('going')),
        expected: 'denied',
        message: /unable to create new content in namespace going because it is being terminated$/,
      },
      {
        title: 'a namespace that was just deleted',
        request: admissionRequest('CREATE', pods, { ...map('marked'), kind: 'Pod', spec: { containers: [] } }),
        expected: 'denied',
        message: /being terminated/,
      },
      {
        title: 'a subresource',
        request: admissionRequest('CREATE', pods, map('nowhere'), { subresource: 'eviction' }),
        expected: 'denied',
      },
      { title: 'a cluster-scoped object', request: admissionRequest('CREATE', nodes, { metadata: { name: 'n1' } }), expected: 'ignored' },
      { title: 'a Namespace', request: admissionRequest('CREATE', namespaces, namespace('new')), expected: 'ignored' },
      {
        title: 'an update',
        request: admissionRequest('UPDATE', configMaps, map('going'), { old: map('going') }),
        expected: 'ignored',
      },
      {
        title: 'a deletion',
        request: admissionRequest('DELETE', configMaps, undefined, { old: map('going'), namespace: 'going' }),
        expected: 'ignored',
      },
      {
        title: 'an access review',
        request: admissionRequest('CREATE', reviews, { metadata: { namespace: 'nowhere' } }),
        expected: 'ignored',
      },
      { title: 'deletion of a namespace', request: removal('here'), expected: 'allowed' },
      { title: 'deletion of default', request: removal('default'), expected: 'denied', message: 'this namespace may not be deleted' },
      { title: 'deletion of kube-system', request: removal('kube-system'), expected: 'denied' },
    ],
    writes: () => api.requests.filter(({ verb }) => !['get', 'list', 'watch'].includes(verb)).length,
    failDependencies: () => api.failNext({ verb: 'get' }, failure('ServiceUnavailable', 'the store is unavailable'), 10_000),
    dispose: () => api.stop(),
  };
});

describe('admission-namespace-lifecycle', () => {
  it('reads a namespace from the API if the cache does not have it yet', async () => {
    const { api, plugin: created } = await open();
    api.seed(namespaces, namespace('fresh'));
    expect(await created.validate?.(admissionRequest('CREATE', configMaps, map('fresh')))).toEqual({ allowed: true });
    await api.stop();
  });

  it('normally uses the cache', async () => {
    const { api, plugin: created } = await open();
    api.requests.length = 0;
    for (let each = 0; each < 50; each++) await created.validate?.(admissionRequest('CREATE', configMaps, map('here')));
    expect(api.requests).toEqual([]);
    await api.stop();
  });

  it('denies the deletion of configured immortal namespaces', async () => {
    const { api, plugin: created } = await open({ immortal: ['here'] });
    expect(await created.validate?.(removal('here'))).toMatchObject({ allowed: false });
    expect(await created.validate?.(removal('default'))).toEqual({ allowed: true });
    await api.stop();
  });

  it('denies a create whose namespace is deleted between the mutating and the validating phase', async () => {
    const { clock, api, plugin: created } = await open();
    const request = admissionRequest('CREATE', configMaps, map('here'));
    expect(await created.mutate?.(request)).toMatchObject(map('here'));
    // a mutating webhook may take 30 seconds in between
    api.seed(namespaces, namespace('here', 'Active', '2026-01-01T00:00:00Z'));
    await clock.settle();
    expect(await created.validate?.(request)).toMatchObject({ allowed: false, message: expect.stringContaining('being terminated') });
    await api.stop();
  });

  it("checks creates in the mutating phase, with upstream's messages", async () => {
    const { api, plugin: created } = await open();
    const here = map('here');
    expect(await created.mutate?.(admissionRequest('CREATE', configMaps, here))).toMatchObject(here);
    const status = async (inside: string) =>
      ((await created.mutate?.(admissionRequest('CREATE', configMaps, map(inside)))) as { status?: object } | undefined)?.status;
    expect(await status('nowhere')).toMatchObject({
      code: 404,
      message: 'namespaces "nowhere" not found',
      details: { kind: 'namespaces', name: 'nowhere' },
    });
    expect(await status('going')).toMatchObject({
      code: 403,
      message: 'configmaps "m" is forbidden: unable to create new content in namespace going because it is being terminated',
      details: {
        kind: 'configmaps',
        name: 'm',
        causes: [{ reason: 'NamespaceTerminating', message: 'namespace going is being terminated', field: 'metadata.namespace' }],
      },
    });
    await api.stop();
  });
});
