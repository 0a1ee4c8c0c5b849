import { deepFreeze, objectKey } from '@oarlock/api/object';
import type { Node, Pod, PodSpec } from '@oarlock/api/types/core-v1';
import type { Resources, CycleState, NodeInfo, PodInfo, PodSelector, Snapshot } from '../scheduling.ts';

const gib = 1024 ** 3;
const resources = (milliCpu: number, memory: number, pods: number): Resources => ({
  milliCpu,
  memory,
  ephemeralStorage: 0,
  pods,
  scalar: new Map(),
});

export interface PodOptions {
  readonly name: string;
  readonly namespace?: string;
  readonly labels?: Readonly<Record<string, string>>;
  /** Absent: the pod requests none. */
  readonly milliCpu?: number;
  /** In bytes. Absent: the pod requests none. */
  readonly memory?: number;
  readonly spec?: Partial<PodSpec>;
}

/** Returns a pod as the scheduler passes it to plugins. */
export function podInfo({ name, namespace = 'default', labels = {}, milliCpu, memory, spec = {} }: PodOptions): PodInfo {
  const requests = { ...(milliCpu !== undefined && { cpu: `${milliCpu}m` }), ...(memory !== undefined && { memory: String(memory) }) };
  const pod: Pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace, uid: `uid-${name}`, labels, creationTimestamp: '2026-01-01T00:00:00Z' },
    spec: { containers: [{ name: 'main', image: 'registry.example/app:1', resources: { requests } }], ...spec },
    status: { phase: 'Pending' },
  };
  return Object.freeze({
    pod: deepFreeze(pod),
    key: objectKey(pod),
    requests: resources(milliCpu ?? 0, memory ?? 0, 1),
    nonZeroRequests: resources(milliCpu ?? 100, memory ?? 200 * 1024 ** 2, 1),
  });
}

export interface NodeOptions {
  readonly name: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly milliCpu?: number;
  readonly memory?: number;
  readonly maxPods?: number;
  readonly images?: Readonly<Record<string, number>>;
  readonly spec?: Node['spec'];
  readonly pods?: readonly PodInfo[];
}

/** Returns a node of a snapshot. */
export function nodeInfo({
  name,
  labels = {},
  milliCpu = 4000,
  memory = 8 * gib,
  maxPods = 110,
  images = {},
  spec = {},
  pods = [],
}: NodeOptions): NodeInfo {
  const node: Node = {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name, uid: `uid-${name}`, labels: { 'kubernetes.io/hostname': name, ...labels } },
    spec: spec ?? {},
    status: {
      allocatable: { cpu: `${milliCpu}m`, memory: String(memory), pods: String(maxPods) },
      images: Object.entries(images).map(([image, sizeBytes]) => ({ names: [image], sizeBytes })),
      conditions: [{ type: 'Ready', status: 'True' }],
    },
  };
  const sum = (kind: 'requests' | 'nonZeroRequests') =>
    resources(
      pods.reduce((all, pod) => all + pod[kind].milliCpu, 0),
      pods.reduce((all, pod) => all + pod[kind].memory, 0),
      pods.length,
    );
  const ports = pods
    .flatMap(({ pod }) => pod.spec?.containers ?? [])
    .flatMap((container) => container.ports ?? [])
    .filter(({ hostPort }) => hostPort);
  return Object.freeze({
    node: deepFreeze(node),
    name,
    taints: node.spec?.taints ?? [],
    unschedulable: node.spec?.unschedulable === true,
    pods: Object.freeze([...pods]),
    allocatable: resources(milliCpu, memory, maxPods),
    requested: sum('requests'),
    nonZeroRequested: sum('nonZeroRequests'),
    label: (key: string) => node.metadata?.labels?.[key],
    usedPorts: new Set(ports.map(({ protocol = 'TCP', hostIP, hostPort }) => `${protocol}/${hostIP || '0.0.0.0'}/${hostPort}`)),
    images: new Map(Object.entries(images)),
  });
}

const hasPodAffinity = ({ spec }: Pod) => (spec?.affinity?.podAffinity ?? spec?.affinity?.podAntiAffinity) !== undefined;

/** Returns the state of a cycle whose snapshot has these nodes. */
export function cycleState(nodes: readonly NodeInfo[]): CycleState {
  const values = new Map<symbol, unknown>();
  const count = ({ namespaces, matches }: PodSelector, keyOf: (node: NodeInfo) => string | undefined) => {
    const sums = new Map<string, number>();
    for (const node of nodes) {
      const key = keyOf(node);
      const selected = node.pods.filter(({ pod }) => namespaces?.has(pod.metadata?.namespace ?? '') !== false && matches(pod)).length;
      if (key !== undefined && selected > 0) sums.set(key, (sums.get(key) ?? 0) + selected);
    }
    return sums;
  };
  const snapshot: Snapshot = {
    nodes,
    podAffinityGroups: nodes.flatMap(({ name, pods }) =>
      pods.filter(({ pod }) => hasPodAffinity(pod)).map(({ pod }) => ({ representative: pod, countByNode: new Map([[name, 1]]) })),
    ),
    get: (name) => nodes.find((node) => node.name === name),
    podCountByNode: (selector) => count(selector, ({ name }) => name),
    podCountByLabel: (selector, label) => count(selector, ({ node }) => node.metadata?.labels?.[label]),
    imageState: (image) => {
      const [sizeBytes, ...others] = nodes.flatMap(({ images }) => images.get(image) ?? []);
      return sizeBytes === undefined ? undefined : { sizeBytes, nodeCount: 1 + others.length };
    },
  };
  return {
    snapshot,
    read: <T>(key: symbol) => values.get(key) as T | undefined,
    write: (key, value) => {
      values.set(key, value);
    },
  };
}

const zone = 'topology.kubernetes.io/zone';
const requiredNodeAffinity = (key: string, operator: string, ...values: string[]): Partial<PodSpec> => ({
  affinity: {
    nodeAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: {
        nodeSelectorTerms: [{ matchExpressions: [{ key, operator, ...(values.length > 0 && { values }) }] }],
      },
    },
  },
});
const podWithHostPort = (hostPort: number): Partial<PodSpec> => ({
  containers: [{ name: 'main', image: 'registry.example/app:1', ports: [{ containerPort: 80, hostPort, protocol: 'TCP' }] }],
});

/** Pods with different constraints, so that each plugin accepts some of them and rejects others. */
export const samplePods: readonly PodInfo[] = [
  podInfo({ name: 'plain' }),
  podInfo({ name: 'small', labels: { app: 'web' }, milliCpu: 100, memory: gib / 8 }),
  podInfo({ name: 'large', labels: { app: 'web' }, milliCpu: 3500, memory: 7 * gib }),
  podInfo({ name: 'impossible', milliCpu: 640_000, memory: 4000 * gib }),
  podInfo({ name: 'in-zone-a', labels: { app: 'db' }, spec: { nodeSelector: { [zone]: 'a' } } }),
  podInfo({ name: 'nowhere', spec: { nodeSelector: { disk: 'quantum' } } }),
  podInfo({ name: 'not-zone-a', spec: requiredNodeAffinity(zone, 'NotIn', 'a') }),
  podInfo({ name: 'any-disk', spec: requiredNodeAffinity('disk', 'Exists') }),
  podInfo({
    name: 'prefers-zone-b',
    labels: { app: 'web' },
    spec: {
      affinity: {
        nodeAffinity: {
          preferredDuringSchedulingIgnoredDuringExecution: [
            { weight: 80, preference: { matchExpressions: [{ key: zone, operator: 'In', values: ['b'] }] } },
          ],
        },
      },
    },
  }),
  podInfo({ name: 'tolerant', spec: { tolerations: [{ operator: 'Exists' }] } }),
  podInfo({ name: 'tolerates-gpu', spec: { tolerations: [{ key: 'gpu', operator: 'Equal', value: 'yes', effect: 'NoSchedule' }] } }),
  podInfo({ name: 'port-80', spec: podWithHostPort(8080) }),
  podInfo({ name: 'named', spec: { nodeName: 'a1' } }),
  podInfo({ name: 'gated', spec: { schedulingGates: [{ name: 'example.com/wait' }] } }),
  podInfo({ name: 'important', labels: { app: 'web' }, milliCpu: 500, spec: { priority: 1000 } }),
];

const runningPod = (name: string, more: Omit<PodOptions, 'name'> = {}) => podInfo({ name, milliCpu: 500, memory: gib / 2, ...more });

/** Nodes with different labels, taints and free resources. */
export const sampleNodes: readonly NodeInfo[] = [
  nodeInfo({ name: 'a1', labels: { [zone]: 'a', disk: 'ssd' }, pods: [runningPod('r1', { labels: { app: 'web' } }), runningPod('r2')] }),
  nodeInfo({ name: 'a2', labels: { [zone]: 'a' }, images: { 'registry.example/app:1': 600 * 1024 ** 2 } }),
  nodeInfo({
    name: 'b1',
    labels: { [zone]: 'b', disk: 'hdd' },
    pods: [runningPod('r3', { spec: podWithHostPort(8080) }), runningPod('r4', { labels: { app: 'web' }, milliCpu: 3000 })],
  }),
  nodeInfo({
    name: 'b2',
    labels: { [zone]: 'b' },
    spec: { unschedulable: true, taints: [{ key: 'node.kubernetes.io/unschedulable', effect: 'NoSchedule' }] },
  }),
  nodeInfo({ name: 'c1', labels: { [zone]: 'c' }, spec: { taints: [{ key: 'gpu', value: 'yes', effect: 'NoSchedule' }] } }),
  nodeInfo({ name: 'c2', labels: { [zone]: 'c' }, spec: { taints: [{ key: 'slow', effect: 'PreferNoSchedule' }] } }),
  nodeInfo({ name: 'tiny', milliCpu: 100, memory: gib / 4, maxPods: 1, pods: [podInfo({ name: 'r5' })] }),
  nodeInfo({ name: 'empty', milliCpu: 0, memory: 0, maxPods: 0 }),
];

/** Returns versions of a node after updates that may make it feasible for a pod that a plugin rejected. */
export function updatedNodes({ node, name, pods, images }: NodeInfo): readonly NodeInfo[] {
  const labels = node.metadata?.labels ?? {};
  const options: NodeOptions = {
    name,
    labels,
    pods,
    images: Object.fromEntries(images),
    spec: node.spec ?? {},
    milliCpu: Number.parseInt(String(node.status?.allocatable?.['cpu'] ?? '0'), 10),
    memory: Number(node.status?.allocatable?.['memory'] ?? 0),
    maxPods: Number(node.status?.allocatable?.['pods'] ?? 0),
  };
  return [
    nodeInfo({ ...options, spec: {} }),
    nodeInfo({ ...options, labels: { ...labels, [zone]: 'a', disk: 'quantum' } }),
    nodeInfo({ ...options, labels: { ...labels, [zone]: 'b' } }),
    nodeInfo({ ...options, milliCpu: 1_000_000, memory: 8000 * gib, maxPods: 1000 }),
    nodeInfo({ ...options, images: { 'registry.example/app:1': 600 * 1024 ** 2 } }),
    nodeInfo({ ...options, labels: Object.fromEntries(Object.entries(labels).filter(([key]) => key === 'kubernetes.io/hostname')) }),
  ];
}
