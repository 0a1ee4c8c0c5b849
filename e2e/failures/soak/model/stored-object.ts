/** The fields of stored objects that the rules read. */
export interface Meta {
  readonly name: string;
  readonly namespace?: string;
  readonly uid: string;
  readonly generation?: number;
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
  readonly deletionGracePeriodSeconds?: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly finalizers?: readonly string[];
  readonly ownerReferences?: readonly {
    readonly kind: string;
    readonly apiVersion: string;
    readonly name: string;
    readonly uid: string;
    readonly controller?: boolean;
  }[];
}
export interface StoredObject {
  readonly kind: string;
  readonly apiVersion: string;
  readonly metadata: Meta;
  readonly spec?: object;
  readonly status?: object;
}
export interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason?: string;
}
interface Container {
  readonly resources?: { readonly requests?: Readonly<Record<string, string>> };
  readonly ports?: readonly { readonly hostPort?: number; readonly protocol?: string }[];
}
export interface Pod extends StoredObject {
  readonly spec: {
    readonly nodeName?: string;
    readonly containers: readonly Container[];
  };
  readonly status?: {
    readonly phase?: string;
    readonly reason?: string;
    readonly conditions?: readonly Condition[];
    readonly containerStatuses?: readonly { readonly name: string; readonly state?: { readonly running?: object } }[];
  };
}
export interface Node extends StoredObject {
  readonly status?: {
    readonly allocatable?: Readonly<Record<string, string>>;
    readonly conditions?: readonly Condition[];
  };
}
export interface Deployment extends StoredObject {
  readonly spec: {
    readonly replicas?: number;
    readonly paused?: boolean;
    readonly strategy?: {
      readonly type?: string;
      readonly rollingUpdate?: { readonly maxSurge?: number | string; readonly maxUnavailable?: number | string };
    };
  };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly replicas?: number;
    readonly updatedReplicas?: number;
    readonly readyReplicas?: number;
    readonly availableReplicas?: number;
    readonly unavailableReplicas?: number;
  };
}
export interface ReplicaSet extends StoredObject {
  readonly spec: { readonly replicas?: number };
  readonly status?: { readonly replicas?: number; readonly availableReplicas?: number; readonly observedGeneration?: number };
}
export interface StatefulSet extends StoredObject {
  readonly spec: {
    readonly replicas?: number;
    readonly podManagementPolicy?: string;
    readonly ordinals?: { readonly start?: number };
    readonly persistentVolumeClaimRetentionPolicy?: { readonly whenDeleted?: string; readonly whenScaled?: string };
    readonly updateStrategy?: { readonly rollingUpdate?: { readonly partition?: number } };
  };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly replicas?: number;
    readonly readyReplicas?: number;
    readonly updatedReplicas?: number;
    readonly currentRevision?: string;
    readonly updateRevision?: string;
  };
}
export interface DaemonSet extends StoredObject {
  readonly spec: { readonly updateStrategy?: { readonly rollingUpdate?: { readonly maxSurge?: number | string } } };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly desiredNumberScheduled?: number;
    readonly numberReady?: number;
    readonly updatedNumberScheduled?: number;
    readonly numberMisscheduled?: number;
  };
}
export interface Job extends StoredObject {
  readonly spec: {
    readonly parallelism?: number;
    readonly completions?: number;
    readonly completionMode?: string;
    readonly suspend?: boolean;
    readonly ttlSecondsAfterFinished?: number;
  };
  readonly status?: {
    readonly active?: number;
    readonly succeeded?: number;
    readonly failed?: number;
    readonly completedIndexes?: string;
    readonly conditions?: readonly Condition[];
    readonly uncountedTerminatedPods?: { readonly succeeded?: readonly string[]; readonly failed?: readonly string[] };
  };
}
export interface CronJob extends StoredObject {
  readonly spec: { readonly concurrencyPolicy?: string; readonly suspend?: boolean };
}
export interface Budget extends StoredObject {
  readonly spec: {
    readonly minAvailable?: number | string;
    readonly maxUnavailable?: number | string;
    readonly selector?: { readonly matchLabels?: Readonly<Record<string, string>> };
  };
  readonly status?: { readonly observedGeneration?: number; readonly expectedPods?: number; readonly currentHealthy?: number };
}
export interface Quota extends StoredObject {
  readonly spec: { readonly hard?: Readonly<Record<string, string>> };
  readonly status?: { readonly hard?: Readonly<Record<string, string>>; readonly used?: Readonly<Record<string, string>> };
}
export interface Autoscaler extends StoredObject {
  readonly spec: { readonly minReplicas?: number; readonly maxReplicas: number; readonly scaleTargetRef: { readonly name: string } };
}

export const isTrue = (conditions: readonly Condition[] | undefined, type: string): boolean =>
  conditions?.some((one) => one.type === type && one.status === 'True') === true;
export const isReady = (pod: Pod): boolean => isTrue(pod.status?.conditions, 'Ready');
export const isOver = (pod: Pod): boolean => pod.status?.phase === 'Succeeded' || pod.status?.phase === 'Failed';
export const isLeaving = ({ metadata }: StoredObject): boolean => metadata.deletionTimestamp !== undefined;
/** True if the pod runs or may still run. */
export const isActive = (pod: Pod): boolean => !isOver(pod) && !isLeaving(pod);
export const isFinished = (job: Job): boolean => isTrue(job.status?.conditions, 'Complete') || isTrue(job.status?.conditions, 'Failed');
export const controllerOf = ({ metadata }: StoredObject): string | undefined =>
  metadata.ownerReferences?.find((one) => one.controller)?.uid;
export const nameOf = ({ kind, metadata }: StoredObject): string =>
  `${kind} ${metadata.namespace === undefined ? '' : `${metadata.namespace}/`}${metadata.name}`;
export const selects = (labels: Readonly<Record<string, string>> | undefined, thing: StoredObject): boolean =>
  labels !== undefined && Object.entries(labels).every(([key, value]) => thing.metadata.labels?.[key] === value);

/** Resolves an integer or a percentage: `25%` of 10. */
export function scaled(value: number | string | undefined, whole: number, up: boolean, otherwise: number | string): number {
  const effective = value ?? otherwise;
  if (typeof effective === 'number') return effective;
  const part = (Number.parseFloat(effective) * whole) / 100;
  return up ? Math.ceil(part) : Math.floor(part);
}

const units: Readonly<Record<string, number>> = { m: 1e-3, k: 1e3, Ki: 1024, M: 1e6, Mi: 1024 ** 2, G: 1e9, Gi: 1024 ** 3, Ti: 1024 ** 4 };
/** Parses a quantity. @throws Error for an unknown unit */
export function amount(quantity: string | undefined): number {
  const [, digits = '0', unit = ''] = /^([0-9.]+)([a-zA-Z]*)$/.exec(String(quantity ?? '0')) ?? [];
  const factor = unit === '' ? 1 : units[unit];
  if (factor === undefined) throw new Error(`the quantity ${quantity} has the unknown unit ${unit}`);
  return Number(digits) * factor;
}
export const requested = (pod: Pod, resource: string): number =>
  pod.spec.containers.reduce((sum, { resources }) => sum + amount(resources?.requests?.[resource]), 0);
