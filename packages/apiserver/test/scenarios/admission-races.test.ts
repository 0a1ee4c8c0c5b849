import type { KubeObject } from '@oarlock/api/object';
import { allow, deny, type AdmissionPlugin, type AdmissionRequest } from '@oarlock/spi/admission';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { configMap, pod, rejectionOf, TestServer } from '../support/pipeline-fixture.ts';

// an object that changes between its admission and its commit: the object that is stored was admitted, in the state that is stored

type Data = KubeObject & { readonly data?: Readonly<Record<string, string>> };
interface Decision {
  readonly operation: string;
  readonly subresource: string;
  readonly old: Data | undefined;
  readonly object: Data | undefined;
}

let server: TestServer;
let decisions: Decision[];
/** Runs once, after the plugin has decided and before the commit. */
let interfere: (() => Promise<unknown>) | undefined;
let denyIf: (request: AdmissionRequest) => boolean;

const gate: AdmissionPlugin = {
  matches: [{ resources: ['*'], operations: ['CREATE', 'UPDATE', 'DELETE'] }],
  async validate(request) {
    const { operation, subresource, old, object } = request;
    // requests of the interference itself pass
    if (request.identity.name === 'other') return allow;
    decisions.push({ operation, subresource, old, object });
    const denied = denyIf(request);
    const step = interfere;
    interfere = undefined;
    await step?.();
    return denied ? deny('denied by the gate') : allow;
  },
};
/** Changes the object in its own way after the gate of an earlier phase: what is stored is what validation saw last. */
const mutator: AdmissionPlugin = {
  matches: [{ resources: ['configmaps'], operations: ['CREATE', 'UPDATE'] }],
  mutate: ({ object }) => {
    const { data = {} } = object as Data;
    return { ...object, data: { ...data, mutated: String(Number(data['mutated'] ?? 0) + 1) } } as KubeObject;
  },
};

const other = { identity: { name: 'other', groups: ['system:masters', 'system:authenticated'] } };
beforeEach(async () => {
  server = await TestServer.start({ admission: [gate] });
  decisions = [];
  interfere = undefined;
  denyIf = () => false;
});
afterEach(() => server.stop());

const dataOf = (object: KubeObject | undefined) => (object as Data | undefined)?.data;
/** Rejects requests that change `mode` from or to another value than before. */
const modeIsImmutable = ({ old, object }: AdmissionRequest) => old !== undefined && dataOf(old)?.['mode'] !== dataOf(object)?.['mode'];
const applied = (data: object) => ({
  body: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' }, data },
  patchType: 'apply' as const,
  query: { fieldManager: 'm', force: 'true' },
});

describe('an update that is retried after a conflict', () => {
  const open = { mode: 'open' };
  const writes: readonly (readonly [string, (data: Record<string, string>) => Promise<KubeObject>])[] = [
    ['PUT', (data) => server.update('configmaps', configMap('a', data))],
    ['merge patch', (data) => server.patch('configmaps', 'a', { data })],
    ['JSON patch', (data) => server.patch('configmaps', 'a', jsonPatch(data), { patchType: 'json' })],
    ['strategic merge patch', (data) => server.patch('configmaps', 'a', { data }, { patchType: 'strategic' })],
    ['apply', (data) => server.patch('configmaps', 'a', undefined, applied(data))],
  ];
  const jsonPatch = (data: Record<string, string>) =>
    Object.entries(data).map(([key, value]) => ({ op: 'add', path: `/data/${key}`, value }));

  it.each(writes)('is admitted again with the newest object, with and without a change: %s', async (_name, write) => {
    denyIf = modeIsImmutable;
    for (const data of [{ ...open, touched: '1' }, open]) {
      await server.create('configmaps', configMap('a', open), other);
      decisions = [];
      // a policy that compares with the old object would allow the change if it saw the object from before
      interfere = () => server.update('configmaps', configMap('a', { mode: 'closed' }), other);
      expect((await rejectionOf(write(data))).message).toContain('denied by the gate');
      expect(decisions.map(({ old }) => dataOf(old)?.['mode'])).toEqual(['open', 'closed']);
      expect(dataOf(await server.get('configmaps', 'a'))).toEqual({ mode: 'closed' });
      await server.remove('configmaps', 'a', other);
    }
  });

  it.each(writes)('stores the object that was admitted last: %s', async (_name, write) => {
    await server.create('configmaps', configMap('a', { mode: 'open', more: '1' }));
    decisions = [];
    interfere = () => server.patch('configmaps', 'a', { data: { mode: 'closed', more: '2' } }, other);
    await write({ ...open, touched: '1' });
    expect(decisions.map(({ old }) => dataOf(old)?.['more'])).toEqual(['1', '2']);
    expect(dataOf(await server.get('configmaps', 'a'))).toEqual(dataOf(decisions.at(-1)?.object));
  });

  it('conflicts if the request names the version that it has read', async () => {
    const created = await server.create('configmaps', configMap('a', { mode: 'open' }));
    interfere = () => server.patch('configmaps', 'a', { data: { mode: 'closed' } }, other);
    const { resourceVersion = '' } = created.metadata ?? {};
    const put = server.update('configmaps', configMap('a', { mode: 'open' }, { resourceVersion, labels: { a: 'b' } }));
    expect((await rejectionOf(put)).status.code).toBe(409);
    const deletion = server.remove('configmaps', 'a', {
      body: { kind: 'DeleteOptions', apiVersion: 'v1', preconditions: { resourceVersion } },
    });
    expect((await rejectionOf(deletion)).status.code).toBe(409);
  });

  it('does not change another object of the same name', async () => {
    const created = await server.create('configmaps', configMap('a', { mode: 'open' }));
    const { uid = '' } = created.metadata ?? {};
    const replace = async () => {
      await server.remove('configmaps', 'a', other);
      await server.create('configmaps', configMap('a', { mode: 'closed' }), other);
    };
    interfere = replace;
    expect((await rejectionOf(server.update('configmaps', configMap('a', { x: 'y' }, { uid })))).status.code).toBe(409);
    interfere = replace;
    const current = await server.get('configmaps', 'a');
    const deletion = server.remove('configmaps', 'a', {
      body: { kind: 'DeleteOptions', apiVersion: 'v1', preconditions: { uid: current.metadata?.uid } },
    });
    expect((await rejectionOf(deletion)).status.code).toBe(409);
    expect(dataOf(await server.get('configmaps', 'a'))).toEqual({ mode: 'closed' });
  });
});

describe('a write whose operation changes before the commit', () => {
  it('is admitted as a create, and again as an update, if the object appears: apply', async () => {
    interfere = () => server.create('configmaps', configMap('a', { mode: 'closed' }), other);
    denyIf = modeIsImmutable;
    expect((await rejectionOf(server.patch('configmaps', 'a', undefined, applied({ mode: 'open' })))).message).toContain('denied');
    expect(decisions.map(({ operation }) => operation)).toEqual(['CREATE', 'UPDATE']);
    expect(dataOf(await server.get('configmaps', 'a'))).toEqual({ mode: 'closed' });
  });

  it('requires permission to create, and is admitted as a create, if the object disappears: apply', async () => {
    await server.stop();
    const mayCreate = { value: false };
    server = await TestServer.start({
      admission: [gate],
      authz: [
        {
          authorize: ({ verb, identity }) =>
            verb !== 'create' || identity.name === 'other' || mayCreate.value
              ? { decision: 'allow', reason: '' }
              : { decision: 'deny', reason: '' },
        },
      ],
    });
    const attempt = async () => {
      await server.create('configmaps', configMap('a', { mode: 'open' }), other);
      decisions = [];
      interfere = () => server.remove('configmaps', 'a', other);
      return server.patch('configmaps', 'a', undefined, applied({ mode: 'closed' }));
    };
    expect((await rejectionOf(attempt())).status.code).toBe(403);
    expect(decisions.map(({ operation }) => operation)).toEqual(['UPDATE']);
    expect((await rejectionOf(server.get('configmaps', 'a'))).status.code).toBe(404);
    mayCreate.value = true;
    denyIf = ({ operation }) => operation === 'CREATE';
    expect((await rejectionOf(attempt())).message).toContain('denied');
    expect(decisions.map(({ operation }) => operation)).toEqual(['UPDATE', 'CREATE']);
  });

  it('does not create an object that disappears: PUT and patch', async () => {
    for (const write of [
      () => server.update('configmaps', configMap('a', { mode: 'closed' })),
      () => server.patch('configmaps', 'a', { data: { mode: 'closed' } }),
    ]) {
      await server.create('configmaps', configMap('a', { mode: 'open' }), other);
      interfere = () => server.remove('configmaps', 'a', other);
      expect((await rejectionOf(write())).status.code).toBe(404);
      expect((await rejectionOf(server.get('configmaps', 'a'))).status.code).toBe(404);
    }
  });
});

describe('subresources', () => {
  it('keep what the other one changed meanwhile: status and spec', async () => {
    const created = await server.create('pods', pod('a'));
    const status = { phase: 'Running', podIP: '10.0.0.1', podIPs: [{ ip: '10.0.0.1' }] };
    const report = (more: KubeObject['metadata'] = {}) =>
      server.update(
        'pods',
        { ...created, metadata: { name: 'a', namespace: 'default', ...more }, ...{ status } },
        { subresource: 'status' },
      );
    interfere = () =>
      server.patch('pods', 'a', { spec: { containers: [{ name: 'main', image: 'other' }] } }, { ...other, patchType: 'strategic' });
    await report();
    const both = (await server.get('pods', 'a')) as KubeObject & { spec: { containers: { image: string }[] }; status: object };
    expect([both.spec.containers[0]?.image, both.status]).toMatchObject(['other', status]);
    interfere = () => server.patch('pods', 'a', { status: { reason: 'Later' } }, { ...other, subresource: 'status' });
    decisions = [];
    await server.patch('pods', 'a', { metadata: { labels: { a: 'b' } }, status: { reason: 'Mine' } });
    expect(await server.get('pods', 'a')).toMatchObject({ metadata: { labels: { a: 'b' } }, status: { ...status, reason: 'Later' } });
    expect(decisions).toHaveLength(2);
  });
});

describe('a deletion', () => {
  it('is admitted again if the object changes, and keeps an object that got a finalizer', async () => {
    await server.create('configmaps', configMap('a'));
    interfere = () => server.patch('configmaps', 'a', { metadata: { finalizers: ['example.com/hold'] } }, other);
    decisions = [];
    await server.remove('configmaps', 'a');
    expect(decisions.map(({ old }) => old?.metadata?.finalizers ?? [])).toEqual([[], ['example.com/hold']]);
    expect((await server.get('configmaps', 'a')).metadata).toMatchObject({
      finalizers: ['example.com/hold'],
      deletionTimestamp: expect.any(String),
    });
  });

  it('does not remove an object to which a policy has meanwhile given protection', async () => {
    await server.create('configmaps', configMap('a', { protected: 'no' }));
    denyIf = ({ operation, old }) => operation === 'DELETE' && dataOf(old)?.['protected'] === 'yes';
    interfere = () => server.patch('configmaps', 'a', { data: { protected: 'yes' } }, other);
    expect((await rejectionOf(server.remove('configmaps', 'a'))).message).toContain('denied');
    expect(dataOf(await server.get('configmaps', 'a'))).toEqual({ protected: 'yes' });
  });

  it('is not undone by an update that was admitted before, and no finalizer is added after it', async () => {
    await server.create('configmaps', configMap('a', {}, { finalizers: ['example.com/hold'] }));
    interfere = () => server.remove('configmaps', 'a', other);
    const added = server.patch('configmaps', 'a', { metadata: { finalizers: ['example.com/hold', 'example.com/more'] } });
    expect((await rejectionOf(added)).status.code).toBe(422);
    // the last finalizer goes while its removal is admitted: the object is gone, and the update does not create it again
    interfere = () => server.patch('configmaps', 'a', { metadata: { finalizers: null } }, other);
    expect((await rejectionOf(server.patch('configmaps', 'a', { metadata: { labels: { a: 'b' } } }))).status.code).toBe(404);
  });
});

describe('a mutating plugin', () => {
  it.each(['before', 'after'])('in the list %s a validating one changes no object that the latter does not see', async (place) => {
    await server.stop();
    server = await TestServer.start({ admission: place === 'before' ? [mutator, gate] : [gate, mutator] });
    const stored = async () => dataOf(await server.get('configmaps', 'a'));
    await server.create('configmaps', configMap('a'));
    expect(await stored()).toEqual(dataOf(decisions.at(-1)?.object));
    interfere = () => server.patch('configmaps', 'a', { data: { more: '2' } }, other);
    await server.update('configmaps', configMap('a', { mode: 'open' }));
    expect(await stored()).toEqual(dataOf(decisions.at(-1)?.object));
    interfere = () => server.patch('configmaps', 'a', { data: { more: '3' } }, other);
    await server.patch('configmaps', 'a', { data: { mode: 'closed' } });
    expect(await stored()).toEqual(dataOf(decisions.at(-1)?.object));
    await server.patch('configmaps', 'a', undefined, applied({ mode: 'applied' }));
    expect(await stored()).toMatchObject({ mode: 'applied', mutated: expect.any(String) });
    expect(await stored()).toEqual(dataOf(decisions.at(-1)?.object));
  });

  it('receives frozen objects: what was admitted cannot change later', async () => {
    denyIf = ({ object }) => {
      expect(Object.isFrozen(object) && Object.isFrozen(dataOf(object))).toBe(true);
      return false;
    };
    await server.create('configmaps', configMap('a', { mode: 'open' }));
    await server.patch('configmaps', 'a', { data: { mode: 'closed' } });
  });
});
