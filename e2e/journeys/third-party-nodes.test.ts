import { setInterval } from 'node:timers/promises';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Api, Item, PodItem } from '../harness/api.ts';
import { Machine } from '../harness/machine.ts';

interface NodeItem extends Item {
  readonly spec: { readonly taints?: readonly Taint[]; readonly providerID?: string; readonly podCIDR?: string };
  readonly status: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}
interface Taint {
  readonly key: string;
  readonly value?: string;
  readonly effect: string;
}

const merge = { 'content-type': 'application/merge-patch+json' };
const strategic = { 'content-type': 'application/strategic-merge-patch+json' };
const nodes = '/api/v1/nodes';
const leases = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases';
/** As the kubelet: a quarter of the duration of its lease. */
const renewIntervalMs = 10_000;
const microTime = () => new Date().toISOString().replace(/Z$/, '000Z');
const capacity = { cpu: '4', memory: '8Gi', pods: '110', 'ephemeral-storage': '100Gi' };

/**
 * A client that behaves as kwok does: it plays kubelets for nodes that are only API objects. It renews their leases, and reports through strategic merge
 * patches of the status subresource that their pods run.
 */
class FakeKubelets {
  readonly #api: Api;
  readonly #stop = new AbortController();
  readonly #nodeNames: string[] = [];
  #work: Promise<unknown> = Promise.resolve();

  constructor(api: Api) {
    this.#api = api;
  }

  /** Creates a node with its lease and reports it ready. */
  async addNode(name: string, labels: Readonly<Record<string, string>> = {}): Promise<void> {
    const metadata = {
      name,
      labels: { 'kubernetes.io/hostname': name, 'kubernetes.io/role': 'agent', type: 'kwok', ...labels },
      annotations: { 'kwok.x-k8s.io/node': 'fake', 'node.alpha.kubernetes.io/ttl': '0' },
    };
    const node = await this.#api.json<NodeItem>('POST', nodes, { body: { apiVersion: 'v1', kind: 'Node', metadata } });
    await this.#createLease(name, node.metadata.uid ?? '');
    this.#nodeNames.push(name);
    const now = new Date().toISOString().replace(/\.\d+/, '');
    const condition = (type: string, status: string, reason: string) => ({
      type,
      status,
      reason,
      message: '',
      lastHeartbeatTime: now,
      lastTransitionTime: now,
    });
    const status = {
      allocatable: capacity,
      capacity,
      addresses: [{ type: 'InternalIP', address: '10.90.0.1' }],
      conditions: [condition('Ready', 'True', 'KubeletReady'), condition('MemoryPressure', 'False', 'KubeletHasSufficientMemory')],
      nodeInfo: { kubeletVersion: 'fake', operatingSystem: 'linux', architecture: 'amd64' },
      phase: 'Running',
    };
    await this.#api.json('PATCH', `${nodes}/${name}/status`, { headers: strategic, body: { status } });
  }

  async #createLease(name: string, uid: string): Promise<void> {
    const renewTime = microTime();
    await this.#api.json('POST', leases, {
      body: {
        apiVersion: 'coordination.k8s.io/v1',
        kind: 'Lease',
        metadata: { name, ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name, uid }] },
        spec: { holderIdentity: 'kwok', leaseDurationSeconds: 40, renewTime },
      },
    });
  }

  /** Renews the leases of all nodes and plays their pods until `stop`. */
  start(): void {
    this.#work = Promise.all([this.#play(), this.#renewLeases()]);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#work;
  }

  /** Without it the nodes become unreachable when the grace period ends. A node that was removed has no lease. */
  async #renewLeases(): Promise<void> {
    const { signal } = this.#stop;
    try {
      for await (const names of setInterval(renewIntervalMs, this.#nodeNames, { signal })) {
        const body = { spec: { renewTime: microTime() } };
        for (const name of names) await this.#api.call('PATCH', `${leases}/${name}`, { headers: merge, body });
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  async #play(): Promise<void> {
    const path = '/api/v1/pods?fieldSelector=spec.nodeName%21%3D';
    try {
      for await (const { type, object } of this.#api.watch<PodItem>(path, '0', this.#stop.signal)) {
        if (type === 'ADDED' || type === 'MODIFIED') await this.#playPod(object);
      }
    } catch (error) {
      if (!this.#stop.signal.aborted) throw error;
    }
  }

  async #playPod({ metadata, spec, status }: PodItem): Promise<void> {
    const path = `/api/v1/namespaces/${metadata.namespace}/pods/${metadata.name}`;
    if (metadata.deletionTimestamp !== undefined) {
      await this.#api.call('DELETE', path, { body: { gracePeriodSeconds: 0, preconditions: { uid: metadata.uid } } });
      return;
    }
    if (status.phase !== 'Pending') return;
    const now = new Date().toISOString().replace(/\.\d+/, '');
    const condition = (type: string) => ({ type, status: 'True', lastTransitionTime: now });
    const body = {
      status: {
        phase: 'Running',
        hostIP: '10.90.0.1',
        podIP: '10.91.0.1',
        startTime: now,
        conditions: ['Initialized', 'Ready', 'ContainersReady'].map(condition),
        containerStatuses: spec.containers.map(({ name, image }) => ({
          name,
          image,
          imageID: '',
          ready: true,
          restartCount: 0,
          state: { running: { startedAt: now } },
        })),
      },
    };
    await this.#api.call('PATCH', `${path}/status`, { headers: strategic, body });
  }
}

const deployment = (name: string, replicas: number, more: object = {}) => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name },
  spec: {
    replicas,
    selector: { matchLabels: { app: name } },
    template: {
      metadata: { labels: { app: name } },
      spec: { containers: [{ name: 'main', image: 'fake', resources: { requests: { cpu: '1' } } }], ...more },
    },
  },
});
const deployments = '/apis/apps/v1/namespaces/default/deployments';
const isRunning = (pod: PodItem) => pod.status.phase === 'Running' && pod.metadata.deletionTimestamp === undefined;

describe('clients of fake nodes', () => {
  const machine = Machine.use();
  let api: Api;
  let kubelets: FakeKubelets;
  beforeAll(async () => {
    const spec = { roles: ['apiserver', 'controllers', 'scheduler'], storage: 'storage-memory', server: { address: '127.0.0.1' } };
    ({ api } = await machine.cluster({ spec }));
    kubelets = new FakeKubelets(api);
    kubelets.start();
    machine.undo('fake kubelets', () => kubelets.stop());
    await kubelets.addNode('fake-0');
  });
  afterEach(async () => {
    await api.call('DELETE', deployments);
  });

  it('kwok: pods of fake nodes run, keep the conditions of the scheduler, and disappear', async () => {
    await api.json('POST', deployments, { body: deployment('kwok', 3) });
    const pods = await api.untilReady('default', 'kwok', 3);
    // the strategic merge patch merges conditions by type
    for (const { status } of pods)
      expect(status.conditions?.map(({ type }) => type).sort()).toEqual(['ContainersReady', 'Initialized', 'PodScheduled', 'Ready']);
    const [node] = await api.until<NodeItem>('the node is untainted', nodes, (all) => all.some(({ spec }) => spec.taints === undefined));
    expect(node?.status.conditions).toContainEqual(expect.objectContaining({ type: 'Ready', status: 'True' }));
    await api.json('DELETE', `${deployments}/kwok`);
    await api.until('no pods', api.pods('default', 'kwok'), (all) => all.length === 0);
  });

  it('cluster-autoscaler: adds a node for unschedulable pods, and removes it after it moved its pods', async () => {
    await api.json('POST', deployments, { body: deployment('burst', 6) });
    const pending = await api.until<PodItem>(
      'unschedulable pods',
      api.pods('default', 'burst'),
      (pods) => pods.filter(isUnschedulable).length >= 2,
    );
    const [unschedulable] = pending.filter(isUnschedulable);
    expect(unschedulable?.status.conditions?.[0]).toMatchObject({
      reason: 'Unschedulable',
      message: expect.stringContaining('Insufficient cpu'),
    });
    await kubelets.addNode('fake-scaled', { 'node.kubernetes.io/instance-type': 'fake' });
    await api.json('PATCH', `${nodes}/fake-scaled`, { headers: strategic, body: { spec: { providerID: 'fake://group/fake-scaled' } } });
    await api.untilReady('default', 'burst', 6);
    // scale down: fewer replicas, a candidate taint, a deletion taint, evictions, and the removal of the node
    await api.json('PATCH', `${deployments}/burst/scale`, { headers: merge, body: { spec: { replicas: 3 } } });
    await api.untilReady('default', 'burst', 3);
    await taint(api, 'fake-scaled', { key: 'DeletionCandidateOfClusterAutoscaler', value: '1', effect: 'PreferNoSchedule' });
    await taint(api, 'fake-scaled', { key: 'ToBeDeletedByClusterAutoscaler', value: '1', effect: 'NoSchedule' });
    const onNode = await api.get<{ readonly items: readonly PodItem[] }>('/api/v1/pods?fieldSelector=spec.nodeName%3Dfake-scaled');
    for (const pod of onNode.items) expect((await evict(api, pod)).status).toBe(201);
    await api.until<PodItem>(
      'all pods run on the other node',
      api.pods('default', 'burst'),
      (pods) => pods.filter(isRunning).length === 3 && pods.every(({ spec }) => spec.nodeName === 'fake-0'),
    );
    await api.json('DELETE', `${nodes}/fake-scaled`);
    await api.until('the lease of the removed node is collected', leases, (all) =>
      all.every(({ metadata }) => metadata.name !== 'fake-scaled'),
    );
  });

  it('cluster-autoscaler: reports its state in a ConfigMap and leads through a lease', async () => {
    const maps = '/api/v1/namespaces/kube-system/configmaps';
    const metadata = { name: 'cluster-autoscaler-status', annotations: { 'cluster-autoscaler.kubernetes.io/last-updated': 'now' } };
    const map = await api.json<Item>('POST', maps, {
      body: { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { status: 'Running' } },
    });
    const changed = { ...map, data: { status: 'Healthy' } };
    await api.json('PUT', `${maps}/cluster-autoscaler-status`, { body: changed });
    // the first version is outdated
    expect((await api.call('PUT', `${maps}/cluster-autoscaler-status`, { body: changed })).status).toBe(409);
  });

  it('descheduler: evicts within a disruption budget, and gets 429 beyond it', async () => {
    await kubelets.addNode('fake-other');
    await api.json('POST', deployments, { body: deployment('budget', 2) });
    await api.untilReady('default', 'budget', 2);
    const budgets = '/apis/policy/v1/namespaces/default/poddisruptionbudgets';
    const body = {
      apiVersion: 'policy/v1',
      kind: 'PodDisruptionBudget',
      metadata: { name: 'budget' },
      spec: { minAvailable: 2, selector: { matchLabels: { app: 'budget' } } },
    };
    await api.json('POST', budgets, { body });
    type Budget = Item & { readonly status?: { readonly currentHealthy?: number } };
    await api.until<Budget>('the budget is computed', budgets, ([one]) => one?.status?.currentHealthy === 2);
    const { items } = await api.get<{ readonly items: readonly PodItem[] }>(api.pods('default', 'budget'));
    const [pod] = items as readonly [PodItem];
    const denied = await evict(api, pod);
    expect(denied.status).toBe(429);
    expect(JSON.parse(denied.body)).toMatchObject({
      reason: 'TooManyRequests',
      details: {
        causes: [{ reason: 'DisruptionBudget', message: expect.stringContaining('The disruption budget budget needs 2 healthy pods') }],
      },
    });
    await api.json('PATCH', `${budgets}/budget`, {
      headers: merge,
      body: { spec: { minAvailable: 1 } },
    });
    type Allowance = Item & { readonly status?: { readonly disruptionsAllowed?: number } };
    await api.until<Allowance>('a disruption is allowed', budgets, ([one]) => one?.status?.disruptionsAllowed === 1);
    // the descheduler tries with a dry run first
    expect((await evict(api, pod, { dryRun: ['All'] })).status).toBe(201);
    expect((await evict(api, pod)).status).toBe(201);
    await api.until<PodItem>(
      'a new pod replaces the evicted one',
      api.pods('default', 'budget'),
      (pods) => pods.filter(isRunning).length === 2 && pods.every(({ metadata }) => metadata.name !== pod.metadata.name),
    );
    await api.json('DELETE', `${nodes}/fake-other`);
  });
});

const isUnschedulable = ({ status }: PodItem): boolean =>
  status.conditions?.some(
    ({ type, status: value, reason }) => type === 'PodScheduled' && value === 'False' && reason === 'Unschedulable',
  ) === true;

/** Adds a taint as the autoscaler does: by an update of the node that it read, again after a conflict with another writer. */
async function taint(api: Api, name: string, added: Taint): Promise<void> {
  for (;;) {
    const node = await api.get<NodeItem>(`${nodes}/${name}`);
    const body = { ...node, spec: { ...node.spec, taints: [...(node.spec.taints ?? []), added] } };
    const { status, body: answer } = await api.call('PUT', `${nodes}/${name}`, { body });
    if (status === 200) return;
    expect([status, answer]).toEqual([409, answer]);
  }
}

function evict(api: Api, { metadata }: PodItem, deleteOptions: object = {}) {
  const { name, namespace } = metadata;
  return api.call('POST', `/api/v1/namespaces/${namespace}/pods/${name}/eviction`, {
    body: { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name, namespace }, deleteOptions },
  });
}
