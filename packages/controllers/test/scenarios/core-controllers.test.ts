import type { KubeObject } from '@oarlock/api/object';
import {
  deployments,
  endpoints,
  endpointSlices,
  leases,
  namespaces,
  nodes,
  pods,
  replicaSets,
  serviceAccounts,
  services,
} from '@oarlock/api/resources';
import type { Resource } from '@oarlock/api/resource';
import { failure } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/values/time';
import type { Deployment, ReplicaSet } from '@oarlock/api/types/apps-v1';
import type { Pod } from '@oarlock/api/types/core-v1';
import { builtin } from '@oarlock/controllers/builtin';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Client, Events, Informers } from '@oarlock/spi/client';
import { Cluster, Keys } from '@oarlock/spi/cluster';
import { Controllers } from '@oarlock/spi/controller';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, type MemoryApi } from '@oarlock/testing/memory-api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { runController } from '../support/run-controller.ts';

const facts = {
  name: 't',
  domain: 'cluster.local',
  podCIDRs: ['10.244.0.0/16'],
  serviceCIDRs: ['10.96.0.0/16'],
  kubernetesServiceIP: '10.96.0.1',
  dnsServiceIP: '10.96.0.10',
  serverUrl: 'https://127.0.0.1:6443',
  nodePortRange: { from: 30_000, to: 32_767 },
  version: 'v1.36.0',
};
const keys = {
  caBundle: 'CA',
  issue: () => Promise.reject(new Error('none')),
  sign: () => Promise.reject(new Error('none')),
  serviceAccount: { issuer: '', signingKey: '', verifyingKeys: [] },
};

let clock: FakeClock;
let api: MemoryApi;
let abort: AbortController;
let recordedEvents: { reason: string; message: string }[];

/** Runs all built-in controllers on an in-memory API, as the controllers role does. */
async function start(): Promise<void> {
  const host = new PluginHost({ clock });
  const recorder = {
    event: (_about: KubeObject, _type: string, reason: string, message: string) => {
      recordedEvents.push({ reason, message });
    },
  };
  host
    .provide(Client, api.client())
    .provide(Informers, api.informers)
    .provide(Events, { recorder: () => recorder })
    .provide(Cluster, facts)
    .provide(Keys, keys);
  for (const plugin of builtin) host.add({ plugin });
  await host.start();
  for (const controller of host.get(Controllers)) void runController(controller, { api, clock, signal: abort.signal });
  await clock.settle();
}

beforeEach(() => {
  clock = new FakeClock();
  api = memoryApi({ clock });
  abort = new AbortController();
  recordedEvents = [];
});
afterEach(async () => {
  abort.abort();
  await api.stop();
});

const template = (image: string) => ({ metadata: { labels: { app: 'web' } }, spec: { containers: [{ name: 'c', image }] } });
const deployment = (more: Partial<Deployment['spec'] & object> = {}): Deployment => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { namespace: 'd', name: 'web' },
  spec: {
    replicas: 3,
    selector: { matchLabels: { app: 'web' } },
    progressDeadlineSeconds: 600,
    strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 1 } },
    template: template('a:1'),
    ...more,
  },
});
const live = () => api.objects(pods, 'd').filter(({ metadata }) => metadata?.deletionTimestamp === undefined);
const sets = () => api.objects(replicaSets, 'd');
const image = (set: ReplicaSet) => set.spec?.template?.spec?.containers[0]?.image;
const get = () => api.object(deployments, { namespace: 'd', name: 'web' }) ?? {};
const condition = (object: Deployment, type: string) => object.status?.conditions?.find((each) => each.type === type);

async function makeReady(some: readonly Pod[] = live()): Promise<void> {
  for (const pod of some) {
    if (pod.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True')) continue;
    const now = formatTime(clock.now());
    await api.client().update(
      pods,
      {
        ...pod,
        status: {
          phase: 'Running',
          podIP: `10.244.0.${10 + Number(pod.metadata?.resourceVersion)}`,
          conditions: [{ type: 'Ready', status: 'True', lastTransitionTime: now }],
        },
      },
      { subresource: 'status' },
    );
  }
  await clock.settle();
}
/** Removes terminating pods at once, as a kubelet does after the grace period. */
async function reap(): Promise<void> {
  for (const pod of api.objects(pods, 'd'))
    if (pod.metadata?.deletionTimestamp !== undefined) api.remove(pods, { namespace: 'd', name: pod.metadata.name ?? '' });
  await clock.settle();
}
const names = (resource: Resource) => api.objects(resource, 'd').map(({ metadata }) => metadata?.name);

describe('DeploymentController', () => {
  it('creates a ReplicaSet, whose pods are created, and reports when all are available', async () => {
    await start();
    await api.client().create(deployments, deployment());
    await clock.settle();
    expect(live()).toHaveLength(3);
    const [set] = sets();
    expect(set?.metadata?.name).toMatch(/^web-[4-9bcdf]{1,10}$/);
    expect(set?.metadata?.annotations).toMatchObject({
      'deployment.kubernetes.io/revision': '1',
      'deployment.kubernetes.io/desired-replicas': '3',
      'deployment.kubernetes.io/max-replicas': '4',
    });
    expect(live()[0]?.metadata).toMatchObject({
      generateName: `${set?.metadata?.name}-`,
      ownerReferences: [{ kind: 'ReplicaSet', controller: true, blockOwnerDeletion: true }],
    });
    expect(condition(get(), 'Available')).toMatchObject({ status: 'False', reason: 'MinimumReplicasUnavailable' });
    await makeReady();
    expect(get().status).toMatchObject({ replicas: 3, updatedReplicas: 3, readyReplicas: 3, availableReplicas: 3, observedGeneration: 1 });
    expect(condition(get(), 'Available')).toMatchObject({
      status: 'True',
      reason: 'MinimumReplicasAvailable',
      message: 'Deployment has minimum availability.',
    });
    expect(condition(get(), 'Progressing')).toMatchObject({
      status: 'True',
      reason: 'NewReplicaSetAvailable',
      message: `ReplicaSet "${set?.metadata?.name}" has successfully progressed.`,
    });
    expect(recordedEvents).toContainEqual({
      reason: 'ScalingReplicaSet',
      message: `Scaled up replica set ${set?.metadata?.name} from 0 to 3`,
    });
  });

  it('rolls out a new template within its limits, and back to an old one', async () => {
    await start();
    await api.client().create(deployments, deployment());
    await clock.settle();
    await makeReady();
    const first = sets()[0]?.metadata?.name;
    await api.client().patch(deployments, { namespace: 'd', name: 'web' }, 'merge', { spec: { template: template('a:2') } });
    for (let round = 0; round < 12; round++) {
      await clock.settle();
      const ready = live().filter(({ status }) =>
        status?.conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'True'),
      );
      expect(live().length).toBeLessThanOrEqual(4);
      expect(ready.length).toBeGreaterThanOrEqual(2);
      await reap();
      await makeReady(live().slice(-1));
      await makeReady();
    }
    expect(live().map(({ spec }) => spec?.containers[0]?.image)).toEqual(['a:2', 'a:2', 'a:2']);
    expect(sets().find((set) => image(set) === 'a:1')?.spec?.replicas).toBe(0);
    expect(get().metadata?.annotations?.['deployment.kubernetes.io/revision']).toBe('2');

    await api.client().patch(deployments, { namespace: 'd', name: 'web' }, 'merge', { spec: { template: template('a:1') } });
    for (let round = 0; round < 12; round++) {
      await clock.settle();
      await reap();
      await makeReady();
    }
    const back = sets().find((set) => image(set) === 'a:1');
    expect(back?.metadata?.name).toBe(first);
    expect(back?.metadata?.annotations).toMatchObject({
      'deployment.kubernetes.io/revision': '3',
      'deployment.kubernetes.io/revision-history': '1',
    });
    expect(get().status).toMatchObject({ updatedReplicas: 3, availableReplicas: 3, unavailableReplicas: 0 });
  });

  it('finds the ReplicaSet of a template regardless of how empty values are written', async () => {
    await start();
    await api.client().create(deployments, deployment());
    await clock.settle();
    const withEmptyValues = {
      metadata: { creationTimestamp: null, labels: { app: 'web' } },
      spec: { containers: [{ name: 'c', image: 'a:1', resources: {}, env: [] }] },
    };
    await api
      .client()
      .patch(deployments, { namespace: 'd', name: 'web' }, 'json', [{ op: 'replace', path: '/spec/template', value: withEmptyValues }]);
    await clock.settle();
    expect(sets()).toHaveLength(1);
  });

  it('scales without a rollout', async () => {
    await start();
    await api.client().create(deployments, deployment());
    await clock.settle();
    await api.client().patch(deployments, { namespace: 'd', name: 'web' }, 'merge', { spec: { replicas: 5 } });
    await clock.settle();
    expect(live()).toHaveLength(5);
    await api.client().patch(deployments, { namespace: 'd', name: 'web' }, 'merge', { spec: { replicas: 1 } });
    await clock.settle();
    expect(live()).toHaveLength(1);
    expect(sets()).toHaveLength(1);
  });

  it('with Recreate creates new pods after the old ones are deleted', async () => {
    await start();
    await api.client().create(deployments, deployment({ strategy: { type: 'Recreate' } }));
    await clock.settle();
    await makeReady();
    // a finalizer keeps deleted pods visible, as the grace period does
    for (const pod of live())
      api.seed(pods, {
        ...pod,
        metadata: { ...pod.metadata, finalizers: ['test/hold'] },
        spec: { ...pod.spec, containers: pod.spec?.containers ?? [], nodeName: 'n' },
      });
    await clock.settle();
    await api.client().patch(deployments, { namespace: 'd', name: 'web' }, 'merge', { spec: { template: template('a:2') } });
    await clock.settle();
    expect(live()).toEqual([]);
    expect(api.objects(pods, 'd')).toHaveLength(3);
    await reap();
    expect(live().map(({ spec }) => spec?.containers[0]?.image)).toEqual(['a:2', 'a:2', 'a:2']);
  });

  it('reports the progress deadline', async () => {
    await start();
    await api.client().create(deployments, deployment({ progressDeadlineSeconds: 60 }));
    await clock.advance(61_000);
    expect(condition(get(), 'Progressing')).toMatchObject({ status: 'False', reason: 'ProgressDeadlineExceeded' });
    expect(condition(get(), 'Progressing')?.message).toMatch(/^ReplicaSet "web-\w+" has timed out progressing\.$/);
  });

  it('stops a paused rollout and continues it on resume', async () => {
    await start();
    await api.client().create(deployments, deployment());
    await clock.settle();
    await makeReady();
    await api.client().patch(deployments, { namespace: 'd', name: 'web' }, 'merge', { spec: { paused: true, template: template('a:2') } });
    await clock.settle();
    expect(sets().map(image)).toEqual(['a:1']);
    expect(condition(get(), 'Progressing')).toMatchObject({
      status: 'Unknown',
      reason: 'DeploymentPaused',
      message: 'Deployment is paused',
    });
    await api.client().patch(deployments, { namespace: 'd', name: 'web' }, 'merge', { spec: { paused: false } });
    await clock.settle();
    expect(sets().map(image).sort()).toEqual(['a:1', 'a:2']);
  });
});

describe('ReplicaSetController', () => {
  const set: ReplicaSet = {
    apiVersion: 'apps/v1',
    kind: 'ReplicaSet',
    metadata: { namespace: 'd', name: 's' },
    spec: { replicas: 2, selector: { matchLabels: { app: 'web' } }, template: template('a:1') },
  };

  it('replaces deleted pods and deletes excess ones', async () => {
    await start();
    await api.client().create(replicaSets, set);
    await clock.settle();
    const [victim] = live();
    await api.client().delete(pods, { namespace: 'd', name: victim?.metadata?.name ?? '' });
    await clock.settle();
    expect(live()).toHaveLength(2);
    await api.client().patch(replicaSets, { namespace: 'd', name: 's' }, 'merge', { spec: { replicas: 0 } });
    await clock.settle();
    expect(live()).toEqual([]);
  });

  it('adopts matching orphans and releases pods that no longer match', async () => {
    api.seed(pods, { metadata: { namespace: 'd', name: 'orphan', labels: { app: 'web' } }, spec: { containers: [{ name: 'c' }] } });
    await start();
    await api.client().create(replicaSets, set);
    await clock.settle();
    expect(live()).toHaveLength(2);
    expect(api.object(pods, { namespace: 'd', name: 'orphan' })?.metadata?.ownerReferences).toMatchObject([
      { kind: 'ReplicaSet', name: 's' },
    ]);
    await api.client().patch(pods, { namespace: 'd', name: 'orphan' }, 'merge', { metadata: { labels: { app: 'other' } } });
    await clock.settle();
    expect(api.object(pods, { namespace: 'd', name: 'orphan' })?.metadata?.ownerReferences ?? []).toEqual([]);
    expect(live()).toHaveLength(3);
  });

  it('does not create pods twice while its cache is stale', async () => {
    await start();
    api.dropWatches(pods);
    await api.client().create(replicaSets, set);
    await clock.settle();
    await api.client().patch(replicaSets, { namespace: 'd', name: 's' }, 'merge', { metadata: { annotations: { poke: '1' } } });
    await clock.settle();
    expect(live()).toHaveLength(2);
  });

  it('does not create pods again when the responses to their creation are lost', async () => {
    await start();
    // the connection of the requests is also that of the watch
    api.failNext({ verb: 'watch', resource: pods }, failure('ServiceUnavailable', 'no connection'), 3);
    api.dropWatches(pods);
    api.failNext(
      { verb: 'create', resource: pods },
      ({ body }) => {
        const { metadata, ...rest } = body as Pod;
        api.seed(pods, { ...rest, metadata: { ...metadata, name: `lost-${api.objects(pods).length}` } });
        return failure('ServiceUnavailable', 'the connection was lost');
      },
      2,
    );
    await api.client().create(replicaSets, { ...set, spec: { ...set.spec, selector: set.spec?.selector ?? {}, replicas: 5 } });
    await clock.advance(60_000);
    expect(live()).toHaveLength(5);
    // no pod was created in addition, and deleted when the cache showed it
    expect(api.requests.filter(({ verb, resource }) => verb === 'create' && resource === pods)).toHaveLength(5);
  });

  it('does not delete further pods when the response to a deletion is lost', async () => {
    await start();
    await api.client().create(replicaSets, set);
    await clock.settle();
    await makeReady(live());
    api.failNext({ verb: 'watch', resource: pods }, failure('ServiceUnavailable', 'no connection'), 3);
    api.dropWatches(pods);
    api.failNext({ verb: 'delete', resource: pods }, ({ name, namespace }) => {
      api.remove(pods, { name, namespace });
      return failure('ServiceUnavailable', 'the connection was lost');
    });
    await api.client().patch(replicaSets, { namespace: 'd', name: 's' }, 'merge', { spec: { replicas: 1 } });
    await clock.advance(60_000);
    expect(live()).toHaveLength(1);
    expect(api.requests.filter(({ verb, resource }) => verb === 'create' && resource === pods)).toHaveLength(2);
  });

  it('deletes pods that are not ready before ready ones', async () => {
    await start();
    await api.client().create(replicaSets, set);
    await clock.settle();
    const [keep] = live();
    await makeReady(keep ? [keep] : []);
    await api.client().patch(replicaSets, { namespace: 'd', name: 's' }, 'merge', { spec: { replicas: 1 } });
    await clock.settle();
    expect(live().map(({ metadata }) => metadata?.name)).toEqual([keep?.metadata?.name]);
  });
});

describe('endpoints controllers', () => {
  it('track the pods of a Service: ready, not ready, deleted', async () => {
    await start();
    await api.client().create(services, {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { namespace: 'd', name: 'web' },
      spec: {
        clusterIP: '10.96.0.7',
        clusterIPs: ['10.96.0.7'],
        ipFamilies: ['IPv4'],
        selector: { app: 'web' },
        ports: [{ name: 'http', port: 80, targetPort: 8080, protocol: 'TCP' }],
      },
    });
    api.seed(nodes, { metadata: { name: 'n' } });
    const { spec, ...rest } = template('a:1');
    await api
      .client()
      .create(
        deployments,
        deployment({ replicas: 2, template: { ...rest, spec: { ...spec, containers: spec?.containers ?? [], nodeName: 'n' } } }),
      );
    await clock.settle();
    await makeReady();
    const [slice] = api.objects(endpointSlices, 'd');
    expect(slice).toMatchObject({
      addressType: 'IPv4',
      ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
      metadata: {
        labels: { 'kubernetes.io/service-name': 'web', 'endpointslice.kubernetes.io/managed-by': 'endpointslice-controller.k8s.io' },
      },
    });
    expect(slice?.endpoints?.map(({ conditions }) => conditions)).toEqual([
      { ready: true, serving: true, terminating: false },
      { ready: true, serving: true, terminating: false },
    ]);
    expect(api.object(endpoints, { namespace: 'd', name: 'web' })?.subsets?.[0]?.addresses).toHaveLength(2);
    await api.client().patch(deployments, { namespace: 'd', name: 'web' }, 'merge', { spec: { replicas: 0 } });
    await clock.settle();
    await reap();
    expect(api.objects(endpointSlices, 'd').flatMap((each) => each.endpoints ?? [])).toEqual([]);
    expect(api.object(endpoints, { namespace: 'd', name: 'web' })?.subsets ?? []).toEqual([]);
  });
});

describe('GarbageCollector', () => {
  it('deletes dependents of a deleted owner transitively', async () => {
    await start();
    await api.client().create(deployments, deployment());
    await clock.settle();
    await api.client().delete(deployments, { namespace: 'd', name: 'web' }, { propagationPolicy: 'Background' });
    await clock.settle();
    await reap();
    expect([names(deployments), names(replicaSets), names(pods)]).toEqual([[], [], []]);
  });

  it('deletes dependents of an owner that never existed and keeps those with another owner', async () => {
    await start();
    const [owner] = api.seed(serviceAccounts, { metadata: { namespace: 'd', name: 'owner' } });
    const ref = (uid: string) => ({ apiVersion: 'v1', kind: 'ServiceAccount', name: 'owner', uid });
    await api.client().create(pods, {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { namespace: 'd', name: 'lost', ownerReferences: [ref('nobody')] },
      spec: { containers: [{ name: 'c' }] },
    });
    await api.client().create(pods, {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { namespace: 'd', name: 'kept', ownerReferences: [ref('nobody'), ref(owner?.metadata?.uid ?? '')] },
      spec: { containers: [{ name: 'c' }] },
    });
    await clock.settle();
    expect(names(pods)).toEqual(['kept']);
    expect(api.object(pods, { namespace: 'd', name: 'kept' })?.metadata?.ownerReferences).toHaveLength(1);
  });
});

describe('node controllers', () => {
  const lease = (at: number) => ({
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { namespace: 'kube-node-lease', name: 'n' },
    spec: { holderIdentity: 'n', renewTime: new Date(at).toISOString() },
  });

  it('taint an unreachable node, mark its pods not ready, and undo it after a heartbeat', async () => {
    api.seed(nodes, { metadata: { name: 'n' }, status: { conditions: [{ type: 'Ready', status: 'True' }] } });
    api.seed(leases, lease(clock.now()));
    api.seed(pods, {
      metadata: { namespace: 'd', name: 'p' },
      spec: { nodeName: 'n', containers: [{ name: 'c' }] },
      status: { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] },
    });
    // a node with heartbeats: in a fully disrupted cluster nothing is evicted
    api.seed(nodes, { metadata: { name: 'm' }, status: { conditions: [{ type: 'Ready', status: 'True' }] } });
    const other = { ...lease(clock.now()), metadata: { namespace: 'kube-node-lease', name: 'm' } };
    api.seed(leases, other);
    await start();
    await clock.advance(49_000);
    expect(api.object(nodes, { name: 'n' })?.spec?.taints).toBeUndefined();
    await api.client().patch(leases, other.metadata, 'merge', { spec: { renewTime: new Date(clock.now()).toISOString() } });
    await clock.advance(2_000);
    expect(api.object(nodes, { name: 'n' })?.status?.conditions?.find(({ type }) => type === 'Ready')).toMatchObject({
      status: 'Unknown',
      reason: 'NodeStatusUnknown',
      message: 'Kubelet stopped posting node status.',
    });
    expect(api.object(nodes, { name: 'n' })?.spec?.taints?.map(({ key, effect }) => `${key}:${effect}`)).toEqual([
      'node.kubernetes.io/unreachable:NoSchedule',
      'node.kubernetes.io/unreachable:NoExecute',
    ]);
    expect(api.object(pods, { namespace: 'd', name: 'p' })?.status?.conditions?.[0]).toMatchObject({ type: 'Ready', status: 'False' });
    const client = api.client();
    await client.update(leases, { ...(await client.get(leases, { namespace: 'kube-node-lease', name: 'n' })), ...lease(clock.now()) });
    const node = await client.get(nodes, { name: 'n' });
    await client.update(nodes, { ...node, status: { conditions: [{ type: 'Ready', status: 'True' }] } }, { subresource: 'status' });
    await clock.settle();
    expect(api.object(nodes, { name: 'n' })?.spec?.taints ?? []).toEqual([]);
  });

  it('allocate a distinct pod CIDR to each node', async () => {
    await start();
    for (const name of ['a', 'b', 'c']) await api.client().create(nodes, { apiVersion: 'v1', kind: 'Node', metadata: { name } });
    await clock.settle();
    expect(
      api
        .objects(nodes)
        .map(({ spec }) => spec?.podCIDR)
        .sort(),
    ).toEqual(['10.244.0.0/24', '10.244.1.0/24', '10.244.2.0/24']);
  });
});

describe('namespaces', () => {
  it('get a default service account and the CA bundle, again after their deletion', async () => {
    await start();
    await api.client().create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'd' } });
    await clock.settle();
    expect(names(serviceAccounts)).toEqual(['default']);
    await api.client().delete(serviceAccounts, { namespace: 'd', name: 'default' });
    await clock.settle();
    expect(names(serviceAccounts)).toEqual(['default']);
  });
});
