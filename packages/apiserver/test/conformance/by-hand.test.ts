import type { KubeObject } from '@oarlock/api/object';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { applyPatch, jsonPatch, strategicPatch, Wire, type Thing } from './cluster.ts';
import { ready } from './operations.ts';

/** Conformance behaviors of kinds that need operations of their own. */
let wire: Wire;
let namespace: string;
beforeAll(async () => {
  wire = await Wire.start();
  namespace = await wire.namespace('by-hand');
});
afterAll(() => wire.stop());

interface Table {
  readonly columnDefinitions: readonly { readonly name: string }[];
  readonly rows: readonly { readonly cells: readonly unknown[] }[];
}

describe('by hand', () => {
  const at = (path: string) => path.replace('NS', namespace);

  it('[sig-storage] ConfigMap should be immutable if `immutable` field is set [Conformance], as Secrets should be immutable if `immutable` field is set', async () => {
    for (const [kind, collection, value] of [
      ['ConfigMap', 'configmaps', 'value'],
      ['Secret', 'secrets', 'dmFsdWU='],
    ]) {
      const path = at(`/api/v1/namespaces/NS/${collection}/immutable`);
      const created = await wire.create(path.slice(0, path.lastIndexOf('/')), {
        apiVersion: 'v1',
        kind,
        metadata: { name: 'immutable' },
        data: { key: value },
      });
      const changed = await wire.update(path, { ...created, data: { key: 'bmV3' } });
      const fixed = await wire.update(path, { ...changed, immutable: true });
      const rejection = async (body: object) => (await wire.rejectionOf(wire.update(path, body))).status;
      expect(await rejection({ ...fixed, data: { key: 'b3RoZXI=' } })).toMatchObject({
        code: 422,
        reason: 'Invalid',
        message: `${kind} "immutable" is invalid: data: Forbidden: field is immutable when \`immutable\` is set`,
      });
      expect((await rejection({ ...fixed, immutable: false })).message).toContain('immutable: Forbidden: field is immutable');
      await wire.patch(path, { metadata: { labels: { still: 'allowed' } } });
      await wire.remove(path);
    }
  });

  it('[sig-node] Node Lifecycle should run through the lifecycle of a node [Conformance]', async () => {
    const node = await wire.create('/api/v1/nodes', {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: 'e2e-fake-node', labels: { e2e: 'yes' } },
    });
    expect(node.metadata?.uid).toBeTruthy();
    const path = '/api/v1/nodes/e2e-fake-node';
    expect((await wire.get(path)).metadata?.name).toBe('e2e-fake-node');
    expect((await wire.patch(path, { metadata: { labels: { patched: 'true' } } }, strategicPatch)).metadata?.labels).toMatchObject({
      patched: 'true',
    });
    expect((await wire.list('/api/v1/nodes?labelSelector=patched=true')).items.map(({ metadata }) => metadata?.name)).toEqual([
      'e2e-fake-node',
    ]);
    const current = await wire.get(path);
    // without a resourceVersion: the controllers of nodes write the object as well
    const { resourceVersion: _, ...metadata } = current.metadata ?? {};
    expect((await wire.update(path, { ...current, metadata: { ...metadata, labels: { updated: 'true' } } })).metadata?.labels).toEqual({
      updated: 'true',
    });
    const capacity = { capacity: { 'example.com/thing': '5' } };
    expect((await wire.patch(`${path}/status`, { status: capacity })).status).toMatchObject(capacity);
    await wire.remove('/api/v1/nodes?labelSelector=updated=true');
    await wire.until(path, (object) => object === undefined);
  });

  it('[sig-storage] PersistentVolumes CSI Conformance should run through the lifecycle of a PV and a PVC, and should apply changes to a pv/pvc status [Conformance]', async () => {
    const labels = { e2e: 'pv' };
    const spec = { accessModes: ['ReadWriteOnce'], storageClassName: 'none' };
    await wire.create('/api/v1/persistentvolumes', {
      apiVersion: 'v1',
      kind: 'PersistentVolume',
      metadata: { name: 'e2e-pv', labels },
      spec: {
        ...spec,
        capacity: { storage: '1Gi' },
        csi: { driver: 'd.example.com', volumeHandle: 'h' },
        persistentVolumeReclaimPolicy: 'Retain',
      },
    });
    const claims = at('/api/v1/namespaces/NS/persistentvolumeclaims');
    await wire.create(claims, {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: { name: 'e2e-pvc', labels },
      spec: { ...spec, volumeName: 'e2e-pv', resources: { requests: { storage: '1Gi' } } },
    });
    await wire.until(`${claims}/e2e-pvc`, (object) => object?.status?.['phase'] === 'Bound');
    for (const [path, condition] of [
      ['/api/v1/persistentvolumes/e2e-pv', { status: { message: 'StatusPatch', reason: 'E2E patchStatus' } }],
      [`${claims}/e2e-pvc`, { status: { conditions: [{ type: 'StatusPatched', status: 'True', reason: 'E2E' }] } }],
    ] as const) {
      expect((await wire.patch(path, { metadata: { labels: { patched: 'true' } } })).metadata?.labels).toMatchObject({ patched: 'true' });
      expect((await wire.list(`${path.slice(0, path.lastIndexOf('/'))}?labelSelector=patched%3Dtrue`)).items).toHaveLength(1);
      expect(await wire.get(`${path}/status`)).toMatchObject({ status: { phase: 'Bound' } });
      expect(await wire.patch(`${path}/status`, condition)).toMatchObject(condition);
      await updateWithRetry(path, (object) => ({
        ...object,
        metadata: { ...object.metadata, labels: { ...object.metadata?.labels, updated: 'true' } },
      }));
    }
    await wire.remove(`${claims}?labelSelector=updated=true`);
    await wire.until(`${claims}/e2e-pvc`, (object) => object === undefined);
    await wire.remove('/api/v1/persistentvolumes/e2e-pv');
    await wire.until('/api/v1/persistentvolumes/e2e-pv', (object) => object === undefined);
  });

  /** Updates the current object; retries on conflicts with controllers. */
  async function updateWithRetry(path: string, change: (object: Thing) => object): Promise<Thing> {
    for (;;) {
      const before = await wire.get(path);
      const answer = await wire.call('PUT', path, { body: change(before) });
      if (answer.code === 409) continue;
      expect(answer.code).toBe(200);
      return JSON.parse(answer.bytes.toString()) as Thing;
    }
  }

  it('[sig-network] Services should complete a service status lifecycle [Conformance]', async () => {
    const services = at('/api/v1/namespaces/NS/services');
    const path = `${services}/test-service`;
    await wire.create(services, {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'test-service', labels: { 'test-service-static': 'true' } },
      spec: { type: 'LoadBalancer', ports: [{ name: 'http', protocol: 'TCP', port: 80, targetPort: 80 }] },
    });
    const watch = await wire.watch(`${services}?labelSelector=test-service-static=true`);
    expect((await wire.get(`${path}/status`)).status).toEqual({ loadBalancer: {} });
    const patched = await wire.patch(`${path}/status`, {
      metadata: { annotations: { patchedstatus: 'true' } },
      status: { loadBalancer: { ingress: [{ ip: '203.0.113.1' }] } },
    });
    expect(patched).toMatchObject({
      metadata: { annotations: { patchedstatus: 'true' } },
      status: { loadBalancer: { ingress: [{ ip: '203.0.113.1' }] } },
    });
    await watch.next(({ object }) => object.metadata?.annotations?.['patchedstatus'] === 'true');
    const condition = { ...ready, type: 'StatusUpdate' };
    const current = await wire.get(path);
    const updated = await wire.update(`${path}/status`, { ...current, status: { ...current.status, conditions: [condition] } });
    expect(updated.status).toMatchObject({ conditions: [condition], loadBalancer: { ingress: [{ ip: '203.0.113.1' }] } });
    await watch.next(({ object }) => JSON.stringify(object.status).includes('StatusUpdate'));
    await wire.patch(path, { metadata: { labels: { 'test-service': 'patched' } } }, strategicPatch);
    await watch.next(({ object }) => object.metadata?.labels?.['test-service'] === 'patched');
    await wire.remove(path);
    await watch.type('DELETED');
  });

  it('[sig-network] Services should be able to change the type from ExternalName to ClusterIP, to NodePort, and from both to ExternalName [Conformance]', async () => {
    const services = at('/api/v1/namespaces/NS/services');
    const path = `${services}/changing`;
    const ports = [{ port: 80, protocol: 'TCP', targetPort: 9376 }];
    await wire.create(services, {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'changing' },
      spec: { type: 'ExternalName', externalName: 'foo.example.com' },
    });
    const turned = async (spec: object) => {
      const current = await wire.get(path);
      return (await wire.update(path, { ...current, spec: { ...current.spec, ...spec } })).spec ?? {};
    };
    const asCluster = await turned({ type: 'ClusterIP', externalName: '', ports });
    expect(asCluster['clusterIP']).toMatch(/^\d+\./);
    expect(asCluster['externalName'] ?? '').toBe('');
    const gone = { type: 'ExternalName', externalName: 'foo.example.com', clusterIP: '', clusterIPs: null };
    expect((await turned(gone))['clusterIP'] ?? '').toBe('');
    const asNodePort = await turned({ type: 'NodePort', externalName: '', ports });
    expect((asNodePort['ports'] as { nodePort: number }[])[0]?.nodePort).toBeGreaterThan(0);
    const away = await turned({ ...gone, ports });
    expect(away).toMatchObject({ type: 'ExternalName', externalName: 'foo.example.com' });
    expect((away['ports'] as { nodePort?: number }[])[0]?.nodePort).toBeUndefined();
    await wire.remove(path);
  });

  it('[sig-network] Services should find a service from listing all namespaces, and API Server should have Endpoints and EndpointSlices pointing to API Server [Conformance]', async () => {
    const { items } = await wire.list('/api/v1/services');
    expect(items.filter(({ metadata }) => metadata?.name === 'kubernetes' && metadata.namespace === 'default')).toHaveLength(1);
    expect(await wire.get('/api/v1/namespaces/default/endpoints/kubernetes')).toMatchObject({ subsets: [{ ports: [{ name: 'https' }] }] });
    const slices = await wire.list(
      '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io/service-name=kubernetes',
    );
    expect(slices.items).toMatchObject([{ metadata: { name: 'kubernetes' }, ports: [{ name: 'https', protocol: 'TCP' }] }]);
  });

  it('[sig-network] ServiceCIDR and IPAddress API should support ServiceCIDR API operations [Conformance], and should support IPAddress API operations', async () => {
    const path = '/apis/networking.k8s.io/v1/servicecidrs';
    await wire.create(path, {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'ServiceCIDR',
      metadata: { name: 'e2e' },
      spec: { cidrs: ['10.250.0.0/24'] },
    });
    expect((await wire.get(`${path}/e2e`)).spec).toEqual({ cidrs: ['10.250.0.0/24'] });
    await wire.until(`${path}/e2e`, (object) => JSON.stringify(object?.status ?? {}).includes('"Ready"'));
    expect((await wire.patch(`${path}/e2e`, { metadata: { annotations: { patched: 'true' } } })).metadata?.annotations).toMatchObject({
      patched: 'true',
    });
    expect(await wire.patch(`${path}/e2e/status`, { status: { conditions: [ready] } })).toMatchObject({ metadata: { name: 'e2e' } });
    await wire.remove(`${path}/e2e`);
    await wire.until(`${path}/e2e`, (object) => object === undefined);
    expect((await wire.list(path)).items.map(({ metadata }) => metadata?.name)).toContain('kubernetes');
  });

  it('[sig-api-machinery] Namespaces [Serial] should patch a Namespace [Conformance], should apply an update to a Namespace, should apply changes to a namespace status', async () => {
    await wire.namespace('patched');
    const path = '/api/v1/namespaces/patched';
    const changed = await wire.patch(path, { metadata: { labels: { testLabel: 'testValue' } } }, strategicPatch);
    expect(changed.metadata?.labels).toMatchObject({ testLabel: 'testValue', 'kubernetes.io/metadata.name': 'patched' });
    const { metadata } = changed;
    expect(
      (
        await wire.update(path, {
          ...(await wire.get(path)),
          metadata: { ...(await wire.get(path)).metadata, labels: { ...metadata?.labels, updated: 'true' } },
        })
      ).metadata?.labels,
    ).toMatchObject({ updated: 'true' });
    expect((await wire.get(`${path}/status`)).status).toEqual({ phase: 'Active' });
    const condition = { ...ready, type: 'StatusPatch' };
    expect(
      (await wire.patch(`${path}/status`, { metadata: { annotations: { e2e: 'patched' } }, status: { conditions: [condition] } })).status,
    ).toEqual({ phase: 'Active', conditions: [condition] });
    const current = await wire.get(path);
    const both = { phase: 'Active', conditions: [condition, { ...ready, type: 'StatusUpdate' }] };
    expect((await wire.update(`${path}/status`, { ...current, status: both })).status).toEqual(both);
  });

  it('[sig-api-machinery] Namespaces [Serial] should apply a finalizer to a Namespace [Conformance]', async () => {
    const name = await wire.namespace('finalized');
    const path = `/api/v1/namespaces/${name}`;
    const finalizers = ['e2e.example.com/fakeFinalizer', 'kubernetes'];
    const finalized = await wire.update(`${path}/finalize`, { ...(await wire.get(path)), spec: { finalizers } });
    expect(finalized.spec).toEqual({ finalizers });
    const { spec } = await wire.update(`${path}/finalize`, { ...finalized, spec: { finalizers: ['kubernetes'] } });
    expect(spec).toEqual({ finalizers: ['kubernetes'] });
  });

  it('scale returns the desired and the current replicas', async () => {
    const path = at('/api/v1/namespaces/NS/replicationcontrollers');
    const template = { metadata: { labels: { a: 'scaled' } }, spec: { containers: [{ name: 'c', image: 'i' }] } };
    const spec = { replicas: 0, selector: { a: 'scaled' }, template };
    await wire.create(path, { apiVersion: 'v1', kind: 'ReplicationController', metadata: { name: 'scaled' }, spec });
    const table = 'application/json;as=Table;v=v1;g=meta.k8s.io';
    const { bytes } = await wire.call('GET', `${path}/scaled/scale`, { accept: table });
    const { columnDefinitions, rows: tableRows } = JSON.parse(bytes.toString()) as Table;
    expect(columnDefinitions.map(({ name }) => name)).toEqual(['Name', 'Desired', 'Available', 'Age']);
    expect(tableRows[0]?.cells.slice(0, 3)).toEqual(['scaled', 0, 0]);
    await wire.remove(`${path}/scaled`);
  });

  it('requests for Endpoints return a deprecation warning', async () => {
    const path = at('/api/v1/namespaces/NS/endpoints');
    const body = { apiVersion: 'v1', kind: 'Endpoints', metadata: { name: 'told' } };
    const { headers } = await wire.call('POST', path, { body });
    const deprecationWarning = '299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"';
    expect(headers['warning']).toBe(deprecationWarning);
    expect((await wire.call('GET', path)).headers['warning']).toBe(deprecationWarning);
    expect((await wire.call('GET', `${path}/told`)).headers['warning']).toBe(deprecationWarning);
    await wire.remove(`${path}/told`);
  });

  it('all kinds of writes result in the same object: apply, JSON patch, merge patch, strategic merge patch, update', async () => {
    const path = at('/api/v1/namespaces/NS/configmaps/ways');
    await wire.apply(path, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'ways' }, data: { a: '1' } });
    await wire.patch(path, [{ op: 'add', path: '/data/b', value: '2' }], jsonPatch);
    await wire.patch(path, { data: { c: '3' } });
    await wire.patch(path, { data: { d: '4' } }, strategicPatch);
    const conflict = await wire.rejectionOf(
      wire.apply(path, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'ways' }, data: { a: '9' } }, 'fieldManager=other'),
    );
    expect(conflict.status).toMatchObject({
      reason: 'Conflict',
      details: { causes: [{ reason: 'FieldManagerConflict', field: '.data.a' }] },
    });
    const forced = await wire.patch<KubeObject & { data: object }>(
      `${path}?fieldManager=other&force=true`,
      { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'ways' }, data: { a: '9' } },
      applyPatch,
    );
    expect(forced.data).toEqual({ a: '9', b: '2', c: '3', d: '4' });
    await wire.remove(path);
  });
});
