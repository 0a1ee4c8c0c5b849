import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { KubeObject } from '@oarlock/api/object';
import type { StatusError } from '@oarlock/api/status';
import { configMap, pod, refusal, TestServer } from '../support/pipeline-fixture.ts';

let server: TestServer;
beforeEach(async () => {
  server = await TestServer.start();
});
afterEach(() => server.stop());

const deployment = (name: string, spec: Record<string, unknown> = {}): KubeObject => ({
  kind: 'Deployment',
  apiVersion: 'apps/v1',
  metadata: { name },
  ...{
    spec: {
      selector: { matchLabels: { app: name } },
      template: { metadata: { labels: { app: name } }, spec: { containers: [{ name: 'main', image: 'i' }] } },
      ...spec,
    },
  },
});
const lease = (name: string, more: KubeObject['metadata'] = {}): KubeObject => ({
  kind: 'Lease',
  apiVersion: 'coordination.k8s.io/v1',
  metadata: { name, ...more },
  ...{ spec: { holderIdentity: 'me' } },
});

describe('update', () => {
  it('replaces what is at the given version', async () => {
    const made = await server.create('configmaps', configMap('a', { x: '1' }));
    const next = await server.update('configmaps', { ...made, ...{ data: { x: '2' } } });
    expect(next).toMatchObject({
      data: { x: '2' },
      metadata: { uid: made.metadata?.uid, creationTimestamp: made.metadata?.creationTimestamp, resourceVersion: '2' },
    });
    const error = await refusal(server.update('configmaps', { ...made, ...{ data: { x: '3' } } }));
    expect(error.status).toMatchObject({
      code: 409,
      reason: 'Conflict',
      details: { name: 'a', kind: 'configmaps' },
      message:
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your changes to the latest version and try again',
    });
  });

  it('overwrites whatever is there without a version, where the kind allows it', async () => {
    await server.create('configmaps', configMap('a'));
    expect(await server.update('configmaps', configMap('a', { x: 'y' }))).toMatchObject({ data: { x: 'y' } });
    await server.create('leases.coordination.k8s.io', lease('l'));
    expect((await refusal(server.update('leases.coordination.k8s.io', lease('l')))).status).toMatchObject({
      code: 422,
      message: 'leases.coordination.k8s.io "l" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update',
    });
  });

  it('makes what is not there only of kinds that allow it', async () => {
    expect((await refusal(server.update('configmaps', configMap('a')))).reason).toBe('NotFound');
    const response = await server.handle('update', 'leases.coordination.k8s.io', { namespace: 'default', name: 'l', body: lease('l') });
    expect(response).toMatchObject({ kind: 'object', code: 201 });
    expect((await refusal(server.update('leases.coordination.k8s.io', lease('m', { uid: 'x' })))).status).toMatchObject({ code: 409 });
  });

  it('writes nothing when nothing changes, whatever order the fields have', async () => {
    const made = await server.create('configmaps', configMap('a', { x: '1', y: '2' }));
    const same = await server.update('configmaps', {
      ...{ data: { y: '2', x: '1' } },
      metadata: made.metadata ?? {},
      apiVersion: 'v1',
      kind: 'ConfigMap',
    } as KubeObject);
    expect(same.metadata?.resourceVersion).toBe(made.metadata?.resourceVersion);
    expect(server.pipeline.revision).toBe(1);
    expect((await server.patch('configmaps', 'a', {})).metadata?.resourceVersion).toBe('1');
  });

  it('holds the object to the URL and to its identity', async () => {
    const made = await server.create('configmaps', configMap('a'));
    const message = async (body: KubeObject, options: object = {}) =>
      (await refusal(server.update('configmaps', body, { name: 'a', namespace: 'default', ...options }))).message;
    expect(await message(configMap('b'))).toBe('the name of the object (b) does not match the name on the URL (a)');
    expect(await message(configMap('a', {}, { namespace: 'other' }))).toBe(
      'the namespace of the provided object does not match the namespace sent on the request',
    );
    expect(await message(configMap('a', {}, { uid: 'other' }))).toContain(
      `Precondition failed: UID in precondition: other, UID in object meta: ${made.metadata?.uid}`,
    );
    expect(await message(configMap('a', {}, { finalizers: ['bare'] }))).toContain(
      'name is neither a standard finalizer name nor is it fully qualified',
    );
  });

  it('counts generations of the spec alone; of annotations, too, for deployments', async () => {
    const made = await server.create<KubeObject & { spec: object }>('deployments.apps', deployment('d'));
    const scaled = await server.update<typeof made>('deployments.apps', { ...made, spec: { ...made.spec, replicas: 3 } } as KubeObject);
    expect(scaled.metadata?.generation).toBe(2);
    const labelled = await server.update<typeof made>('deployments.apps', {
      ...scaled,
      metadata: { ...scaled.metadata, labels: { a: 'b' }, generation: 99 },
    });
    expect(labelled.metadata?.generation).toBe(2);
    const annotated = await server.update<typeof made>('deployments.apps', {
      ...labelled,
      metadata: { ...labelled.metadata, annotations: { a: 'b' } },
    });
    expect(annotated.metadata?.generation).toBe(3);
    const reported = await server.update(
      'deployments.apps',
      { ...annotated, ...{ status: { replicas: 2 }, spec: { ...annotated.spec, replicas: 7 } } },
      { subresource: 'status' },
    );
    expect(reported).toMatchObject({ metadata: { generation: 3 }, spec: { replicas: 3 }, status: { replicas: 2 } });
    expect(await server.update('deployments.apps', { ...reported, ...{ status: { replicas: 5 } } })).toMatchObject({
      status: { replicas: 2 },
    });
  });

  it("keeps a pod's status and spec apart", async () => {
    const made = await server.create<KubeObject & { spec: object; status: object }>(
      'pods',
      pod('a', {}, { ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: 'n', uid: '1' }] }),
    );
    const status = {
      phase: 'Running',
      podIP: '10.0.0.1',
      podIPs: [{ ip: '10.0.0.1' }],
      conditions: [{ type: 'Ready', status: 'True', observedGeneration: 4 }],
    };
    const { ownerReferences: _owners, ...metadata } = made.metadata ?? {};
    const reported = await server.update<typeof made>(
      'pods',
      { ...made, metadata, spec: { ...made.spec, nodeName: 'elsewhere' }, status } as KubeObject,
      { subresource: 'status' },
    );
    expect(reported).toMatchObject({
      metadata: { ownerReferences: [{ name: 'n' }], generation: 1 },
      status: { ...status, qosClass: 'BestEffort' },
    });
    expect(reported.spec).not.toHaveProperty('nodeName');
    const again = await server.update(
      'pods',
      { ...reported, ...{ status: { ...status, conditions: [{ type: 'Ready', status: 'False' }] } } },
      { subresource: 'status' },
    );
    expect(again).toMatchObject({ status: { conditions: [{ type: 'Ready', status: 'False', observedGeneration: 4 }] } });
    expect(
      (await refusal(server.update('pods', { ...again, ...{ spec: { ...reported.spec, restartPolicy: 'Never' } } }))).message,
    ).toContain('pod updates may not change fields other than');
    const image = { containers: [{ ...(made.spec as { containers: object[] }).containers[0], image: 'other' }] };
    expect(await server.update('pods', { ...again, ...{ spec: { ...reported.spec, ...image } } })).toMatchObject({
      metadata: { generation: 2 },
      status: { phase: 'Running' },
    });
  });

  it('adds ephemeral containers and resizes containers through their subresources', async () => {
    const made = await server.create<KubeObject & { spec: { containers: object[] } }>(
      'pods',
      pod('a', { containers: [{ name: 'main', image: 'i', resources: { requests: { cpu: '1' } } }] }),
    );
    const debugged = await server.update<typeof made>(
      'pods',
      { ...made, spec: { ...made.spec, dnsPolicy: 'Default', ephemeralContainers: [{ name: 'debug', image: 'busybox' }] } } as KubeObject,
      { subresource: 'ephemeralcontainers' },
    );
    expect(debugged).toMatchObject({
      metadata: { generation: 2 },
      spec: { dnsPolicy: 'ClusterFirst', ephemeralContainers: [{ name: 'debug' }] },
    });
    const resized = await server.patch(
      'pods',
      'a',
      { spec: { dnsPolicy: 'Default', containers: [{ name: 'main', resources: { requests: { cpu: '2' } } }] } },
      { patchType: 'strategic', subresource: 'resize' },
    );
    expect(resized).toMatchObject({
      metadata: { generation: 3 },
      spec: { dnsPolicy: 'ClusterFirst', containers: [{ resources: { requests: { cpu: '2' } } }] },
    });
  });

  it('keeps immutable data', async () => {
    await server.create('configmaps', { ...configMap('a', { x: '1' }), ...{ immutable: true } });
    expect((await refusal(server.update('configmaps', { ...configMap('a', { x: '2' }), ...{ immutable: true } }))).message).toContain(
      'data: Forbidden: field is immutable when `immutable` is set',
    );
    await server.create('secrets', {
      kind: 'Secret',
      apiVersion: 'v1',
      metadata: { name: 's' },
      ...{ immutable: true, data: { a: 'eA==' } },
    });
    expect((await refusal(server.patch('secrets', 's', { data: { a: 'eQ==' } }))).message).toContain(
      'data: Forbidden: field is immutable when `immutable` is set',
    );
  });

  it('pretends to in a dry run', async () => {
    const made = await server.create('configmaps', configMap('a'));
    const query = { dryRun: 'All' };
    expect(await server.update('configmaps', configMap('a', { x: 'y' }), { query })).toMatchObject({ data: { x: 'y' } });
    expect(await server.patch('configmaps', 'a', { data: { x: 'y' } }, { query })).toMatchObject({ data: { x: 'y' } });
    expect(await server.get('configmaps', 'a')).toEqual(made);
  });

  it('lets one of many racing writers of a version win', async () => {
    const made = await server.create('configmaps', configMap('a'));
    const results = await Promise.allSettled(
      Array.from({ length: 20 }, (_, i) => server.update('configmaps', { ...made, ...{ data: { i: String(i) } } })),
    );
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    for (const result of results) if (result.status === 'rejected') expect((result.reason as StatusError).reason).toBe('Conflict');
  });
});

describe('patch', () => {
  it('takes JSON patches, merge patches and strategic merge patches', async () => {
    await server.create('deployments.apps', deployment('d'));
    expect(
      await server.patch('deployments.apps', 'd', [{ op: 'replace', path: '/spec/replicas', value: 2 }], { patchType: 'json' }),
    ).toMatchObject({ spec: { replicas: 2 } });
    expect(await server.patch('deployments.apps', 'd', { spec: { replicas: 3 }, metadata: { labels: { a: 'b' } } })).toMatchObject({
      spec: { replicas: 3 },
      metadata: { labels: { a: 'b' } },
    });
    const added = await server.patch<KubeObject & { spec: { template: { spec: { containers: { name: string }[] } } } }>(
      'deployments.apps',
      'd',
      { spec: { template: { spec: { containers: [{ name: 'side', image: 's' }] } } } },
      { patchType: 'strategic' },
    );
    expect(added.spec.template.spec.containers.map(({ name }) => name).sort()).toEqual(['main', 'side']);
  });

  it('applies them to the newest state when others write at the same time', async () => {
    await server.create('configmaps', configMap('a'));
    await Promise.all(Array.from({ length: 20 }, (_, i) => server.patch('configmaps', 'a', { data: { [`k${i}`]: 'v' } })));
    expect(Object.keys((await server.get<KubeObject & { data: object }>('configmaps', 'a')).data)).toHaveLength(20);
  });

  it('is refused when it does not fit', async () => {
    await server.create('configmaps', configMap('a'));
    const of = async (body: unknown, patchType: 'json' | 'merge' | 'strategic' = 'merge', options: object = {}) =>
      (await refusal(server.patch('configmaps', 'a', body, { patchType, ...options }))).status;
    expect(await of([{ op: 'remove', path: '/data/none' }], 'json')).toMatchObject({ code: 422, reason: 'Invalid' });
    expect(await of('text')).toMatchObject({ code: 400 });
    expect(await of({ data: { x: 1 } })).toMatchObject({ code: 422, message: expect.stringContaining('patch: Invalid value') as string });
    expect(await of({ metadata: { name: 'b' } })).toMatchObject({
      code: 400,
      message: 'the name of the object (b) does not match the name on the URL (a)',
    });
    expect(await of({ metadata: { resourceVersion: '77' }, data: { x: 'y' } })).toMatchObject({ code: 409, reason: 'Conflict' });
    expect(await of({}, 'merge', { query: { force: 'true' } })).toMatchObject({
      message: 'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch',
    });
    expect((await refusal(server.patch('configmaps', 'b', {}))).reason).toBe('NotFound');
  });

  it('says which types there are', async () => {
    await server.create('configmaps', configMap('a'));
    const { patchType: _none, ...options } = { patchType: 'merge' as const, name: 'a', namespace: 'default', body: {} };
    expect((await refusal(server.object('patch', 'configmaps', options))).status).toMatchObject({
      code: 415,
      reason: 'UnsupportedMediaType',
      message:
        'the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml',
    });
  });
});
