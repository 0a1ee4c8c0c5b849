import type { KubeObject } from '@oarlock/api/object';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { configMap, pod, rejectionOf, TestServer } from '../support/pipeline-fixture.ts';

let server: TestServer;
beforeEach(async () => {
  server = await TestServer.start();
});
afterEach(() => server.stop());

const hold = ['example.com/hold'];
const attack = [...hold, 'example.com/attack'];
const apply = { patchType: 'apply', query: { fieldManager: 'x', force: 'true' } } as const;
type Write = (finalizers: readonly string[]) => Promise<KubeObject>;
/** Every way to write the finalizers of the ConfigMap a. */
const ways: Readonly<Record<string, Write>> = {
  PUT: async (finalizers) => server.update('configmaps', configMap('a', {}, { finalizers: [...finalizers] })),
  'merge patch': (finalizers) => server.patch('configmaps', 'a', { metadata: { finalizers } }),
  'strategic merge patch': (finalizers) =>
    server.patch(
      'configmaps',
      'a',
      { metadata: { finalizers, '$deleteFromPrimitiveList/finalizers': hold.filter((name) => !finalizers.includes(name)) } },
      { patchType: 'strategic' },
    ),
  'JSON patch': (finalizers) =>
    server.patch('configmaps', 'a', [{ op: 'replace', path: '/metadata/finalizers', value: finalizers }], { patchType: 'json' }),
};

describe('finalizers of an object that is being deleted', () => {
  beforeEach(async () => {
    await server.create('configmaps', configMap('a', {}, { finalizers: hold }));
    await server.remove('configmaps', 'a');
  });

  it.each(Object.keys(ways))('cannot be added by %s, and can be removed', async (way) => {
    const rejection = await rejectionOf(ways[way]?.(attack) ?? Promise.resolve());
    expect([rejection.code, rejection.message]).toEqual([422, expect.stringContaining('no new finalizers can be added')]);
    await ways[way]?.([]);
    expect((await rejectionOf(server.get('configmaps', 'a'))).code).toBe(404);
  });

  it('cannot be added by apply', async () => {
    const applied = server.patch('configmaps', 'a', configMap('a', {}, { finalizers: ['example.com/attack'] }), apply);
    expect((await rejectionOf(applied)).message).toContain('no new finalizers can be added');
  });
});

describe('metadata that the server owns', () => {
  const forged = {
    uid: 'forged',
    deletionTimestamp: '2001-01-01T00:00:00Z',
    deletionGracePeriodSeconds: 0,
    creationTimestamp: '2001-01-01T00:00:00Z',
    generation: 77,
    selfLink: '/x',
  };
  const owned = ({ metadata }: KubeObject) => Object.keys(forged).map((key) => (metadata as Readonly<Record<string, unknown>>)[key]);

  it('is not set by a create', async () => {
    const { metadata } = await server.create('configmaps', configMap('b', {}, forged));
    expect([metadata?.uid, metadata?.deletionTimestamp, metadata?.creationTimestamp]).toEqual([
      expect.not.stringContaining('forged'),
      undefined,
      '2026-01-01T00:00:00Z',
    ]);
  });

  it.each<readonly [string, () => Promise<unknown>]>([
    ['PUT', () => server.update('configmaps', configMap('a', { changed: '1' }, { ...forged, uid: '' }))],
    ['PUT with another uid', () => server.update('configmaps', configMap('a', { changed: '1' }, forged))],
    ['merge patch', () => server.patch('configmaps', 'a', { metadata: forged, data: { changed: '1' } })],
    ['apply', () => server.patch('configmaps', 'a', configMap('a', { changed: '1' }, forged), apply)],
  ])('is not changed by %s', async (_way, write) => {
    const before = owned(await server.create('configmaps', configMap('a')));
    await write().catch((error: unknown) => error);
    expect(owned(await server.get('configmaps', 'a'))).toEqual(before);
  });
});

describe('finalizers of a namespace', () => {
  const kubernetes = { finalizers: ['kubernetes'] };
  const finalizersOf = async () => ((await server.get('namespaces', 'team')) as { readonly spec?: object }).spec;
  beforeEach(async () => {
    await server.create('namespaces', { kind: 'Namespace', apiVersion: 'v1', metadata: { name: 'team' } });
  });

  it.each<readonly [string, () => Promise<unknown>]>([
    ['PUT', () => server.update('namespaces', { kind: 'Namespace', apiVersion: 'v1', metadata: { name: 'team' }, ...{ spec: {} } })],
    ['merge patch', () => server.patch('namespaces', 'team', { spec: { finalizers: null } })],
    ['status', () => server.patch('namespaces', 'team', { spec: { finalizers: [] } }, { subresource: 'status' })],
    [
      'apply',
      () =>
        server.patch(
          'namespaces',
          'team',
          { kind: 'Namespace', apiVersion: 'v1', metadata: { name: 'team' }, spec: { finalizers: [] } },
          apply,
        ),
    ],
  ])('are not removed by %s', async (_way, write) => {
    await write().catch((error: unknown) => error);
    expect(await finalizersOf()).toEqual(kubernetes);
  });

  it('are changed by the subresource finalize, which changes no status', async () => {
    const body = {
      kind: 'Namespace',
      apiVersion: 'v1',
      metadata: { name: 'team' },
      ...{ spec: { finalizers: [] }, status: { phase: 'Terminating' } },
    };
    await server.update('namespaces', body, { subresource: 'finalize' });
    const { status } = (await server.get('namespaces', 'team')) as { readonly status?: object };
    expect([status, await finalizersOf()]).toEqual([{ phase: 'Active' }, {}]);
  });
});

describe('a Binding', () => {
  const binding = (metadata: NonNullable<KubeObject['metadata']>): KubeObject => ({
    kind: 'Binding',
    apiVersion: 'v1',
    metadata,
    ...{ target: { kind: 'Node', name: 'n' } },
  });
  const bind = (metadata: NonNullable<KubeObject['metadata']>, query = {}) =>
    server.create('pods', binding(metadata), { subresource: 'binding', name: 'p', namespace: 'default', query });

  it('changes no owners, finalizers or times of the pod', async () => {
    const before = await server.create('pods', pod('p'));
    await bind({
      name: 'p',
      finalizers: attack,
      ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: 'n', uid: '1' }],
      generation: 77,
    });
    const { metadata } = await server.get('pods', 'p');
    for (const part of ['finalizers', 'ownerReferences', 'generation', 'uid', 'creationTimestamp'] as const)
      expect([part, metadata?.[part]]).toEqual([part, before.metadata?.[part]]);
  });

  it('is rejected for a stale pod and for another namespace, also in a dry run', async () => {
    await server.create('pods', pod('p'));
    for (const query of [{}, { dryRun: 'All' }]) {
      expect((await rejectionOf(bind({ name: 'p', resourceVersion: '99' }, query))).code).toBe(409);
      expect((await rejectionOf(bind({ name: 'p', uid: 'other' }, query))).code).toBe(409);
      expect((await rejectionOf(bind({ name: 'p', namespace: 'other' }, query))).code).toBe(400);
    }
    expect(await server.get('pods', 'p')).not.toHaveProperty('spec.nodeName');
  });
});
