import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Wire, type Thing } from './cluster.ts';

/** Behavior of controllers on deletion: garbage collection, namespace deletion, quota usage. Pods run on the clock. */
let wire: Wire;
beforeAll(async () => {
  wire = await Wire.start({ nodes: 2 });
});
afterAll(() => wire.stop());

const meta = (name: string, more: object = {}) => ({ metadata: { name, ...more } });
const template = (app: string) => ({
  metadata: { labels: { app } },
  spec: { terminationGracePeriodSeconds: 0, containers: [{ name: 'c', image: 'i' }] },
});
const options = (propagationPolicy: string) => ({ kind: 'DeleteOptions', apiVersion: 'v1', propagationPolicy });
const core = (namespace: string, resource: string) => `/api/v1/namespaces/${namespace}/${resource}`;
const apps = (namespace: string, resource: string) => `/apis/apps/v1/namespaces/${namespace}/${resource}`;

/** Returns the first state of a list that matches. */
async function untilList(path: string, wanted: (items: readonly Thing[]) => boolean): Promise<readonly Thing[]> {
  const { items, metadata } = await wire.list(path);
  const seen = new Map(items.map((item) => [item.metadata?.uid, item]));
  if (wanted(items)) return items;
  const watch = await wire.watch(path, metadata.resourceVersion);
  try {
    await watch.next(({ type, object }) => {
      if (type === 'DELETED') seen.delete(object.metadata?.uid);
      else seen.set(object.metadata?.uid, object);
      return wanted([...seen.values()]);
    });
    return [...seen.values()];
  } finally {
    watch.close();
  }
}
const none = (items: readonly Thing[]) => items.length === 0;
const orphaned = (items: readonly Thing[]) => items.every(({ metadata }) => (metadata?.ownerReferences ?? []).length === 0);

describe('[sig-api-machinery] Garbage collector', () => {
  const rc = (replicas: number) => ({
    apiVersion: 'v1',
    kind: 'ReplicationController',
    ...meta('rc'),
    spec: { replicas, selector: { app: 'rc' }, template: template('rc') },
  });
  async function controller(namespace: string, replicas: number): Promise<string> {
    await wire.namespace(namespace);
    await wire.create(core(namespace, 'replicationcontrollers'), rc(replicas));
    await untilList(core(namespace, 'pods'), (pods) => pods.length === replicas);
    await wire.until(`${core(namespace, 'replicationcontrollers')}/rc`, (object) => object?.status?.['replicas'] === replicas);
    return `${core(namespace, 'replicationcontrollers')}/rc`;
  }
  async function deployment(namespace: string): Promise<string> {
    await wire.namespace(namespace);
    await wire.create(apps(namespace, 'deployments'), {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      ...meta('web'),
      spec: { replicas: 2, selector: { matchLabels: { app: 'web' } }, template: template('web') },
    });
    await untilList(apps(namespace, 'replicasets'), (sets) => sets.length === 1);
    await untilList(core(namespace, 'pods'), (pods) => pods.length === 2);
    return `${apps(namespace, 'deployments')}/web`;
  }

  it('should delete pods created by rc when not orphaning [Conformance]', async () => {
    await wire.remove(await controller('gc-background', 2), options('Background'));
    await untilList(core('gc-background', 'pods'), none);
  });

  it('should orphan pods created by rc if delete options say so [Serial] [Conformance]', async () => {
    const path = await controller('gc-orphan', 10);
    await wire.remove(path, options('Orphan'));
    await wire.until(path, (object) => object === undefined);
    const pods = (await wire.list(core('gc-orphan', 'pods'))).items;
    expect(pods).toHaveLength(10);
    expect(orphaned(pods)).toBe(true);
  });

  it('should keep the rc around until all its pods are deleted if the deleteOptions says so [Serial] [Conformance]', async () => {
    const path = await controller('gc-foreground', 10);
    // a pod with a finalizer, which the test removes
    const [held] = (await wire.list(core('gc-foreground', 'pods'))).items;
    const pod = `${core('gc-foreground', 'pods')}/${held?.metadata?.name}`;
    await wire.patch(pod, { metadata: { finalizers: ['example.com/held'] } });
    await wire.remove(path, options('Foreground'));
    expect((await wire.get(path)).metadata).toMatchObject({ finalizers: ['foregroundDeletion'], deletionTimestamp: expect.any(String) });
    await untilList(core('gc-foreground', 'pods'), (pods) => pods.length === 1 && pods[0]?.metadata?.deletionTimestamp !== undefined);
    expect((await wire.get(path)).metadata?.deletionTimestamp).toBeDefined();
    await wire.patch(pod, { metadata: { finalizers: null } });
    await wire.until(path, (object) => object === undefined);
    expect((await wire.list(core('gc-foreground', 'pods'))).items).toEqual([]);
  });

  it('should delete RS created by deployment when not orphaning [Conformance]', async () => {
    await wire.remove(await deployment('gc-deployment'), options('Background'));
    await untilList(apps('gc-deployment', 'replicasets'), none);
    await untilList(core('gc-deployment', 'pods'), none);
  });

  it('should orphan RS created by deployment when deleteOptions.PropagationPolicy is Orphan [Conformance]', async () => {
    const path = await deployment('gc-deployment-orphan');
    await wire.remove(path, options('Orphan'));
    await wire.until(path, (object) => object === undefined);
    const sets = (await wire.list(apps('gc-deployment-orphan', 'replicasets'))).items;
    expect(sets).toHaveLength(1);
    expect(orphaned(sets)).toBe(true);
    expect((await wire.list(core('gc-deployment-orphan', 'pods'))).items).toHaveLength(2);
  });
});

describe('[sig-api-machinery] Namespaces [Serial]', () => {
  it('should ensure that all pods are removed when a namespace is deleted, and should ensure that all services are removed when a namespace is deleted [Conformance]', async () => {
    const namespace = await wire.namespace('going');
    await wire.create(core(namespace, 'pods'), { apiVersion: 'v1', kind: 'Pod', ...meta('test-pod'), spec: template('x').spec });
    await wire.create(core(namespace, 'services'), {
      apiVersion: 'v1',
      kind: 'Service',
      ...meta('test-service'),
      spec: { ports: [{ port: 80 }], selector: { a: 'b' } },
    });
    await wire.until(`${core(namespace, 'pods')}/test-pod`, (object) => object?.status?.['phase'] === 'Running');
    await wire.remove(`/api/v1/namespaces/${namespace}`);
    await wire.until(`/api/v1/namespaces/${namespace}`, (object) => object === undefined);
    await wire.namespace(namespace);
    for (const resource of ['pods', 'services']) expect((await wire.list(core(namespace, resource))).items).toEqual([]);
  });
});

describe('[sig-api-machinery] OrderedNamespaceDeletion', () => {
  it('namespace deletion should delete pod first [Conformance]', async () => {
    const namespace = await wire.namespace('ordered');
    const finalizers = ['e2e.example.com/finalizer'];
    await wire.create(core(namespace, 'pods'), {
      apiVersion: 'v1',
      kind: 'Pod',
      ...meta('held', { finalizers }),
      spec: template('x').spec,
    });
    await wire.create(core(namespace, 'configmaps'), { apiVersion: 'v1', kind: 'ConfigMap', ...meta('later') });
    const path = `/api/v1/namespaces/${namespace}`;
    await wire.remove(path);
    const deletionCondition = (object: Thing | undefined) =>
      JSON.stringify(object?.status ?? {}).includes('"NamespaceContentRemaining","status":"True"') ||
      JSON.stringify(object?.status ?? {}).includes('"NamespaceFinalizersRemaining"');
    await wire.until(path, deletionCondition);
    expect((await wire.get(`${core(namespace, 'pods')}/held`)).metadata?.deletionTimestamp).toBeDefined();
    expect((await wire.get(`${core(namespace, 'configmaps')}/later`)).metadata?.deletionTimestamp).toBeUndefined();
    await wire.patch(`${core(namespace, 'pods')}/held`, { metadata: { finalizers: null } });
    await wire.until(path, (object) => object === undefined);
  });
});

describe('[sig-api-machinery] ResourceQuota', () => {
  const rows: readonly (readonly [title: string, resource: string, collection: string, body: object])[] = [
    ['configMap.', 'configmaps', '/api/v1/namespaces/NS/configmaps', { apiVersion: 'v1', kind: 'ConfigMap' }],
    ['secret.', 'secrets', '/api/v1/namespaces/NS/secrets', { apiVersion: 'v1', kind: 'Secret' }],
    ['service.', 'services', '/api/v1/namespaces/NS/services', { apiVersion: 'v1', kind: 'Service', spec: { ports: [{ port: 80 }] } }],
    [
      'replica set.',
      'count/replicasets.apps',
      '/apis/apps/v1/namespaces/NS/replicasets',
      {
        apiVersion: 'apps/v1',
        kind: 'ReplicaSet',
        spec: { replicas: 0, selector: { matchLabels: { app: 'q' } }, template: template('q') },
      },
    ],
    [
      'replication controller.',
      'replicationcontrollers',
      '/api/v1/namespaces/NS/replicationcontrollers',
      { apiVersion: 'v1', kind: 'ReplicationController', spec: { replicas: 0, selector: { app: 'q' }, template: template('q') } },
    ],
  ]; // prettier-ignore

  it.each(rows)('should create a ResourceQuota and capture the life of a %s [Conformance]', async (_, resource, collection, body) => {
    const namespace = await wire.namespace(`quota-${collection.split('/').at(-1)}`);
    const path = collection.replace('NS', namespace);
    // the namespace contains the ConfigMap kube-root-ca.crt
    if (resource === 'configmaps') await wire.until(`${path}/kube-root-ca.crt`, (object) => object !== undefined);
    const before = (await wire.list(path)).items.length;
    const quotas = core(namespace, 'resourcequotas');
    await wire.create(quotas, {
      apiVersion: 'v1',
      kind: 'ResourceQuota',
      ...meta('test-quota'),
      spec: { hard: { [resource]: String(before + 1), resourcequotas: '1' } },
    });
    const used = (count: number) =>
      wire.until(
        `${quotas}/test-quota`,
        (object) => (object?.status?.['used'] as Record<string, string> | undefined)?.[resource] === String(count),
      );
    expect((await used(before))?.status).toMatchObject({ hard: { [resource]: String(before + 1) }, used: { resourcequotas: '1' } });
    await wire.create(path, { ...body, ...meta('counted') });
    await used(before + 1);
    const { status } = await wire.rejectionOf(wire.create(path, { ...body, ...meta('too-many') }));
    expect(status.message).toContain(
      `exceeded quota: test-quota, requested: ${resource}=1, used: ${resource}=${before + 1}, limited: ${resource}=${before + 1}`,
    );
    await wire.remove(`${path}/counted`);
    await used(before);
  });
});
