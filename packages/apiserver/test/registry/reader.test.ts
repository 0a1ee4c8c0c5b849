import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MemoryStorage } from '@oarlock/storage-memory/memory-storage';
import { configMap, pod, rejectionOf, TestServer } from '../support/pipeline-fixture.ts';

let server: TestServer;
beforeEach(async () => {
  server = await TestServer.start();
});
afterEach(() => server.stop());

describe('get', () => {
  it('returns every acknowledged write', async () => {
    for (let i = 0; i < 20; i++) {
      const created = await server.create('configmaps', configMap(`c${i}`));
      expect(await server.get('configmaps', `c${i}`)).toEqual(created);
    }
  });

  it('names the missing object', async () => {
    const error = await rejectionOf(server.get('configmaps', 'nobody'));
    expect(error.status).toMatchObject({
      reason: 'NotFound',
      code: 404,
      message: 'configmaps "nobody" not found',
      details: { name: 'nobody', kind: 'configmaps' },
    });
    expect((await rejectionOf(server.get('deployments.apps', 'nobody'))).message).toBe('deployments.apps "nobody" not found');
  });

  it('waits for a resourceVersion, and rejects one too far in the future', async () => {
    const { metadata } = await server.create('configmaps', configMap('a'));
    expect(await server.get('configmaps', 'a', { query: { resourceVersion: metadata?.resourceVersion ?? '' } })).toMatchObject({
      metadata: { name: 'a' },
    });
    expect(await server.get('configmaps', 'a', { query: { resourceVersion: '0' } })).toMatchObject({ metadata: { name: 'a' } });
    const ahead = rejectionOf(server.get('configmaps', 'a', { query: { resourceVersion: '1000' } }));
    await server.clock.advance(3_000);
    expect((await ahead).status).toMatchObject({
      code: 504,
      reason: 'Timeout',
      message: `Timeout: Too large resource version: 1000, current: ${metadata?.resourceVersion}`,
      details: { retryAfterSeconds: 1, causes: [{ reason: 'ResourceVersionTooLarge' }] },
    });
    expect((await rejectionOf(server.get('configmaps', 'a', { query: { resourceVersion: 'x' } }))).status).toMatchObject({
      code: 400,
      message: 'invalid resource version: resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax',
    });
  });

  it('returns the same frozen object to all callers', async () => {
    await server.create('configmaps', configMap('a', { key: 'grüße' }));
    const [one, two] = [
      await server.handle('get', 'configmaps', { namespace: 'default', name: 'a' }),
      await server.handle('get', 'configmaps', { namespace: 'default', name: 'a' }),
    ];
    if (one.kind !== 'object' || two.kind !== 'object') throw new Error('no objects');
    expect(one.item).toBe(two.item);
    expect(JSON.parse(one.item.json().toString())).toEqual(one.item.object);
    expect(Object.isFrozen((one.item.object as { data?: object }).data)).toBe(true);
  });

  it('reads objects that another program wrote, whatever their field order', async () => {
    const storage = new MemoryStorage();
    await storage.commit(
      [
        {
          key: '/registry/configmaps/default/old',
          value: Buffer.from('{"data":{"a":"b"},"metadata":{"namespace":"default","name":"old"}}'),
        },
      ],
      [],
    );
    await storage.commit([{ key: '/registry/configmaps/other/broken', value: Buffer.from('{') }], []);
    const other = await TestServer.start({ storage });
    await expect(other.list('configmaps')).rejects.toMatchObject({
      status: { code: 500, message: 'Internal error occurred: unable to decode object at key "/registry/configmaps/other/broken"' },
    });
    const { items } = await other.list('configmaps', {}, { namespace: 'default' });
    expect(items.map(({ object }) => object)).toEqual([
      { apiVersion: 'v1', kind: 'ConfigMap', data: { a: 'b' }, metadata: { namespace: 'default', name: 'old', resourceVersion: '1' } },
    ]);
    expect(JSON.parse(items[0]?.json().toString() ?? '')).toEqual(items[0]?.object);
    await other.stop();
  });
});

describe('list', () => {
  const fill = async (count: number, namespace = 'default') => {
    for (let i = 0; i < count; i++)
      await server.create('configmaps', configMap(`c${i}`, {}, { namespace, labels: { parity: i % 2 === 0 ? 'even' : 'odd' } }), {
        namespace,
      });
  };

  it('lists one namespace or all of them, in order', async () => {
    await fill(2, 'b');
    await fill(2, 'a');
    expect((await server.list('configmaps')).items.map(({ object: { metadata } }) => `${metadata?.namespace}/${metadata?.name}`)).toEqual([
      'a/c0',
      'a/c1',
      'b/c0',
      'b/c1',
    ]);
    expect((await server.list('configmaps', {}, { namespace: 'b' })).names).toEqual(['c0', 'c1']);
    expect((await server.list('configmaps', {}, { namespace: 'nowhere' })).names).toEqual([]);
  });

  it('selects by labels and fields', async () => {
    await fill(4);
    expect((await server.list('configmaps', { labelSelector: 'parity=even' })).names).toEqual(['c0', 'c2']);
    expect((await server.list('configmaps', { labelSelector: 'parity notin (even)' })).names).toEqual(['c1', 'c3']);
    expect((await server.list('configmaps', { fieldSelector: 'metadata.name=c3' })).names).toEqual(['c3']);
    expect((await server.list('configmaps', { fieldSelector: 'metadata.name!=c3' }, { namespace: 'default' })).names).toEqual([
      'c0',
      'c1',
      'c2',
    ]);
    expect((await server.list('configmaps', { fieldSelector: 'metadata.name=c1,metadata.namespace=other' })).names).toEqual([]);
    expect((await rejectionOf(server.list('configmaps', { fieldSelector: 'data.x=y' }))).status).toMatchObject({
      code: 400,
      message: 'field label not supported: data.x',
    });
    expect((await rejectionOf(server.list('configmaps', { labelSelector: 'a in' }))).code).toBe(400);
  });

  it("selects pods by upstream's fields", async () => {
    await server.create('pods', pod('a', { nodeName: 'n1', restartPolicy: 'Never' }));
    await server.create('pods', pod('b', { hostNetwork: true }));
    const by = async (fieldSelector: string) => (await server.list('pods', { fieldSelector })).names;
    expect(await by('spec.nodeName=n1')).toEqual(['a']);
    expect(await by('spec.nodeName=')).toEqual(['b']);
    expect(await by('spec.nodeName!=n1')).toEqual(['b']);
    expect(await by('spec.nodeName=n1,spec.restartPolicy=Always')).toEqual([]);
    expect(await by('status.phase=Pending')).toEqual(['a', 'b']);
    expect(await by('spec.hostNetwork=true')).toEqual(['b']);
    expect(await by('spec.schedulerName=default-scheduler,spec.restartPolicy=Never')).toEqual(['a']);
  });

  it('pages over one snapshot while objects change', async () => {
    await fill(5);
    const first = await server.list('configmaps', { limit: '2' });
    expect(first.names).toEqual(['c0', 'c1']);
    expect(first.metadata).toMatchObject({ remainingItemCount: 3 });
    await server.remove('configmaps', 'c2');
    await server.create('configmaps', configMap('c9'));
    await server.update('configmaps', configMap('c3', { new: 'yes' }));
    const second = await server.list('configmaps', { limit: '2', continue: first.metadata.continue ?? '' });
    expect(second.names).toEqual(['c2', 'c3']);
    expect(second.items[1]?.object).not.toHaveProperty('data');
    expect(second.metadata).toMatchObject({ resourceVersion: first.metadata.resourceVersion, remainingItemCount: 1 });
    const last = await server.list('configmaps', { limit: '2', continue: second.metadata.continue ?? '' });
    expect(last.names).toEqual(['c4']);
    expect(last.metadata.continue).toBeUndefined();
    expect((await server.list('configmaps')).names).toEqual(['c0', 'c1', 'c3', 'c4', 'c9']);
  });

  it('omits remainingItemCount with a selector', async () => {
    await fill(6);
    const first = await server.list('configmaps', { limit: '2', labelSelector: 'parity=even' });
    expect(first.names).toEqual(['c0', 'c2']);
    expect(first.metadata.remainingItemCount).toBeUndefined();
    expect(
      (await server.list('configmaps', { limit: '2', labelSelector: 'parity=even', continue: first.metadata.continue ?? '' })).names,
    ).toEqual(['c4']);
  });

  it('lists at an exact revision', async () => {
    await fill(2);
    const { metadata } = await server.list('configmaps');
    await server.remove('configmaps', 'c0');
    expect(
      (await server.list('configmaps', { resourceVersion: metadata.resourceVersion ?? '', resourceVersionMatch: 'Exact' })).names,
    ).toEqual(['c0', 'c1']);
    expect(
      (await server.list('configmaps', { resourceVersion: metadata.resourceVersion ?? '', limit: '1' })).metadata.resourceVersion,
    ).toBe(metadata.resourceVersion);
    expect(
      (await server.list('configmaps', { resourceVersion: metadata.resourceVersion ?? '', resourceVersionMatch: 'NotOlderThan' })).names,
    ).toEqual(['c1']);
  });

  it("continues from storage before the cache's first revision, and reports compaction", async () => {
    await fill(4);
    const first = await server.list('configmaps', { limit: '1' });
    await server.remove('configmaps', 'c1');
    // a new server has no events of earlier revisions
    const late = await TestServer.start({ storage: server.storage });
    const second = await late.list('configmaps', { limit: '2', continue: first.metadata.continue ?? '' });
    expect(second.names).toEqual(['c1', 'c2']);
    expect(second.metadata).toMatchObject({ remainingItemCount: 1 });
    await server.storage.compact(late.pipeline.revision);
    const gone = await rejectionOf(late.list('configmaps', { limit: '2', continue: first.metadata.continue ?? '' }));
    expect(gone.status).toMatchObject({ code: 410, reason: 'Expired' });
    expect(gone.message).toMatch(/^The provided continue parameter is too old to display a consistent list result\./);
    const rest = await late.list('configmaps', { continue: gone.status.metadata.continue ?? '' });
    expect(rest.names).toEqual(['c2', 'c3']);
    expect((await rejectionOf(late.list('configmaps', { resourceVersion: '1', resourceVersionMatch: 'Exact' }))).status).toMatchObject({
      code: 410,
      message: 'The resourceVersion for the provided list is too old.',
    });
    await late.stop();
  });

  it('rejects a continue token of a compacted revision, although nothing changed and the cache has the revision', async () => {
    await fill(4);
    const first = await server.list('configmaps', { limit: '1' });
    const exact = { resourceVersion: first.metadata.resourceVersion ?? '', resourceVersionMatch: 'Exact' };
    // another resource changes: the list is still the same
    await server.create('secrets', { metadata: { name: 'other' } });
    const query = { limit: '2', continue: first.metadata.continue ?? '' };
    expect((await server.list('configmaps', query)).names).toEqual(['c1', 'c2']);
    await server.storage.compact(server.pipeline.revision);
    const gone = await rejectionOf(server.list('configmaps', query));
    expect(gone.status).toEqual({
      kind: 'Status',
      apiVersion: 'v1',
      metadata: { continue: expect.any(String) as string },
      status: 'Failure',
      reason: 'Expired',
      code: 410,
      message:
        'The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.',
    });
    expect((await rejectionOf(server.list('configmaps', exact))).status).toMatchObject({ code: 410, reason: 'Expired' });
    // the inconsistent token continues at the newest revision, and its next page is consistent with it
    const second = await server.list('configmaps', { limit: '2', continue: gone.status.metadata.continue ?? '' });
    expect(second.names).toEqual(['c1', 'c2']);
    expect(second.metadata).toMatchObject({ resourceVersion: String(server.pipeline.revision), remainingItemCount: 1 });
    await server.remove('configmaps', 'c3');
    const third = await server.list('configmaps', { limit: '2', continue: second.metadata.continue ?? '' });
    expect(third.names).toEqual(['c3']);
    expect(third.metadata).toEqual({ resourceVersion: second.metadata.resourceVersion });
    const selected = await server.list('configmaps', {
      limit: '1',
      labelSelector: 'parity=even',
      continue: gone.status.metadata.continue ?? '',
    });
    expect(selected.metadata.remainingItemCount).toBeUndefined();
  });

  it('rejects conflicting options as upstream does', async () => {
    await fill(2);
    const message = async (query: Record<string, string>) => (await rejectionOf(server.list('configmaps', query))).message;
    expect(await message({ resourceVersionMatch: 'Exact' })).toBe(
      'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided',
    );
    expect(await message({ resourceVersionMatch: 'Exact', resourceVersion: '0' })).toBe(
      'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
    );
    expect(await message({ resourceVersionMatch: 'Sometimes', resourceVersion: '1' })).toContain(
      'resourceVersionMatch: Unsupported value: "Sometimes": supported values: "Exact", "NotOlderThan", ""',
    );
    expect(await message({ sendInitialEvents: 'true' })).toContain('sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list');
    const { metadata } = await server.list('configmaps', { limit: '1' });
    expect(await message({ continue: metadata.continue ?? '', resourceVersion: '1' })).toBe(
      'specifying resource version is not allowed when using continue',
    );
    expect(await message({ continue: 'nonsense' })).toMatch(/^invalid continue token: continue key is not valid: /);
    expect(await message({ limit: 'many' })).toBe('strconv.ParseInt: parsing "many": invalid syntax');
  });
});
