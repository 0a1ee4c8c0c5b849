import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { KubeObject } from '@oarlock/api/object';
import { configMap, TestServer } from '../../../support/pipeline-fixture.ts';
import { applyTo, entries, fieldsOf, type ApplyRequest, type TrackedObject } from '../../../support/tracked-objects.ts';

let server: TestServer;
beforeEach(async () => {
  server = await TestServer.start();
});
afterEach(() => server.stop());

const apply = (...request: ApplyRequest) => applyTo(server, ...request);

describe('apply that gives up fields', () => {
  const labelled = (metadata: KubeObject['metadata'], data?: Record<string, string>) => ({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'c', ...metadata },
    ...(data && { data }),
  });

  it('removes all labels and annotations that the manager applied, and keeps name and namespace', async () => {
    await apply('configmaps', labelled({ labels: { a: 'b' }, annotations: { c: 'd' } }, { x: 'y' }), 'me');
    const after = await apply('configmaps', labelled({}, { x: 'y' }), 'me');
    expect(after.metadata).toMatchObject({ name: 'c', namespace: 'default', uid: expect.any(String) as string });
    expect(after.metadata?.labels).toBeUndefined();
    expect(after.metadata?.annotations).toBeUndefined();
    expect(fieldsOf(after, 'me')).toEqual({ 'f:data': { 'f:x': {} } });
    const nothing = await apply('configmaps', labelled({}), 'me');
    expect(nothing.data).toBeUndefined();
    expect(entries(nothing)).toEqual([]);
  });

  it('keeps labels that another manager owns', async () => {
    await apply('configmaps', labelled({ labels: { a: 'b' } }), 'me');
    await apply('configmaps', labelled({ labels: { other: 'x' } }), 'you');
    expect((await apply('configmaps', labelled({}), 'me')).metadata?.labels).toEqual({ other: 'x' });
  });

  it.each([
    ['null', null],
    ['an empty map', {}],
  ])('owns labels that are %s, without values', async (_title, labels) => {
    await apply('configmaps', labelled({ labels: { a: 'b' } }), 'me');
    const after = await apply('configmaps', labelled({ labels } as unknown as KubeObject['metadata']), 'me');
    expect(after.metadata?.labels).toBeUndefined();
    expect(fieldsOf(after, 'me')).toEqual({ 'f:metadata': { 'f:labels': {} } });
  });

  it('distinguishes false, null and absent', async () => {
    const immutable = (value: boolean | null | undefined) => ({ ...labelled({}), ...(value !== undefined && { immutable: value }) });
    const seen = [];
    for (const value of [false, null, undefined]) {
      const object = await apply('configmaps', immutable(value), 'me');
      seen.push([(object as { readonly immutable?: boolean }).immutable, fieldsOf(object, 'me')]);
    }
    expect(seen).toEqual([
      [false, { 'f:immutable': {} }],
      [undefined, { 'f:immutable': {} }],
      [undefined, undefined],
    ]);
  });

  it('writes the last applied configuration as Go encodes JSON', async () => {
    const annotation = 'kubectl.kubernetes.io/last-applied-configuration';
    await server.create('configmaps', labelled({ annotations: { [annotation]: '{}' } }, { x: '1' }) as KubeObject);
    const config = labelled({ annotations: {} }, { x: '<a href="?b&c">\u2028' });
    const after = await apply('configmaps', config, 'kubectl', { force: 'true' });
    expect(after.metadata?.annotations?.[annotation]).toBe(
      String.raw`{"apiVersion":"v1","data":{"x":"\u003ca href=\"?b\u0026c\"\u003e\u2028"},"kind":"ConfigMap","metadata":{"annotations":{},"name":"c"}}` +
        '\n',
    );
  });
});

describe('patch that only removes', () => {
  it.each([
    ['merge', { metadata: { labels: null } }],
    ['strategic', { metadata: { labels: { $patch: 'delete' } } }],
    ['json', [{ op: 'remove', path: '/metadata/labels' }]],
  ] as const)('takes the fields from their managers and adds none: %s', async (patchType, body) => {
    await server.create('configmaps', configMap('a', { one: '1' }));
    await apply('configmaps', { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a', labels: { x: 'y' } } }, 'me');
    const before = entries(await server.get('configmaps', 'a'));
    expect(before.map(({ manager }) => manager)).toContain('me');
    await server.clock.advance(5000);
    const after = await server.object<TrackedObject>('patch', 'configmaps', {
      namespace: 'default',
      name: 'a',
      body,
      patchType,
      query: { fieldManager: 'remover' },
    });
    expect(after.metadata?.labels).toBeUndefined();
    expect(entries(after)).toEqual(before.filter(({ manager }) => manager !== 'me'));
  });
});
