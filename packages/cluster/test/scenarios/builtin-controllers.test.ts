import {
  configMaps,
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
import { formatTime } from '@oarlock/api/values/time';
import type { Deployment, ReplicaSet } from '@oarlock/api/types/apps-v1';
import type { Pod } from '@oarlock/api/types/core-v1';
import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import { builtin } from '@oarlock/controllers/builtin';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Client, Events, Informers } from '@oarlock/spi/client';
import { Cluster, Keys } from '@oarlock/spi/cluster';
import { Controllers } from '@oarlock/spi/controller';
import { controllerContract, type ControllerScenario } from '@oarlock/spi/controller/contract';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, sequence, type MemoryApi } from '@oarlock/testing/memory-api';
import { expect } from 'vitest';
import { clusterFacts, clusterKeys } from '../support/facts.ts';

type Scenario = ControllerScenario<MemoryApi>;

/** Runs the contract of controllers against a built-in one. */
function contractOf(id: string, scenarios: readonly Scenario[]): void {
  const plugin = builtin.find((each) => each.id === id);
  if (plugin === undefined) throw new Error(`unknown controller ${id}`);
  controllerContract(id, {
    open() {
      const clock = new FakeClock();
      return { clock, api: memoryApi({ clock }), informers: (client) => new SharedInformerFactory({ client, clock, random: sequence(7) }) };
    },
    create({ client, informers, clock }) {
      const host = new PluginHost({ clock })
        .provide(Client, client)
        .provide(Informers, informers)
        .provide(Events, { recorder: () => ({ event: () => {} }) })
        .provide(Cluster, clusterFacts)
        .provide(Keys, clusterKeys)
        .add({ plugin });
      const [controller] = host.get(Controllers);
      if (controller === undefined) throw new Error(`${id} was not created`);
      return controller;
    },
    scenarios,
  });
}

const namespace = (name: string) => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name },
  spec: { finalizers: ['kubernetes'] },
  status: { phase: 'Active' },
});
const makeNamespaces = (api: MemoryApi) => {
  api.seed(namespaces, namespace('a'), namespace('b'));
};

contractOf('controller-service-account', [
  {
    title: 'accounts in every namespace, also after one is deleted',
    steps: [
      makeNamespaces,
      (api) => {
        if (api.object(serviceAccounts, { namespace: 'a', name: 'default' }))
          api.remove(serviceAccounts, { namespace: 'a', name: 'default' });
      },
    ],
    expectResult: (api) => {
      expect(
        api
          .objects(serviceAccounts)
          .map(({ metadata }) => `${metadata?.namespace}/${metadata?.name}`)
          .sort(),
      ).toEqual(['a/default', 'b/default']);
    },
  },
]);

contractOf('controller-root-ca', [
  {
    title: 'the CA in every namespace, also after somebody has changed it',
    steps: [
      makeNamespaces,
      async (api) => {
        if (api.object(configMaps, { namespace: 'a', name: 'kube-root-ca.crt' }))
          await api
            .client()
            .patch(configMaps, { namespace: 'a', name: 'kube-root-ca.crt' }, 'merge', { data: { 'ca.crt': 'forged', more: 'x' } });
      },
    ],
    expectResult: (api) => {
      for (const name of ['a', 'b'])
        expect(api.object(configMaps, { namespace: name, name: 'kube-root-ca.crt' })?.data).toEqual({ 'ca.crt': clusterKeys.caBundle });
    },
  },
]);

const template = (image: string) => ({ metadata: { labels: { app: 'web' } }, spec: { containers: [{ name: 'c', image }] } });
const replicaSet = (replicas: number): ReplicaSet => ({
  apiVersion: 'apps/v1',
  kind: 'ReplicaSet',
  metadata: { namespace: 'd', name: 'web' },
  spec: { replicas, selector: { matchLabels: { app: 'web' } }, template: template('a:1') },
});
const live = (api: MemoryApi) =>
  api
    .objects(pods, 'd')
    .filter(
      ({ metadata, status }) => metadata?.deletionTimestamp === undefined && status?.phase !== 'Failed' && status?.phase !== 'Succeeded',
    );
const isReady = ({ status }: Pod) => status?.conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'True') === true;

/** A fake kubelet: pods become ready, and are removed once they are deleted. */
async function kubelet(api: MemoryApi): Promise<boolean> {
  let changed = false;
  for (const pod of api.objects(pods)) {
    const { namespace: inside = '', name = '' } = pod.metadata ?? {};
    if (pod.metadata?.deletionTimestamp !== undefined) {
      api.remove(pods, { namespace: inside, name });
      changed = true;
    } else if (!isReady(pod) && pod.status?.phase !== 'Failed') {
      const at = { lastTransitionTime: formatTime(Date.UTC(2026, 0, 1)) };
      await api.client().update(
        pods,
        {
          ...pod,
          status: {
            phase: 'Running',
            podIP: `10.244.0.${9 + (Number(/\d+$/.exec(pod.metadata?.uid ?? '')?.[0] ?? 0) % 200)}`,
            conditions: [{ type: 'Ready', status: 'True', ...at }],
          },
        },
        { subresource: 'status' },
      );
      changed = true;
    }
  }
  return changed;
}

contractOf('controller-replica-set', [
  {
    title: 'three pods, then one',
    simulateOthers: kubelet,
    steps: [
      async (api) => {
        await api.client().create(replicaSets, replicaSet(3));
      },
      async (api) => {
        await api.client().patch(replicaSets, { namespace: 'd', name: 'web' }, 'merge', { spec: { replicas: 1 } });
      },
    ],
    expectResult: (api) => {
      expect(live(api)).toHaveLength(1);
      expect(api.object(replicaSets, { namespace: 'd', name: 'web' })?.status).toMatchObject({
        replicas: 1,
        readyReplicas: 1,
        availableReplicas: 1,
        observedGeneration: 2,
      });
    },
  },
  {
    title: 'a pod that failed is replaced, an orphan is adopted',
    simulateOthers: kubelet,
    steps: [
      (api) => {
        api.seed(pods, {
          apiVersion: 'v1',
          kind: 'Pod',
          metadata: { namespace: 'd', name: 'orphan', labels: { app: 'web' } },
          spec: { containers: [{ name: 'c' }] },
        });
      },
      async (api) => {
        await api.client().create(replicaSets, replicaSet(2));
      },
      async (api) => {
        const orphan = api.object(pods, { namespace: 'd', name: 'orphan' });
        if (orphan !== undefined) await api.client().update(pods, { ...orphan, status: { phase: 'Failed' } }, { subresource: 'status' });
      },
    ],
    expectResult: (api) => {
      expect(live(api)).toHaveLength(2);
      for (const pod of live(api))
        expect(pod.metadata?.ownerReferences?.[0]).toMatchObject({ kind: 'ReplicaSet', name: 'web', controller: true });
      expect(api.object(replicaSets, { namespace: 'd', name: 'web' })?.status).toMatchObject({ replicas: 2, readyReplicas: 2 });
    },
  },
]);

const deployment: Deployment = {
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { namespace: 'd', name: 'web' },
  spec: {
    replicas: 2,
    selector: { matchLabels: { app: 'web' } },
    revisionHistoryLimit: 10,
    progressDeadlineSeconds: 600,
    strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 1 } },
    template: template('a:1'),
  },
};
/** A fake ReplicaSet controller and kubelet: sets get their replicas. */
async function sets(api: MemoryApi): Promise<boolean> {
  let changed = false;
  for (const set of api.objects(replicaSets)) {
    const replicas = set.spec?.replicas ?? 0;
    const status = {
      replicas,
      fullyLabeledReplicas: replicas,
      readyReplicas: replicas,
      availableReplicas: replicas,
      observedGeneration: set.metadata?.generation ?? 0,
    };
    if (JSON.stringify(set.status) === JSON.stringify(status)) continue;
    await api.client().update(replicaSets, { ...set, status }, { subresource: 'status' });
    changed = true;
  }
  return changed;
}

contractOf('controller-deployment', [
  {
    title: 'a rollout of one version, then another',
    simulateOthers: sets,
    steps: [
      async (api) => {
        await api.client().create(deployments, deployment);
      },
      async (api) => {
        await api.client().patch(deployments, { namespace: 'd', name: 'web' }, 'merge', { spec: { template: template('a:2') } });
      },
    ],
    expectResult: (api) => {
      const all = api.objects(replicaSets, 'd');
      const current = all.filter(({ spec }) => spec?.template?.spec?.containers[0]?.image === 'a:2');
      expect(current.map(({ spec }) => spec?.replicas)).toEqual([2]);
      for (const set of all) if (!current.includes(set)) expect(set.spec?.replicas).toBe(0);
      expect(api.object(deployments, { namespace: 'd', name: 'web' })?.status).toMatchObject({
        replicas: 2,
        updatedReplicas: 2,
        availableReplicas: 2,
      });
    },
  },
]);

const webService = {
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { namespace: 'd', name: 'web' },
  spec: {
    selector: { app: 'web' },
    clusterIP: '10.96.0.7',
    clusterIPs: ['10.96.0.7'],
    ipFamilies: ['IPv4'],
    ports: [{ name: 'http', port: 80, targetPort: 8080, protocol: 'TCP' }],
  },
};
const readyPod = (name: string, ip: string, ready = true): Pod => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { namespace: 'd', name, labels: { app: 'web' } },
  spec: { nodeName: 'n1', containers: [{ name: 'c', ports: [{ containerPort: 8080 }] }] },
  status: { phase: 'Running', podIP: ip, podIPs: [{ ip }], conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }] },
});
const endpointSteps: Scenario['steps'] = [
  async (api) => {
    api.seed(nodes, { apiVersion: 'v1', kind: 'Node', metadata: { name: 'n1' }, spec: {} });
    await api.client().create(services, webService);
  },
  (api) => {
    api.seed(pods, readyPod('p1', '10.244.0.1'), readyPod('p2', '10.244.0.2'), readyPod('p3', '10.244.0.3', false));
  },
  (api) => {
    api.remove(pods, { namespace: 'd', name: 'p1' });
  },
  (api) => {
    api.seed(pods, readyPod('p3', '10.244.0.3'));
  },
];

contractOf('controller-endpoints', [
  {
    title: 'the addresses of ready pods',
    steps: endpointSteps,
    expectResult: (api) => {
      expect(
        api
          .object(endpoints, { namespace: 'd', name: 'web' })
          ?.subsets?.flatMap(({ addresses = [] }) => addresses.map(({ ip }) => ip))
          .sort(),
      ).toEqual(['10.244.0.2', '10.244.0.3']);
    },
  },
]);
contractOf('controller-endpoint-slice', [
  {
    title: 'the addresses of ready pods, in one slice',
    steps: endpointSteps,
    expectResult: (api) => {
      const slices = api.objects(endpointSlices, 'd');
      expect(
        slices
          .flatMap(({ endpoints: some }) => some ?? [])
          .filter(({ conditions }) => conditions?.ready)
          .flatMap(({ addresses }) => addresses)
          .sort(),
      ).toEqual(['10.244.0.2', '10.244.0.3']);
      expect(slices.filter(({ endpoints: some }) => (some ?? []).length > 0)).toHaveLength(1);
    },
  },
]);

contractOf('controller-node-ipam', [
  {
    title: 'a range of its own for every node',
    steps: [
      (api) => {
        api.seed(nodes, ...['n1', 'n2', 'n3'].map((name) => ({ apiVersion: 'v1', kind: 'Node', metadata: { name }, spec: {} })));
      },
      (api) => {
        api.remove(nodes, { name: 'n2' });
      },
      (api) => {
        api.seed(nodes, { apiVersion: 'v1', kind: 'Node', metadata: { name: 'n4' }, spec: {} });
      },
    ],
    expectResult: (api) => {
      const ranges = api.objects(nodes).map(({ spec }) => spec?.podCIDR);
      expect(ranges).toHaveLength(3);
      for (const range of ranges) expect(range).toMatch(/^10\.244\.\d+\.0\/24$/);
      expect(new Set(ranges).size).toBe(3);
    },
  },
]);

contractOf('controller-pod-gc', [
  {
    title: 'pods of a node that is gone',
    steps: [
      (api) => {
        api.seed(
          nodes,
          { apiVersion: 'v1', kind: 'Node', metadata: { name: 'stays' } },
          { apiVersion: 'v1', kind: 'Node', metadata: { name: 'goes' } },
        );
      },
      (api) => {
        for (const node of ['stays', 'goes', 'never-was'])
          api.seed(pods, {
            apiVersion: 'v1',
            kind: 'Pod',
            metadata: { namespace: 'd', name: `on-${node}` },
            spec: { nodeName: node, containers: [{ name: 'c' }] },
          });
      },
      (api) => {
        api.remove(nodes, { name: 'goes' });
      },
    ],
    expectResult: (api) => {
      expect(api.objects(pods).map(({ metadata }) => metadata?.name)).toEqual(['on-stays']);
    },
  },
]);

contractOf('controller-node-lifecycle', [
  {
    title: 'a node whose lease has run out',
    steps: [
      (api) => {
        const now = formatTime(Date.UTC(2026, 0, 1));
        api.seed(nodes, {
          apiVersion: 'v1',
          kind: 'Node',
          metadata: { name: 'n1' },
          spec: {},
          status: { conditions: [{ type: 'Ready', status: 'True', lastHeartbeatTime: now, lastTransitionTime: now }] },
        });
        api.seed(leases, {
          apiVersion: 'coordination.k8s.io/v1',
          kind: 'Lease',
          metadata: { namespace: 'kube-node-lease', name: 'n1' },
          spec: { holderIdentity: 'n1', leaseDurationSeconds: 40, renewTime: '2026-01-01T00:00:00.000000Z' },
        });
      },
    ],
    expectResult: (api) => {
      const node = api.object(nodes, { name: 'n1' });
      expect(node?.status?.conditions?.find(({ type }) => type === 'Ready')?.status).toBe('Unknown');
      // if all nodes are unreachable, no pod is evicted
      expect(node?.spec?.taints?.map(({ key, effect }) => `${key}:${effect}`)).toEqual(['node.kubernetes.io/unreachable:NoSchedule']);
    },
  },
]);
