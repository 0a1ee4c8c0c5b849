import { jsonEqual } from '@oarlock/api/json';
import { Amount, subQuantity, value } from '@oarlock/api/quantity';
import { formatTime } from '@oarlock/api/time';
import { isExtendedResource } from '@oarlock/api/validation/resources';
import type { ContainerImage, NodeCondition, NodeStatus } from '@oarlock/api/types/core-v1';
import type { Image, RuntimeFeatures } from '@oarlock/spi/runtime';
import type { Amounts } from '../resources.ts';
import type { MachineFacts } from './machine.ts';
import { amountOf, type Pressure } from './thresholds.ts';

export interface NodeStatusSources {
  readonly machine: MachineFacts;
  readonly capacity: Amounts;
  readonly allocatable: Amounts;
  /** The capacity that the node's object says: others may put extended resources there. */
  readonly advertised: NodeStatus['capacity'];
  readonly hostname: string;
  readonly addresses: readonly string[];
  readonly port: number;
  readonly kubeletVersion: string;
  /** `containerd://1.6.20`. */
  readonly runtimeVersion: string;
  /** What the default runtime can do, where it says so. */
  readonly features: RuntimeFeatures | undefined;
  readonly images: readonly Image[];
  readonly pressure: Pressure;
  /** Why the node is not ready; empty: it is. */
  readonly problems: readonly string[];
}

/**
 * What this kubelet can do that not every kubelet of these releases can, under the names that pods are placed by (KEP-5328). Sorted. Nodes say
 * it as long as upstream's do.
 */
const declaredFeatures = ['InPlacePodLevelResourcesVerticalScaling', 'RestartAllContainersOnContainerExits'];
const maxImages = 50;
const maxNames = 5;

/** What is left for pods: `reserved` and what evictions would keep free are taken off. */
export function allocatableOf(
  capacity: Amounts,
  reserved: Readonly<Record<string, string>>,
  kept: { readonly memory: string; readonly disk: string },
): Amounts {
  const left: Record<string, Amount> = {};
  for (const [name, amount] of Object.entries(capacity)) {
    let rest = reserved[name] === undefined ? amount : subQuantity(amount, reserved[name]);
    const keep = name === 'memory' ? kept.memory : name === 'ephemeral-storage' ? kept.disk : undefined;
    if (keep !== undefined) rest = Amount.of(Math.max(0, Math.floor(value(rest) - amountOf(keep, value(amount)))), 1, rest.format);
    left[name] = rest.sign < 0 ? Amount.of(0) : rest;
  }
  return left;
}

/**
 * Extended resources of the node that this kubelet knows nothing of, all of them for pods.
 * https://kubernetes.io/docs/tasks/administer-cluster/extended-resource-node/
 */
const ofOthers = ({ capacity, advertised = {} }: NodeStatusSources) =>
  Object.fromEntries(Object.entries(advertised).filter(([name]) => capacity[name] === undefined && isExtendedResource(name)));
const quantities = (amounts: Amounts) => Object.fromEntries(Object.entries(amounts).map(([name, amount]) => [name, amount.toString()]));

function imagesOf(images: readonly Image[]): readonly ContainerImage[] {
  return [...images]
    .sort((a, b) => b.sizeBytes - a.sizeBytes)
    .slice(0, maxImages)
    .map(({ repoDigests, repoTags, sizeBytes }) => ({ names: [...repoDigests, ...repoTags].slice(0, maxNames), sizeBytes }))
    .filter(({ names }) => names.length > 0);
}

/** The conditions without their times. */
function conditionsOf({
  pressure,
  problems,
}: NodeStatusSources): readonly Omit<NodeCondition, 'lastHeartbeatTime' | 'lastTransitionTime'>[] {
  const one = (
    type: string,
    bad: boolean,
    [badReason, badMessage]: readonly [string, string],
    [reason, message]: readonly [string, string],
  ) => ({ type, status: bad ? 'True' : 'False', reason: bad ? badReason : reason, message: bad ? badMessage : message });
  return [
    one(
      'MemoryPressure',
      pressure.memory,
      ['KubeletHasInsufficientMemory', 'kubelet has insufficient memory available'],
      ['KubeletHasSufficientMemory', 'kubelet has sufficient memory available'],
    ),
    one(
      'DiskPressure',
      pressure.disk,
      ['KubeletHasDiskPressure', 'kubelet has disk pressure'],
      ['KubeletHasNoDiskPressure', 'kubelet has no disk pressure'],
    ),
    one(
      'PIDPressure',
      pressure.pids,
      ['KubeletHasInsufficientPID', 'kubelet has insufficient PID available'],
      ['KubeletHasSufficientPID', 'kubelet has sufficient PID available'],
    ),
    problems.length === 0
      ? { type: 'Ready', status: 'True', reason: 'KubeletReady', message: 'kubelet is posting ready status' }
      : {
          type: 'Ready',
          status: 'False',
          reason: 'KubeletNotReady',
          message: problems.length === 1 ? (problems[0] ?? '') : `[${problems.join(', ')}]`,
        },
  ];
}

/** The whole status; a transition time changes when its condition's status does. */
export function nodeStatus(sources: NodeStatusSources, before: NodeStatus | undefined, now: number): NodeStatus {
  const { machine, capacity, allocatable, hostname, addresses, port, kubeletVersion, runtimeVersion, images, features } = sources;
  const time = formatTime(now);
  const others = ofOthers(sources);
  return {
    addresses: [...addresses.map((address) => ({ type: 'InternalIP', address })), { type: 'Hostname', address: hostname }],
    capacity: { ...quantities(capacity), ...others },
    allocatable: { ...quantities(allocatable), ...others },
    conditions: conditionsOf(sources).map((condition) => {
      const old = before?.conditions?.find(({ type }) => type === condition.type);
      return {
        ...condition,
        lastHeartbeatTime: time,
        lastTransitionTime: old?.status === condition.status && old.lastTransitionTime !== undefined ? old.lastTransitionTime : time,
      };
    }),
    daemonEndpoints: { kubeletEndpoint: { Port: port } },
    images: imagesOf(images),
    declaredFeatures,
    ...(features && {
      features: { supplementalGroupsPolicy: features.supplementalGroupsPolicy },
      runtimeHandlers: features.handlers.map(({ name, ...can }) => ({ name, features: can })),
    }),
    nodeInfo: {
      architecture: machine.architecture,
      bootID: machine.bootID,
      containerRuntimeVersion: runtimeVersion,
      kernelVersion: machine.kernelVersion,
      kubeProxyVersion: '',
      kubeletVersion,
      machineID: machine.machineID,
      operatingSystem: 'linux',
      osImage: machine.osImage,
      systemUUID: machine.systemUUID,
    },
  };
}

/** Equal but for the times of heartbeats. */
export function sameNodeStatus(a: NodeStatus | undefined, b: NodeStatus): boolean {
  const still = (status: NodeStatus) => ({
    ...status,
    conditions: status.conditions?.map(({ type, status: now, reason, message }) => ({ type, status: now, reason, message })),
  });
  return a !== undefined && jsonEqual(still(a), still(b));
}

const patched = [
  'capacity',
  'allocatable',
  'daemonEndpoints',
  'nodeInfo',
  'images',
  'declaredFeatures',
  'features',
  'runtimeHandlers',
] as const satisfies readonly (keyof NodeStatus)[];

const goneOf = (before: object = {}, after: object = {}) =>
  Object.fromEntries(
    Object.keys(before)
      .filter((name) => !(name in after))
      .map((name) => [name, null]),
  );

/** The strategic merge patch for what differs. Conditions always come along: they carry the heartbeat. */
export function nodeStatusPatch(before: NodeStatus | undefined, after: NodeStatus): { readonly status: Readonly<Record<string, unknown>> } {
  const status: Record<string, unknown> = { conditions: after.conditions };
  for (const field of patched) if (!jsonEqual(before?.[field], after[field])) status[field] = after[field];
  for (const field of ['capacity', 'allocatable'] as const)
    if (status[field] !== undefined) status[field] = { ...goneOf(before?.[field], after[field]), ...after[field] };
  // several addresses may be of one type, which is what they are merged by
  if (!jsonEqual(before?.addresses, after.addresses)) status['addresses'] = [{ $patch: 'replace' }, ...(after.addresses ?? [])];
  return { status };
}
