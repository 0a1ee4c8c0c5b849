import { jsonEqual } from '@oarlock/api/json/json';
import { ParsedQuantity, subQuantity, quantityValue } from '@oarlock/api/values/quantity';
import { formatTime } from '@oarlock/api/values/time';
import { isExtendedResource } from '@oarlock/api/validation/resources';
import { declaredFeatures } from '@oarlock/api/component-helpers/declared-features';
import type { ContainerImage, NodeCondition, NodeStatus } from '@oarlock/api/types/core-v1';
import type { Image, ImageSupport, PodIsolation, RuntimeFeatures } from '@oarlock/spi/runtime';
import type { Resources } from '../../pod-util/resources.ts';
import type { MachineFacts } from '../machine.ts';
import { thresholdValue } from '../../eviction/thresholds.ts';
import type { NodePressure } from '../../pod-util/node-pressure.ts';

export interface NodeStatusInputs {
  readonly machine: MachineFacts;
  readonly capacity: Resources;
  readonly allocatable: Resources;
  /** The capacity in the Node object, to which other clients may have added extended resources. */
  readonly advertisedCapacity: NodeStatus['capacity'];
  readonly hostname: string;
  readonly addresses: readonly string[];
  readonly port: number;
  readonly kubeletVersion: string;
  /** The name and version of the runtime, for example `containerd://1.6.20`. */
  readonly runtimeVersion: string;
  /** The features of the default runtime; undefined if the runtime does not report features. */
  readonly features: RuntimeFeatures | undefined;
  /** Whether the default runtime isolates pods from the node; undefined if the runtime does not report it. */
  readonly isolation: PodIsolation | undefined;
  /** What the runtimes do not enforce, in one line each; undefined if none reports it. */
  readonly unenforced?: readonly string[] | undefined;
  /** Whether a runtime runs images; undefined if none reports it. */
  readonly imageSupport?: ImageSupport | undefined;
  readonly images: readonly Image[];
  readonly pressure: NodePressure;
  /** The reasons why the node is not ready; empty if the node is ready. */
  readonly problems: readonly string[];
}

const maxImages = 50;
const maxNames = 5;

/** Returns the allocatable resources: the capacity minus `reserved` and minus the hard eviction thresholds. */
export function allocatableOf(
  capacity: Resources,
  reserved: Readonly<Record<string, string>>,
  kept: { readonly memory: string; readonly disk: string },
): Resources {
  const left: Record<string, ParsedQuantity> = {};
  for (const [name, amount] of Object.entries(capacity)) {
    let rest = reserved[name] === undefined ? amount : subQuantity(amount, reserved[name]);
    const keep = name === 'memory' ? kept.memory : name === 'ephemeral-storage' ? kept.disk : undefined;
    if (keep !== undefined)
      rest = ParsedQuantity.of(Math.max(0, Math.floor(quantityValue(rest) - thresholdValue(keep, quantityValue(amount)))), 1, rest.format);
    left[name] = rest.sign < 0 ? ParsedQuantity.of(0) : rest;
  }
  return left;
}

/**
 * Returns the extended resources that another client advertised on the node. The whole capacity of such a resource is allocatable.
 * https://kubernetes.io/docs/tasks/administer-cluster/extended-resource-node/
 */
const ofOthers = ({ capacity, advertisedCapacity: advertised = {} }: NodeStatusInputs) =>
  Object.fromEntries(Object.entries(advertised).filter(([name]) => capacity[name] === undefined && isExtendedResource(name)));
const quantities = (amounts: Resources) => Object.fromEntries(Object.entries(amounts).map(([name, amount]) => [name, amount.toString()]));

function imagesOf(images: readonly Image[]): readonly ContainerImage[] {
  return [...images]
    .sort((a, b) => b.sizeBytes - a.sizeBytes)
    .slice(0, maxImages)
    .map(({ repoDigests, repoTags, sizeBytes }) => ({ names: [...repoDigests, ...repoTags].slice(0, maxNames), sizeBytes }))
    .filter(({ names }) => names.length > 0);
}

/** Returns the node conditions without heartbeat and transition times. */
function conditionsOf({
  pressure,
  problems,
  isolation,
  unenforced,
  imageSupport,
}: NodeStatusInputs): readonly Omit<NodeCondition, 'lastHeartbeatTime' | 'lastTransitionTime'>[] {
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
    ...(isolation ? [isolationCondition(isolation)] : []),
    ...(unenforced ? [enforcementCondition(unenforced)] : []),
    ...(imageSupport ? [imageCondition(imageSupport)] : []),
  ];
}

/** Conditions about what the runtimes do for pods. `True` is the good state; a node that is in the other one records an event with its message. */
export const runtimeConditions: readonly string[] = ['PodIsolation', 'PodEnforcement', 'ImageSupport'];

/** Returns the condition PodIsolation, for runtimes that report whether they isolate pods. Unlike upstream's conditions, `True` is the good state. */
const isolationCondition = ({ enforced, reason }: PodIsolation) =>
  enforced
    ? { type: 'PodIsolation', status: 'True', reason: 'PodIsolationEnforced', message: 'pods are isolated from the node' }
    : { type: 'PodIsolation', status: 'False', reason: 'PodIsolationUnavailable', message: `pods run without isolation: ${reason}` };

/** Returns the condition PodEnforcement, which is about settings of pods, such as limits. `True` is the good state. */
const enforcementCondition = (unenforced: readonly string[]) =>
  unenforced.length === 0
    ? { type: 'PodEnforcement', status: 'True', reason: 'PodSettingsEnforced', message: 'the runtimes enforce the settings of pods' }
    : { type: 'PodEnforcement', status: 'False', reason: 'PodSettingsNotEnforced', message: unenforced.join('; ') };

/** Returns the condition ImageSupport, for runtimes that run images on some machines only. `True` is the good state. */
const imageCondition = ({ available, detail }: ImageSupport) =>
  available
    ? { type: 'ImageSupport', status: 'True', reason: 'ImagesRun', message: detail }
    : {
        type: 'ImageSupport',
        status: 'False',
        reason: 'ImagesUnavailable',
        message: `images do not run, only the image "host" as processes of the node: ${detail}`,
      };

/** Returns the complete node status. A condition's transition time changes only when the condition's status changes. */
export function generateNodeStatus(inputs: NodeStatusInputs, before: NodeStatus | undefined, now: number): NodeStatus {
  const { machine, capacity, allocatable, hostname, addresses, port, kubeletVersion, runtimeVersion, images, features } = inputs;
  const time = formatTime(now);
  const others = ofOthers(inputs);
  return {
    addresses: [...addresses.map((address) => ({ type: 'InternalIP', address })), { type: 'Hostname', address: hostname }],
    capacity: { ...quantities(capacity), ...others },
    allocatable: { ...quantities(allocatable), ...others },
    conditions: conditionsOf(inputs).map((condition) => {
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

/** Returns true if two node statuses are equal except for heartbeat times. */
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

/** Returns the strategic merge patch from one node status to another. The patch always contains the conditions, which carry the heartbeat. */
export function nodeStatusPatch(before: NodeStatus | undefined, after: NodeStatus): { readonly status: Readonly<Record<string, unknown>> } {
  const status: Record<string, unknown> = { conditions: after.conditions };
  for (const field of patched) if (!jsonEqual(before?.[field], after[field])) status[field] = after[field];
  for (const field of ['capacity', 'allocatable'] as const)
    if (status[field] !== undefined) status[field] = { ...goneOf(before?.[field], after[field]), ...after[field] };
  // the merge key of addresses is their type, and several may have one type: replace the list
  if (!jsonEqual(before?.addresses, after.addresses)) status['addresses'] = [{ $patch: 'replace' }, ...(after.addresses ?? [])];
  return { status };
}
