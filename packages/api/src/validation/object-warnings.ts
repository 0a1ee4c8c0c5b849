import type { DaemonSet, Deployment, ReplicaSet, StatefulSet } from '../generated/types/apps-v1.ts';
import type { CronJob, Job } from '../generated/types/batch-v1.ts';
import type {
  Endpoints,
  Node,
  PersistentVolume,
  PersistentVolumeClaim,
  Pod,
  PodTemplate,
  ReplicationController,
  Secret,
  Service,
  ServiceAccount,
} from '../generated/types/core-v1.ts';
import type { EndpointSlice } from '../generated/types/discovery-v1.ts';
import type { Ingress, NetworkPolicy } from '../generated/types/networking-v1.ts';
import type { RuntimeClass } from '../generated/types/node-v1.ts';
import type { CSIStorageCapacity, StorageClass } from '../generated/types/storage-v1.ts';
import type { GroupVersionKind } from '../kinds.ts';
import type { KubeObject } from '../object.ts';
import { addressWarnings } from './internal/warnings/address-warnings.ts';
import {
  addressTypeWarnings,
  endpointSliceWarnings,
  endpointsWarnings,
  ingressStatusWarnings,
  ingressWarnings,
  networkPolicyWarnings,
  serviceStatusWarnings,
  serviceWarnings,
} from './internal/warnings/network-warnings.ts';
import { nodeLabelMapWarnings } from './internal/warnings/node-label-warnings.ts';
import { podTemplateWarnings, podWarnings } from './internal/warnings/pod-warnings.ts';
import { secretWarnings } from './internal/warnings/secret-warnings.ts';
import {
  classWarnings,
  persistentVolumeClaimWarnings,
  persistentVolumeWarnings,
  storageCapacityWarnings,
} from './internal/warnings/storage-warnings.ts';
import {
  jobSpecWarnings,
  nameWarnings,
  podName,
  scheduleWarnings,
  statefulSetWarnings,
  templateName,
} from './internal/warnings/workload-warnings.ts';

/** The warnings of one kind (WarningsOnCreate and WarningsOnUpdate of upstream's strategies). */
interface KindWarnings<T extends KubeObject> {
  /** Returns the warnings about a new object. */
  create?(object: T): readonly string[];
  /** Returns the warnings about an update. */
  update?(object: T, old: T): readonly string[];
  /** Returns the warnings about an update through the status subresource. */
  status?(object: T): readonly string[];
}

const kinds = new Map<string, KindWarnings<KubeObject>>();
/** Registers the warnings of a kind; `kind` is `group/kind`. The versions of a kind have the same warnings. */
function on<T extends KubeObject>(kind: string, warnings: KindWarnings<T>): void {
  kinds.set(kind, warnings as unknown as KindWarnings<KubeObject>);
}
/** Registers warnings that are the same on create and on update. */
function onWrite<T extends KubeObject>(kind: string, warnings: (object: T) => readonly string[]): void {
  on<T>(kind, { create: warnings, update: warnings });
}

const isSpecChanged = (object: KubeObject, old: KubeObject) => object.metadata?.generation !== old.metadata?.generation;

/** Registers a kind with a pod template. An update that does not change the spec has no warnings about the template. */
function onTemplate<T extends KubeObject>(
  kind: string,
  template: (object: T) => readonly string[],
  { isNamedLikePods, always = () => [] }: { readonly isNamedLikePods: boolean; readonly always?: (object: T) => readonly string[] },
): void {
  on<T>(kind, {
    create: (object) => [...(isNamedLikePods ? nameWarnings(object.metadata, templateName) : []), ...template(object), ...always(object)],
    update: (object, old) => [...(isSpecChanged(object, old) ? template(object) : []), ...always(object)],
  });
}

on<Pod>('/Pod', {
  create: ({ metadata, spec }) => [...nameWarnings(metadata, podName), ...podWarnings(metadata, spec)],
  status: ({ status }) => [
    ...(status?.podIPs ?? []).flatMap(({ ip }, i) => addressWarnings(`status.podIPs[${i}].ip`, ip ?? '')),
    ...(status?.hostIPs ?? []).flatMap(({ ip }, i) => addressWarnings(`status.hostIPs[${i}].ip`, ip ?? '')),
  ],
});
onTemplate<PodTemplate>('/PodTemplate', ({ template }) => podTemplateWarnings('template', template), { isNamedLikePods: false });
for (const kind of ['apps/Deployment', 'apps/ReplicaSet', '/ReplicationController'])
  onTemplate<Deployment | ReplicaSet | ReplicationController>(kind, ({ spec }) => podTemplateWarnings('spec.template', spec?.template), {
    isNamedLikePods: true,
  });
onTemplate<DaemonSet>('apps/DaemonSet', ({ spec }) => podTemplateWarnings('spec.template', spec?.template), { isNamedLikePods: false });
onTemplate<StatefulSet>('apps/StatefulSet', ({ spec }) => podTemplateWarnings('spec.template', spec?.template), {
  isNamedLikePods: false,
  always: statefulSetWarnings,
});
onTemplate<Job>('batch/Job', ({ spec }) => jobSpecWarnings('spec', spec), { isNamedLikePods: true });
onTemplate<CronJob>('batch/CronJob', ({ spec }) => jobSpecWarnings('spec.jobTemplate.spec', spec?.jobTemplate?.spec), {
  isNamedLikePods: true,
  always: scheduleWarnings,
});
on<Service>('/Service', { create: serviceWarnings, update: serviceWarnings, status: serviceStatusWarnings });
onWrite<Endpoints>('/Endpoints', endpointsWarnings);
on<EndpointSlice>('discovery.k8s.io/EndpointSlice', {
  create: (slice) => [...addressTypeWarnings(slice), ...endpointSliceWarnings(slice)],
  update: endpointSliceWarnings,
});
on<Ingress>('networking.k8s.io/Ingress', { create: ingressWarnings, status: ingressStatusWarnings });
onWrite<NetworkPolicy>('networking.k8s.io/NetworkPolicy', networkPolicyWarnings);
onWrite<PersistentVolumeClaim>('/PersistentVolumeClaim', persistentVolumeClaimWarnings);
onWrite<PersistentVolume>('/PersistentVolume', persistentVolumeWarnings);
onWrite<StorageClass>('storage.k8s.io/StorageClass', classWarnings);
onWrite<CSIStorageCapacity>('storage.k8s.io/CSIStorageCapacity', storageCapacityWarnings);
onWrite<RuntimeClass>('node.k8s.io/RuntimeClass', ({ scheduling }) =>
  nodeLabelMapWarnings(scheduling?.nodeSelector, () => 'scheduling.nodeSelector'),
);
onWrite<Secret>('/Secret', secretWarnings);
onWrite<Node>('/Node', ({ spec }) => [
  ...(spec?.configSource === undefined ? [] : ['spec.configSource: the feature is removed']),
  ...(spec?.externalID ? ['spec.externalID: this field is deprecated, and is unused by Kubernetes'] : []),
]);

const mountableSecretsAnnotation = 'kubernetes.io/enforce-mountable-secrets';
const limitsMountableSecrets = ({ metadata }: ServiceAccount) =>
  metadata?.annotations !== undefined && Object.hasOwn(metadata.annotations, mountableSecretsAnnotation);
const mountableSecretsWarning = `metadata.annotations[${mountableSecretsAnnotation}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets`;
on<ServiceAccount>('/ServiceAccount', {
  create: (account) => (limitsMountableSecrets(account) ? [mountableSecretsWarning] : []),
  update: (account, old) => (limitsMountableSecrets(account) && !limitsMountableSecrets(old) ? [mountableSecretsWarning] : []),
});

/** A write of a valid object. Both objects have the same version, which is any version of the kind. */
export interface ValidWrite {
  readonly object: KubeObject;
  /** The current object; undefined for a new object. */
  readonly old: KubeObject | undefined;
  /** The subresource that is written; '' for the object itself. */
  readonly subresource: string;
}

/** Returns the warnings about a write of a valid object, in Kubernetes' words. */
export function warningsAbout({ group, kind }: GroupVersionKind, { object, old, subresource }: ValidWrite): readonly string[] {
  const warnings = kinds.get(`${group}/${kind}`);
  if (warnings === undefined) return [];
  if (subresource !== '') return subresource === 'status' ? (warnings.status?.(object) ?? []) : [];
  return (old === undefined ? warnings.create?.(object) : warnings.update?.(object, old)) ?? [];
}
