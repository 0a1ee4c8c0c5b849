import type { FieldError } from './field-error.ts';
import { kindOf, type GroupVersionKind } from './kinds.ts';
import {
  isConfigMapKey,
  isDns1035Label,
  isDns1123Label,
  isDns1123Subdomain,
  isPathSegmentName,
  maxLenError,
  type NameRule,
} from './names.ts';
import type { KubeObject } from './object.ts';
import { schemaOf } from './schema.ts';
import { nonNegative, type Errors } from './validation/checks.ts';
import { endpointSlice, event, eventV1, lease } from './validation/coordination.ts';
import { configMap, endpoints, limitRange, namespace, namespaceStatus, node, secret } from './validation/core.ts';
import { objectMeta, objectMetaUpdate } from './validation/meta.ts';
import { podTemplate } from './validation/pod-spec.ts';
import { binding, ephemeralContainersUpdate, podCreate, podStatusUpdate, podUpdate } from './validation/pod.ts';
import { resizeUpdate } from './validation/pod-resize.ts';
import { requiredFields } from './validation/required.ts';
import { loadBalancerStatus, serviceBody, serviceUpdate } from './validation/service.ts';
import { persistentVolume, persistentVolumeClaim } from './validation/storage.ts';
import { daemonSet, deployment, replicaSet, replicaStatus, replicationController, statefulSet } from './validation/workloads.ts';
import type { DaemonSet, Deployment, ReplicaSet, StatefulSet } from './generated/types/apps-v1.ts';
import type { Scale } from './generated/types/autoscaling-v1.ts';
import type { CronJob, Job } from './generated/types/batch-v1.ts';
import type { Lease } from './generated/types/coordination-v1.ts';
import type {
  Binding,
  ConfigMap,
  Endpoints,
  Event,
  LimitRange,
  Namespace,
  Node,
  PersistentVolume,
  PersistentVolumeClaim,
  Pod,
  PodTemplate,
  ReplicationController,
  Secret,
  Service,
} from './generated/types/core-v1.ts';
import type { EndpointSlice } from './generated/types/discovery-v1.ts';
import type { Event as EventV1 } from './generated/types/events-v1.ts';

export interface ValidationOptions {
  /** The subresource that is written (`status`, `resize`, ...), which has rules of its own. Absent for the object itself. */
  readonly subresource?: string;
  /** Whether addresses of Services and their endpoints may be loopback addresses: for clusters whose pods live in 127.0.0.0/8. */
  readonly allowLoopback?: boolean;
}
type Validator<T extends KubeObject = KubeObject> = (errors: Errors, object: T, old: T | undefined, options: ValidationOptions) => void;

const validators = new Map<string, Validator>();
/** Validators are written for the type of their kind; what arrives here conforms to the schema of that kind. */
function on<T extends KubeObject>(kind: string, validator: Validator<T>): void {
  validators.set(kind, validator as unknown as Validator);
}
const updatesOnly =
  <T extends KubeObject>(validator: (errors: Errors, object: T, old: T) => void): Validator<T> =>
  (errors, object, old) => {
    if (old !== undefined) validator(errors, object, old);
  };

on<Pod>('v1/Pod', (errors, pod, old) => (old === undefined ? podCreate(errors, pod) : podUpdate(errors, pod, old)));
on<Pod>('v1/Pod/status', updatesOnly(podStatusUpdate));
on<Pod>('v1/Pod/ephemeralcontainers', updatesOnly(ephemeralContainersUpdate));
on<Pod>('v1/Pod/resize', updatesOnly(resizeUpdate));
on<Binding>('v1/Binding', (errors, object) => binding(errors, object));
on<PodTemplate>('v1/PodTemplate', (errors, object) => podTemplate(errors, 'template', object.template ?? {}));
on<Service>('v1/Service', (errors, service, old, { allowLoopback = false }) => {
  if (old !== undefined) serviceUpdate(errors, service, old);
  serviceBody(errors, service, allowLoopback);
});
on<Service>('v1/Service/status', (errors, service) =>
  loadBalancerStatus(errors, 'status.loadBalancer', service.status?.loadBalancer, service.spec),
);
on<ConfigMap>('v1/ConfigMap', configMap);
on<Secret>('v1/Secret', secret);
on<Namespace>('v1/Namespace', (errors, object, old) => {
  if (old === undefined) namespace(errors, object);
});
on<Namespace>('v1/Namespace/status', (errors, object) => namespaceStatus(errors, object));
on<Namespace>('v1/Namespace/finalize', (errors, object) => namespace(errors, object));
on<Node>('v1/Node', node);
on<Node>('v1/Node/status', node);
on<KubeObject>('v1/ServiceAccount', () => undefined);
on<Endpoints>('v1/Endpoints', (errors, object, _, { allowLoopback = false }) => endpoints(errors, object, allowLoopback));
on<PersistentVolumeClaim>('v1/PersistentVolumeClaim', persistentVolumeClaim);
on<PersistentVolume>('v1/PersistentVolume', persistentVolume);
on<LimitRange>('v1/LimitRange', (errors, object) => limitRange(errors, object));
on<Event>('v1/Event', (errors, object) => event(errors, object));
on<ReplicationController>('v1/ReplicationController', (errors, object) => replicationController(errors, object));
on<ReplicationController>('v1/ReplicationController/status', (errors, object, old) => replicaStatus(errors, object.status, old?.status));
on<EventV1>('events.k8s.io/v1/Event', eventV1);
on<Deployment>('apps/v1/Deployment', deployment);
on<Deployment>('apps/v1/Deployment/status', (errors, object, old) => replicaStatus(errors, object.status, old?.status));
on<ReplicaSet>('apps/v1/ReplicaSet', replicaSet);
on<ReplicaSet>('apps/v1/ReplicaSet/status', (errors, object, old) => replicaStatus(errors, object.status, old?.status));
on<DaemonSet>('apps/v1/DaemonSet', daemonSet);
on<StatefulSet>('apps/v1/StatefulSet', statefulSet);
on<Scale>('autoscaling/v1/Scale', (errors, object) => nonNegative(errors, 'spec.replicas', object.spec?.replicas));
on<Lease>('coordination.k8s.io/v1/Lease', (errors, object) => lease(errors, object));
on<EndpointSlice>('discovery.k8s.io/v1/EndpointSlice', (errors, object, old, { allowLoopback = false }) =>
  endpointSlice(errors, object, old, allowLoopback),
);
on<Job>('batch/v1/Job', (errors, object) => {
  if (object.spec?.template !== undefined) podTemplate(errors, 'spec.template', object.spec.template);
});
on<CronJob>('batch/v1/CronJob', (errors, object) => {
  const template = object.spec?.jobTemplate?.spec?.template;
  if (template !== undefined) podTemplate(errors, 'spec.jobTemplate.spec.template', template);
});

/** Kinds with a validator here that does not replace the check of required fields. */
const partial = new Set(['batch/v1/Job', 'batch/v1/CronJob', 'v1/LimitRange']);

/** Names are DNS subdomains but for these. */
const nameRules: Readonly<Record<string, NameRule>> = {
  Namespace: isDns1123Label,
  Service: isDns1035Label,
  Role: isPathSegmentName,
  ClusterRole: isPathSegmentName,
  RoleBinding: isPathSegmentName,
  ClusterRoleBinding: isPathSegmentName,
  Event: isPathSegmentName,
  Binding: isPathSegmentName,
  CertificateSigningRequest: isPathSegmentName,
  APIService: isPathSegmentName,
  CustomResourceDefinition: isPathSegmentName,
  ClusterTrustBundle: isPathSegmentName,
  StorageVersion: isPathSegmentName,
  IPAddress: isPathSegmentName,
  LeaseCandidate: isConfigMapKey,
  CronJob: (name) => [...isDns1123Subdomain(name), ...(name.length > 52 ? [maxLenError(52)] : [])],
};
export const nameRuleOf = (kind: string): NameRule => (Object.hasOwn(nameRules, kind) ? nameRules[kind] : undefined) ?? isDns1123Subdomain;

/**
 * Everything wrong with an object that is about to be written, in Kubernetes' words; empty when it may be. `old` is what is stored, for
 * updates. Expects defaults to be applied, names generated, and, for updates, a resource version. Kinds without a validator of their own
 * get the checks of metadata and of required fields.
 */
export function validateObject<T extends KubeObject>(
  gvk: GroupVersionKind,
  object: T,
  old?: T,
  options: ValidationOptions = {},
): readonly FieldError[] {
  const errors: Errors = [];
  const kind = kindOf(gvk);
  const schema = schemaOf(gvk);
  if (old !== undefined) objectMetaUpdate(errors, object.metadata ?? {}, old.metadata ?? {});
  // What is not stored (bindings, reviews, scales) needs no name; what is not built in is a custom resource.
  else if (kind === undefined ? schema === undefined : kind.verbs.includes('get')) {
    objectMeta(errors, object.metadata ?? {}, kind?.namespaced ?? object.metadata?.namespace !== undefined, nameRuleOf(gvk.kind));
  }
  const key = `${gvk.group === '' ? '' : `${gvk.group}/`}${gvk.version}/${gvk.kind}`;
  const validator = validators.get(options.subresource === undefined ? key : `${key}/${options.subresource}`);
  validator?.(errors, object, old, options);
  if (schema !== undefined && options.subresource === undefined && (validator === undefined || partial.has(key)))
    requiredFields(errors, schema, object);
  return errors;
}
