import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { KubeObject } from '@oarlock/api/object';
import { configMap, pod, rejectionOf, TestServer } from '../../../support/pipeline-fixture.ts';
import { applyTo, entries, fieldsOf, type ApplyRequest, type Fields, type TrackedObject } from '../../../support/tracked-objects.ts';

let server: TestServer;
beforeEach(async () => {
  server = await TestServer.start();
});
afterEach(() => server.stop());

const deployment = (spec: Fields = {}, metadata: KubeObject['metadata'] = {}): TrackedObject => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: 'd', ...metadata },
  spec: {
    selector: { matchLabels: { app: 'd' } },
    template: { metadata: { labels: { app: 'd' } }, spec: { containers: [{ name: 'main', image: 'i' }] } },
    ...spec,
  },
});

const apply = (...request: ApplyRequest) => applyTo(server, ...request);
const managersOf = (object: KubeObject) => entries(object).map(({ manager, operation }) => `${manager ?? ''} ${operation ?? ''}`);

describe('server-side apply', () => {
  it('ServerSideApply should create an applied object if it does not already exist', async () => {
    const response = await server.handle('patch', 'deployments.apps', {
      namespace: 'default',
      name: 'd',
      body: deployment({ replicas: 2 }),
      patchType: 'apply',
      query: { fieldManager: 'me' },
    });
    expect(response).toMatchObject({ kind: 'object', code: 201 });
    const created = await server.get<TrackedObject>('deployments.apps', 'd');
    expect(created.spec).toMatchObject({ replicas: 2, strategy: { type: 'RollingUpdate' } });
    expect(created.metadata).toMatchObject({ generation: 1, uid: expect.any(String) as string });
    expect(entries(created)).toEqual([
      {
        manager: 'me',
        operation: 'Apply',
        apiVersion: 'apps/v1',
        time: '2026-01-01T00:00:00Z',
        fieldsType: 'FieldsV1',
        fieldsV1: {
          'f:spec': {
            'f:replicas': {},
            'f:selector': {},
            'f:template': {
              'f:metadata': { 'f:labels': { 'f:app': {} } },
              'f:spec': { 'f:containers': { 'k:{"name":"main"}': { '.': {}, 'f:image': {}, 'f:name': {} } } },
            },
          },
        },
      },
    ]);
  });

  it('ServerSideApply should work for subresources: the status has its own managers, and apply to it creates no object', async () => {
    const status = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p' }, status: { message: 'hi', phase: 'Running' } };
    expect((await rejectionOf(apply('pods', status, 'st', {}, 'status'))).status).toMatchObject({ code: 404, reason: 'NotFound' });
    await apply('pods', pod('p'), 'me');
    const next = await apply('pods', { ...pod('p'), ...status, spec: { nodeName: 'other' } }, 'st', {}, 'status');
    expect(next.status).toMatchObject({ message: 'hi', phase: 'Running' });
    expect(next.spec?.['nodeName']).toBeUndefined();
    expect(fieldsOf(next, 'st')).toEqual({ 'f:status': { 'f:message': {}, 'f:phase': {} } });
    expect(entries(next).find(({ manager }) => manager === 'st')?.subresource).toBe('status');
  });

  it('ServerSideApply should remove a field if it is owned but removed in the apply request', async () => {
    await apply('configmaps', configMap('a', { one: '1', two: '2' }), 'me');
    await server.patch('configmaps', 'a', { data: { three: '3' } }, { query: { fieldManager: 'other' } });
    const next = await apply('configmaps', configMap('a', { one: '1' }), 'me');
    expect(next.data).toEqual({ one: '1', three: '3' });
    expect(fieldsOf(next, 'me')).toEqual({ 'f:data': { 'f:one': {} } });
  });

  it('ServerSideApply should not remove a field if an owner unsets the field but other managers still have ownership of the field', async () => {
    await apply('deployments.apps', deployment({ replicas: 3 }), 'one');
    await apply('deployments.apps', deployment({ replicas: 3 }), 'two');
    const next = await apply('deployments.apps', deployment(), 'one');
    expect(next.spec).toMatchObject({ replicas: 3 });
    expect(fieldsOf(next, 'one')).not.toMatchObject({ 'f:spec': { 'f:replicas': {} } });
    // defaulting sets the field when its last owner releases it
    expect((await apply('deployments.apps', deployment(), 'two')).spec).toMatchObject({ replicas: 1 });
  });

  it('ServerSideApply should ignore conflict errors if force apply is used', async () => {
    await apply('deployments.apps', deployment({ replicas: 3 }), 'one');
    expect((await rejectionOf(apply('deployments.apps', deployment({ replicas: 4 }), 'two'))).status).toEqual({
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Failure',
      message: 'Apply failed with 1 conflict: conflict with "one": .spec.replicas',
      reason: 'Conflict',
      details: { causes: [{ reason: 'FieldManagerConflict', message: 'conflict with "one"', field: '.spec.replicas' }] },
      code: 409,
    });
    const forced = await apply('deployments.apps', deployment({ replicas: 4 }), 'two', { force: 'true' });
    expect(forced.spec).toMatchObject({ replicas: 4 });
    expect(fieldsOf(forced, 'two')).toMatchObject({ 'f:spec': { 'f:replicas': {} } });
    expect((fieldsOf(forced, 'one') as { 'f:spec': object })['f:spec']).not.toHaveProperty('f:replicas');
  });

  it('lists every field and manager in conflict', async () => {
    await server.create('configmaps', configMap('a', { one: '1', two: '2', three: '3' }), { userAgent: 'kubectl/v1.33.0 (linux/amd64)' });
    await server.patch('configmaps', 'a', { data: { three: '4' } }, { query: { fieldManager: 'another' } });
    const { status } = await rejectionOf(apply('configmaps', configMap('a', { one: 'x', two: 'y', three: 'z' }), 'me'));
    expect(status.message).toBe(
      'Apply failed with 3 conflicts: conflicts with "another" using v1:\n- .data.three\nconflicts with "kubectl" using v1:\n- .data.one\n- .data.two',
    );
    expect(status.details?.causes).toHaveLength(3);
  });

  it('requires a field manager', async () => {
    expect((await rejectionOf(apply('configmaps', configMap('a'), ''))).status).toMatchObject({
      code: 422,
      message: 'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
    });
    expect((await rejectionOf(apply('configmaps', configMap('a'), 'x'.repeat(129)))).status.message).toBe(
      'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Too long: may not be more than 128 bytes',
    );
  });

  it('gives the creator the time of a device taint, which is a default', async () => {
    const devices = [{ name: 'd', taints: [{ key: 'example.com/k', effect: 'NoSchedule' }] }];
    const spec = { driver: 'd.example.com', nodeName: 'n', pool: { name: 'p', generation: 1, resourceSliceCount: 1 }, devices };
    const body = { apiVersion: 'resource.k8s.io/v1', kind: 'ResourceSlice', metadata: { name: 'a' }, spec } as never;
    const created = await server.create('resourceslices.resource.k8s.io', body, { query: { fieldManager: 'me' } });
    expect(created).toMatchObject({ spec: { devices: [{ taints: [{ timeAdded: created.metadata?.creationTimestamp }] }] } });
    const applied = await server.patch(
      'resourceslices.resource.k8s.io',
      'b',
      { ...(body as object), metadata: { name: 'b' } },
      {
        patchType: 'apply',
        query: { fieldManager: 'me' },
      },
    );
    expect(applied).toMatchObject({ spec: { devices: [{ taints: [{ timeAdded: created.metadata?.creationTimestamp }] }] } });
  });

  it('rejects invalid configurations', async () => {
    const of = async (body: unknown) => (await rejectionOf(apply('deployments.apps', body, 'me'))).status.message;
    expect(await of({ ...deployment(), kind: 'Pod' })).toBe('invalid object type: apps/v1, Kind=Pod');
    expect(await of({ ...deployment(), apiVersion: 'apps/v1beta1' })).toBe('invalid object type: apps/v1beta1, Kind=Deployment');
    expect(await of({ ...deployment({}, { managedFields: [] }) })).toBe('metadata.managedFields must be nil');
    expect(await of(deployment({ bogus: 1 }))).toBe(
      'failed to create typed patch object (/d; apps/v1, Kind=Deployment): .spec.bogus: field not declared in schema',
    );
    expect(await of(deployment({ replicas: 'lots' }, { namespace: 'default' }))).toBe(
      'failed to create typed patch object (default/d; apps/v1, Kind=Deployment): .spec.replicas: expected numeric (int or float), got string',
    );
    const twice = { template: { spec: { containers: [{ name: 'a' }, { name: 'a' }] } } };
    expect(await of(deployment(twice))).toBe(
      'failed to create typed patch object (/d; apps/v1, Kind=Deployment): .spec.template.spec.containers: duplicate entries for key [name="a"]',
    );
    const { status } = await rejectionOf(apply('deployments.apps', deployment({ bogus: 1 }), 'me'));
    expect([status.code, status.reason]).toEqual([500, undefined]);
    expect(await of('text')).toMatch(/^error decoding YAML/);
    expect((await server.list('deployments.apps')).names).toEqual([]);
  });

  it('checks uid and resourceVersion of the configuration', async () => {
    expect((await rejectionOf(apply('configmaps', configMap('a', {}, { uid: 'u' }), 'me'))).status).toMatchObject({
      code: 409,
      message:
        'Operation cannot be fulfilled on configmaps "a": uid mismatch: the provided object specified uid u, and no existing object was found',
    });
    await apply('configmaps', configMap('a', { one: '1' }), 'me');
    expect((await rejectionOf(apply('configmaps', configMap('a', {}, { uid: 'u' }), 'me'))).status.code).toBe(422);
    expect((await rejectionOf(apply('configmaps', configMap('a', {}, { resourceVersion: '999' }), 'me'))).status.code).toBe(409);
  });

  it('does not write without a change', async () => {
    const first = await apply('deployments.apps', deployment({ replicas: 2 }), 'me');
    await server.clock.advance(60_000);
    const second = await apply('deployments.apps', deployment({ replicas: 2 }), 'me');
    expect(second).toEqual(first);
    const third = await apply('deployments.apps', deployment({ replicas: 3 }), 'me');
    expect(entries(third)[0]?.time).toBe('2026-01-01T00:01:00Z');
  });

  it('changes nothing in a dry run', async () => {
    const dry = await apply('configmaps', configMap('a', { one: '1' }), 'me', { dryRun: 'All' });
    expect(fieldsOf(dry, 'me')).toEqual({ 'f:data': { 'f:one': {} } });
    expect((await rejectionOf(server.get('configmaps', 'a'))).reason).toBe('NotFound');
    await apply('configmaps', configMap('a', { one: '1' }), 'me');
    expect((await apply('configmaps', configMap('a', { two: '2' }), 'me', { dryRun: 'All' })).data).toEqual({ two: '2' });
    expect((await server.get<TrackedObject>('configmaps', 'a')).data).toEqual({ one: '1' });
  });

  it('attributes the fields before the first apply to before-first-apply', async () => {
    const created = await server.create<TrackedObject>('configmaps', configMap('a', { one: '1', two: '2' }));
    await server.update('configmaps', { ...created, metadata: { ...created.metadata, managedFields: [{}] } });
    const bare = await server.get('configmaps', 'a');
    expect(bare.metadata).not.toHaveProperty('managedFields');
    await server.patch('configmaps', 'a', { data: { three: '3' } });
    expect((await server.get('configmaps', 'a')).metadata).not.toHaveProperty('managedFields');
    expect((await rejectionOf(apply('configmaps', configMap('a', { one: 'x' }), 'me'))).status.message).toBe(
      'Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.one',
    );
    const next = await apply('configmaps', configMap('a', { one: '1' }), 'me');
    expect(managersOf(next)).toEqual(['me Apply', 'before-first-apply Update']);
    expect(fieldsOf(next, 'before-first-apply', 'Update')).toEqual({
      'f:data': { '.': {}, 'f:one': {}, 'f:three': {}, 'f:two': {} },
    });
  });

  it('migrates from client-side apply without conflicts, for kubectl only', async () => {
    const config = configMap('a', { one: '1', two: '2' });
    const text = `${JSON.stringify(config)}\n`;
    await server.create(
      'configmaps',
      configMap('a', { one: '1', two: '2' }, { annotations: { 'kubectl.kubernetes.io/last-applied-configuration': text } }),
      {
        query: { fieldManager: 'kubectl-client-side-apply' },
      },
    );
    const changed = configMap('a', { one: 'new', two: '2' });
    expect((await rejectionOf(apply('configmaps', changed, 'me'))).status.message).toBe(
      'Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using v1: .data.one',
    );
    const next = await apply('configmaps', changed, 'kubectl');
    expect(next.data).toEqual({ one: 'new', two: '2' });
    expect(JSON.parse(next.metadata?.annotations?.['kubectl.kubernetes.io/last-applied-configuration'] ?? '')).toMatchObject({
      data: { one: 'new' },
    });
    // a field that another manager changed does not belong to client-side apply
    await server.patch('configmaps', 'a', { data: { two: 'x' } }, { query: { fieldManager: 'other' } });
    expect((await rejectionOf(apply('configmaps', configMap('a', { one: 'new', two: '3' }), 'kubectl'))).status.message).toBe(
      'Apply failed with 1 conflict: conflict with "other" using v1: .data.two',
    );
  });

  it('keeps field sets per version', async () => {
    const v2 = {
      apiVersion: 'autoscaling/v2',
      kind: 'HorizontalPodAutoscaler',
      metadata: { name: 'h' },
      spec: { scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'd' }, minReplicas: 1, maxReplicas: 3 },
    };
    await apply('horizontalpodautoscalers.autoscaling', { ...v2, apiVersion: 'autoscaling/v1' }, 'one');
    const { kindOfResource } = await import('@oarlock/api/kinds');
    const { resource } = await import('@oarlock/api/resource');
    const kind = kindOfResource({ group: 'autoscaling', version: 'v2', resource: 'horizontalpodautoscalers' });
    if (kind === undefined) throw new Error('no such kind');
    const of = resource('autoscaling', 'v2', 'horizontalpodautoscalers', 'HorizontalPodAutoscaler', true);
    const applyV2 = (spec: object, manager: string, query = {}) =>
      server.object<TrackedObject>('patch', of, {
        namespace: 'default',
        name: 'h',
        patchType: 'apply',
        body: { ...v2, spec: { ...v2.spec, ...spec } },
        query: { fieldManager: manager, ...query },
      });
    expect((await rejectionOf(applyV2({ maxReplicas: 5 }, 'two'))).status.message).toBe(
      'Apply failed with 1 conflict: conflict with "one": .spec.maxReplicas',
    );
    const forced = await applyV2({ maxReplicas: 5 }, 'two', { force: 'true' });
    expect(entries(forced).map(({ apiVersion, manager }) => `${manager ?? ''} ${apiVersion ?? ''}`)).toEqual([
      'one autoscaling/v1',
      'two autoscaling/v2',
    ]);
    expect((fieldsOf(forced, 'one') as { 'f:spec': object })['f:spec']).not.toHaveProperty('f:maxReplicas');
  });
});

describe('managers of updates', () => {
  it('are named by the request or its user agent', async () => {
    const by = async (name: string, options: object) =>
      entries(await server.create('configmaps', configMap(name, { a: 'b' }), options))[0]?.manager;
    expect(await by('a', { userAgent: 'kubectl/v1.33.0 (linux/amd64)' })).toBe('kubectl');
    expect(await by('b', { userAgent: 'kubectl/v1.33.0', query: { fieldManager: 'kubectl-create' } })).toBe('kubectl-create');
    expect(await by('c', {})).toBe('unknown');
  });

  it('own the fields that they set until another manager changes them', async () => {
    await server.create('pods', pod('p', { containers: [{ name: 'main', image: 'i', ports: [{ containerPort: 80 }] }] }), {
      userAgent: 'a/1',
    });
    const next = await server.patch<TrackedObject>(
      'pods',
      'p',
      { spec: { containers: [{ name: 'main', image: 'j' }] }, metadata: { labels: { x: 'y' } } },
      { patchType: 'strategic', userAgent: 'b/1' },
    );
    expect(fieldsOf(next, 'b', 'Update')).toEqual({
      'f:metadata': { 'f:labels': { '.': {}, 'f:x': {} } },
      'f:spec': { 'f:containers': { 'k:{"name":"main"}': { 'f:image': {} } } },
    });
    expect(fieldsOf(next, 'a', 'Update')).toMatchObject({
      'f:spec': {
        'f:containers': {
          'k:{"name":"main"}': { '.': {}, 'f:name': {}, 'f:ports': { '.': {}, 'k:{"containerPort":80,"protocol":"TCP"}': {} } },
        },
      },
    });
    expect(JSON.stringify(fieldsOf(next, 'a', 'Update'))).not.toContain('f:image"');
  });

  it('are merged into one if there are too many', async () => {
    await server.create('configmaps', configMap('a', { k: 'v' }), { userAgent: 'm0/1' });
    let last: KubeObject = {};
    for (let i = 1; i <= 12; i++) {
      await server.clock.advance(1000);
      last = await server.patch('configmaps', 'a', { data: { [`k${i}`]: 'v' } }, { userAgent: `m${i}/1` });
    }
    expect(entries(last)).toHaveLength(10);
    expect(managersOf(last)[0]).toBe('ancient-changes Update');
    expect(fieldsOf(last, 'ancient-changes', 'Update')).toEqual({ 'f:data': { '.': {}, 'f:k': {}, 'f:k1': {}, 'f:k2': {}, 'f:k3': {} } });
  });

  it('are kept from clients that omit them or send invalid ones', async () => {
    const created = await server.create<TrackedObject>('configmaps', configMap('a', { k: 'v' }), { userAgent: 'a/1' });
    const { managedFields, ...metadata } = created.metadata ?? {};
    const next = await server.update<TrackedObject>('configmaps', { ...created, metadata, data: { k: 'v', l: 'w' } } as KubeObject, {
      userAgent: 'a/1',
    });
    expect(fieldsOf(next, 'a', 'Update')).toEqual({ 'f:data': { '.': {}, 'f:k': {}, 'f:l': {} } });
    const odd = await server.update<TrackedObject>(
      'configmaps',
      {
        ...next,
        metadata: {
          ...next.metadata,
          managedFields: [{ manager: 'x', operation: 'Update', apiVersion: 'v1', fieldsType: 'FieldsV1', fieldsV1: { nonsense: {} } }],
        },
      },
      { userAgent: 'a/1' },
    );
    expect(managersOf(odd)).toEqual(['a Update']);
    expect(managedFields).toHaveLength(1);
  });

  it('can be changed explicitly', async () => {
    const created = await server.create<TrackedObject>('configmaps', configMap('a', { k: 'v' }), { userAgent: 'a/1' });
    const entry = { ...entries(created)[0], manager: 'kubectl', operation: 'Apply' };
    const next = await server.update<TrackedObject>('configmaps', {
      ...created,
      metadata: { ...created.metadata, managedFields: [entry] },
    });
    expect(managersOf(next)).toEqual(['kubectl Apply']);
  });

  it('do not own fields of the server or of bindings', async () => {
    const created = await server.create<TrackedObject>('pods', pod('p'), { userAgent: 'a/1' });
    const text = JSON.stringify(entries(created));
    for (const name of ['f:uid', 'f:resourceVersion', 'f:creationTimestamp', 'f:generation', 'f:status', 'f:name"']) {
      if (name !== 'f:name"') expect(text).not.toContain(`"${name}`);
    }
    await server.create(
      'pods',
      { kind: 'Binding', apiVersion: 'v1', metadata: { name: 'p' }, ...{ target: { kind: 'Node', name: 'n' } } },
      { subresource: 'binding', name: 'p' },
    );
    expect(entries(await server.get('pods', 'p'))).toEqual(entries(created));
  });
});

describe('unchanged apply', () => {
  const template = { metadata: { labels: { a: 'b' } }, spec: { containers: [{ name: 'c', image: 'i' }] } };
  const job = { spec: { restartPolicy: 'Never', containers: [{ name: 'c', image: 'i' }] } };
  it.each([
    ['daemonsets.apps', { apiVersion: 'apps/v1', kind: 'DaemonSet', spec: { selector: { matchLabels: { a: 'b' } }, template } }],
    ['jobs.batch', { apiVersion: 'batch/v1', kind: 'Job', spec: { template: job } }],
    [
      'cronjobs.batch',
      { apiVersion: 'batch/v1', kind: 'CronJob', spec: { schedule: '* * * * *', jobTemplate: { spec: { template: job } } } },
    ],
    [
      'services',
      {
        apiVersion: 'v1',
        kind: 'Service',
        spec: {
          selector: { a: 'b' },
          ports: [{ port: 80 }, { port: 80, protocol: 'UDP', name: 'u' }].map((port) => ({ name: 't', ...port })),
        },
      },
    ],
    ['secrets', { apiVersion: 'v1', kind: 'Secret', data: { a: 'Yg==' } }],
    [
      'persistentvolumeclaims',
      {
        apiVersion: 'v1',
        kind: 'PersistentVolumeClaim',
        spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
      },
    ],
    ['networkpolicies.networking.k8s.io', { apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy', spec: { podSelector: {} } }],
    [
      'pods',
      {
        apiVersion: 'v1',
        kind: 'Pod',
        spec: { containers: [{ name: 'c', image: 'i', resources: { requests: { cpu: '500m', memory: '1k' } } }] },
      },
    ],
  ])('is not written: %s', async (of, body) => {
    const config = { ...body, metadata: { name: 'again' } };
    const one = await apply(of, config, 'me');
    await server.clock.advance(3000);
    expect(await apply(of, config, 'me')).toEqual(one);
    const other = await apply(of, config, 'other');
    expect(managersOf(other)).toEqual(['me Apply', 'other Apply']);
    expect(other.metadata?.generation).toBe(one.metadata?.generation);
  });

  it('compares values as written: other notations of a quantity conflict, as in Kubernetes', async () => {
    const of = (cpu: string) => ({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'q' },
      spec: { containers: [{ name: 'c', image: 'i', resources: { requests: { cpu } } }] },
    });
    const one = await apply('pods', of('0.5'), 'me');
    expect(await apply('pods', of('0.5'), 'me')).toEqual(one);
    await apply('pods', of('500m'), 'other');
    expect((await rejectionOf(apply('pods', of('0.5'), 'third'))).status.message).toContain(
      '.spec.containers[name="c"].resources.requests.cpu',
    );
  });
});
