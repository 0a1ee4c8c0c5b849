import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { KubeObject } from '@oarlock/api/object';
import type { StatusError } from '@oarlock/api/status';
import { configMap, pod, rejectionOf, TestServer } from '../../support/pipeline-fixture.ts';

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
  it('replaces the object at the given resourceVersion', async () => {
    const created = await server.create('configmaps', configMap('a', { x: '1' }));
    const next = await server.update('configmaps', { ...created, ...{ data: { x: '2' } } });
    expect(next).toMatchObject({
      data: { x: '2' },
      metadata: { uid: created.metadata?.uid, creationTimestamp: created.metadata?.creationTimestamp, resourceVersion: '2' },
    });
    const error = await rejectionOf(server.update('configmaps', { ...created, ...{ data: { x: '3' } } }));
    expect(error.status).toMatchObject({
      code: 409,
      reason: 'Conflict',
      details: { name: 'a', kind: 'configmaps' },
      message:
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your changes to the latest version and try again',
    });
  });

  it('overwrites any version without a resourceVersion, if the kind allows it', async () => {
    await server.create('configmaps', configMap('a'));
    expect(await server.update('configmaps', configMap('a', { x: 'y' }))).toMatchObject({ data: { x: 'y' } });
    await server.create('leases.coordination.k8s.io', lease('l'));
    expect((await rejectionOf(server.update('leases.coordination.k8s.io', lease('l')))).status).toMatchObject({
      code: 422,
      message: 'leases.coordination.k8s.io "l" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update',
    });
  });

  it('creates missing objects only of kinds that allow it', async () => {
    expect((await rejectionOf(server.update('configmaps', configMap('a')))).reason).toBe('NotFound');
    const response = await server.handle('update', 'leases.coordination.k8s.io', { namespace: 'default', name: 'l', body: lease('l') });
    expect(response).toMatchObject({ kind: 'object', code: 201 });
    expect((await rejectionOf(server.update('leases.coordination.k8s.io', lease('m', { uid: 'x' })))).status).toMatchObject({ code: 409 });
  });

  it('does not write without a change, whatever the field order', async () => {
    const created = await server.create('configmaps', configMap('a', { x: '1', y: '2' }));
    const same = await server.update('configmaps', {
      ...{ data: { y: '2', x: '1' } },
      metadata: created.metadata ?? {},
      apiVersion: 'v1',
      kind: 'ConfigMap',
    } as KubeObject);
    expect(same.metadata?.resourceVersion).toBe(created.metadata?.resourceVersion);
    expect(server.pipeline.revision).toBe(1);
    expect((await server.patch('configmaps', 'a', {})).metadata?.resourceVersion).toBe('1');
  });

  it('checks the object against the URL and its identity', async () => {
    const created = await server.create('configmaps', configMap('a'));
    const message = async (body: KubeObject, options: object = {}) =>
      (await rejectionOf(server.update('configmaps', body, { name: 'a', namespace: 'default', ...options }))).message;
    expect(await message(configMap('b'))).toBe('the name of the object (b) does not match the name on the URL (a)');
    expect(await message(configMap('a', {}, { namespace: 'other' }))).toBe(
      'the namespace of the provided object does not match the namespace sent on the request',
    );
    expect(await message(configMap('a', {}, { uid: 'other' }))).toContain(
      `Precondition failed: UID in precondition: other, UID in object meta: ${created.metadata?.uid}`,
    );
    expect(await message(configMap('a', {}, { finalizers: ['bare'] }))).toContain(
      'name is neither a standard finalizer name nor is it fully qualified',
    );
  });

  it('increments the generation for spec changes; for deployments also for annotations', async () => {
    const created = await server.create<KubeObject & { spec: object }>('deployments.apps', deployment('d'));
    const scaled = await server.update<typeof created>('deployments.apps', {
      ...created,
      spec: { ...created.spec, replicas: 3 },
    } as KubeObject);
    expect(scaled.metadata?.generation).toBe(2);
    const labelled = await server.update<typeof created>('deployments.apps', {
      ...scaled,
      metadata: { ...scaled.metadata, labels: { a: 'b' }, generation: 99 },
    });
    expect(labelled.metadata?.generation).toBe(2);
    const annotated = await server.update<typeof created>('deployments.apps', {
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

  it('separates status and spec of a pod', async () => {
    const created = await server.create<KubeObject & { spec: object; status: object }>(
      'pods',
      pod('a', {}, { ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: 'n', uid: '1' }] }),
    );
    const status = {
      phase: 'Running',
      podIP: '10.0.0.1',
      podIPs: [{ ip: '10.0.0.1' }],
      conditions: [{ type: 'Ready', status: 'True', observedGeneration: 4 }],
    };
    const { ownerReferences: _owners, ...metadata } = created.metadata ?? {};
    const reported = await server.update<typeof created>(
      'pods',
      { ...created, metadata, spec: { ...created.spec, nodeName: 'elsewhere' }, status } as KubeObject,
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
      (await rejectionOf(server.update('pods', { ...again, ...{ spec: { ...reported.spec, restartPolicy: 'Never' } } }))).message,
    ).toContain('pod updates may not change fields other than');
    const image = { containers: [{ ...(created.spec as { containers: object[] }).containers[0], image: 'other' }] };
    expect(await server.update('pods', { ...again, ...{ spec: { ...reported.spec, ...image } } })).toMatchObject({
      metadata: { generation: 2 },
      status: { phase: 'Running' },
    });
  });

  it('adds ephemeral containers and resizes containers through subresources', async () => {
    const created = await server.create<KubeObject & { spec: { containers: object[] } }>(
      'pods',
      pod('a', { containers: [{ name: 'main', image: 'i', resources: { requests: { cpu: '1' } } }] }),
    );
    const debugged = await server.update<typeof created>(
      'pods',
      {
        ...created,
        spec: { ...created.spec, dnsPolicy: 'Default', ephemeralContainers: [{ name: 'debug', image: 'busybox' }] },
      } as KubeObject,
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

  it('rejects changes of immutable data', async () => {
    await server.create('configmaps', { ...configMap('a', { x: '1' }), ...{ immutable: true } });
    expect((await rejectionOf(server.update('configmaps', { ...configMap('a', { x: '2' }), ...{ immutable: true } }))).message).toContain(
      'data: Forbidden: field is immutable when `immutable` is set',
    );
    await server.create('secrets', {
      kind: 'Secret',
      apiVersion: 'v1',
      metadata: { name: 's' },
      ...{ immutable: true, data: { a: 'eA==' } },
    });
    expect((await rejectionOf(server.patch('secrets', 's', { data: { a: 'eQ==' } }))).message).toContain(
      'data: Forbidden: field is immutable when `immutable` is set',
    );
  });

  it('does not write in a dry run', async () => {
    const created = await server.create('configmaps', configMap('a'));
    const query = { dryRun: 'All' };
    expect(await server.update('configmaps', configMap('a', { x: 'y' }), { query })).toMatchObject({ data: { x: 'y' } });
    expect(await server.patch('configmaps', 'a', { data: { x: 'y' } }, { query })).toMatchObject({ data: { x: 'y' } });
    expect(await server.get('configmaps', 'a')).toEqual(created);
  });

  it('accepts one of several concurrent writes of a version', async () => {
    const created = await server.create('configmaps', configMap('a'));
    const results = await Promise.allSettled(
      Array.from({ length: 20 }, (_, i) => server.update('configmaps', { ...created, ...{ data: { i: String(i) } } })),
    );
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    for (const result of results) if (result.status === 'rejected') expect((result.reason as StatusError).reason).toBe('Conflict');
  });
});

describe('patch', () => {
  it('supports JSON patch, merge patch and strategic merge patch', async () => {
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

  it('applies to the newest object during concurrent writes', async () => {
    await server.create('configmaps', configMap('a'));
    await Promise.all(Array.from({ length: 20 }, (_, i) => server.patch('configmaps', 'a', { data: { [`k${i}`]: 'v' } })));
    expect(Object.keys((await server.get<KubeObject & { data: object }>('configmaps', 'a')).data)).toHaveLength(20);
  });

  it('is rejected if it does not apply', async () => {
    await server.create('configmaps', configMap('a'));
    const of = async (body: unknown, patchType: 'json' | 'merge' | 'strategic' = 'merge', options: object = {}) =>
      (await rejectionOf(server.patch('configmaps', 'a', body, { patchType, ...options }))).status;
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
    expect((await rejectionOf(server.patch('configmaps', 'b', {}))).reason).toBe('NotFound');
  });

  it.each([
    [{ metadata: { labels: 'invalid' } }, 'map[metadata:map[labels:invalid]]', 'cannot restore map from string'],
    [{ spec: 'x' }, 'map[spec:x]', 'cannot restore struct from: string'],
    [{ spec: { replicas: '2' } }, 'map[spec:map[replicas:2]]', 'unrecognized type: int32'],
    [{ spec: { replicas: 2.5 } }, 'map[spec:map[replicas:2.5]]', 'cannot convert float64 to int32'],
    [{ spec: { paused: 'true' } }, 'map[spec:map[paused:true]]', 'unrecognized type: bool'],
    [{ metadata: { finalizers: { a: 1 } } }, 'map[metadata:map[finalizers:map[a:1]]]', 'cannot restore slice from map'],
    [{ metadata: { generateName: 1 } }, 'map[metadata:map[generateName:1]]', 'cannot convert int64 to string'],
  ])('a strategic merge patch with the wrong type, %j, has the message of the converter', async (body, value, message) => {
    await server.create('deployments.apps', deployment('d'));
    const { status } = await rejectionOf(server.patch('deployments.apps', 'd', body, { patchType: 'strategic' }));
    expect(status.message).toBe(` "" is invalid: patch: Invalid value: ${JSON.stringify(value)}: ${message}`);
  });

  it('a merge patch with the wrong type has the message of the JSON decoder', async () => {
    await server.create('deployments.apps', deployment('d'));
    const { status } = await rejectionOf(server.patch('deployments.apps', 'd', { spec: { replicas: 'two' } }, { patchType: 'merge' }));
    expect(status.message).toMatch(/: json: cannot unmarshal string into Go struct field DeploymentSpec\.spec\.replicas of type int32$/);
    expect(status.message).not.toContain('cannot be handled');
  });

  it('lists the supported patch types', async () => {
    await server.create('configmaps', configMap('a'));
    const { patchType: _none, ...options } = { patchType: 'merge' as const, name: 'a', namespace: 'default', body: {} };
    expect((await rejectionOf(server.object('patch', 'configmaps', options))).status).toMatchObject({
      code: 415,
      reason: 'UnsupportedMediaType',
      message:
        'the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml',
    });
  });
});
