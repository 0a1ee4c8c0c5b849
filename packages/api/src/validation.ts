import type { FieldError } from './field-error.ts';
import { fieldErrors } from './field-errors.ts';
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
import { limitRange } from './validation/limit-range.ts';
import { configMap, endpoints, namespace, namespaceStatus, node, secret } from './validation/core.ts';
import { objectMeta, objectMetaUpdate } from './validation/meta.ts';
import { podTemplate } from './validation/pod-spec.ts';
import { binding, ephemeralContainersUpdate, podCreate, podStatusUpdate, podUpdate } from './validation/pod.ts';
import { resizeUpdate } from './validation/pod-resize.ts';
import { requiredFields } from './validation/required.ts';
import { loadBalancerStatus, serviceBody, serviceUpdate } from './validation/service.ts';
import { persistentVolume, persistentVolumeClaim } from './validation/storage.ts';
import { daemonSet, deployment, replicaSet, replicaStatus, replicationController, statefulSet } from './validation/workloads.ts';
import { role, roleBinding } from './validation/access.ts';
import { autoscaler, autoscalerStatus, autoscalerV1 } from './validation/autoscaling.ts';
import { cronJob, job, jobStatus } from './validation/batch.ts';
import { deviceClass, resourceClaim, resourceClaimStatus, resourceClaimTemplate, resourceSlice } from './validation/devices.ts';
import { apiService, apiServiceStatus, flowSchema, priorityLevel } from './validation/extension.ts';
import { ingress, ingressClass, ingressStatus, ipAddress, isIPAddressName, networkPolicy, serviceCidr } from './validation/networking.ts';
import {
  controllerRevision,
  disruptionBudget,
  disruptionStatus,
  limitRangeNames,
  priorityClass,
  quotaStatus,
  resourceQuota,
  runtimeClass,
  signingRequest,
  signingStatus,
} from './validation/policies.ts';
import { attributesClass, csiDriver, csiNode, storageCapacity, storageClass, volumeAttachment } from './validation/storage-classes.ts';
import { clusterTrustBundle, deviceTaintRule, leaseCandidate, podCertificateRequest } from './validation/optional-kinds.ts';
import { admissionPolicy, mutatingPolicy, policyBinding, webhookConfiguration } from './validation/webhooks.ts';
import type {
  MutatingAdmissionPolicy,
  MutatingWebhookConfiguration,
  ValidatingAdmissionPolicy,
  ValidatingAdmissionPolicyBinding,
  ValidatingWebhookConfiguration,
} from './generated/types/admissionregistration-v1.ts';
import type { APIService } from './generated/types/apiregistration-v1.ts';
import type { ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet } from './generated/types/apps-v1.ts';
import type { HorizontalPodAutoscaler as AutoscalerV1, Scale } from './generated/types/autoscaling-v1.ts';
import type { HorizontalPodAutoscaler as AutoscalerV2 } from './generated/types/autoscaling-v2.ts';
import type { CronJob, Job } from './generated/types/batch-v1.ts';
import type { CertificateSigningRequest } from './generated/types/certificates-v1.ts';
import type { ClusterTrustBundle, PodCertificateRequest } from './generated/types/certificates-v1beta1.ts';
import type { LeaseCandidate } from './generated/types/coordination-v1beta1.ts';
import type { DeviceTaintRule } from './generated/types/resource-v1beta2.ts';
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
  ResourceQuota,
  Secret,
  Service,
} from './generated/types/core-v1.ts';
import type { EndpointSlice } from './generated/types/discovery-v1.ts';
import type { Event as EventV1 } from './generated/types/events-v1.ts';
import type { FlowSchema, PriorityLevelConfiguration } from './generated/types/flowcontrol-v1.ts';
import type { Ingress, IngressClass, IPAddress, NetworkPolicy, ServiceCIDR } from './generated/types/networking-v1.ts';
import type { RuntimeClass } from './generated/types/node-v1.ts';
import type { PodDisruptionBudget } from './generated/types/policy-v1.ts';
import type { ClusterRole, RoleBinding } from './generated/types/rbac-v1.ts';
import type { DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice } from './generated/types/resource-v1.ts';
import type { PriorityClass } from './generated/types/scheduling-v1.ts';
import type {
  CSIDriver,
  CSINode,
  CSIStorageCapacity,
  StorageClass,
  VolumeAttachment,
  VolumeAttributesClass,
} from './generated/types/storage-v1.ts';

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
on<LimitRange>('v1/LimitRange', (errors, object) => {
  limitRangeNames(errors, object);
  limitRange(errors, object);
});
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
on<Job>('batch/v1/Job', job);
on<Job>('batch/v1/Job/status', jobStatus);
on<CronJob>('batch/v1/CronJob', cronJob);
on<ResourceQuota>('v1/ResourceQuota', resourceQuota);
on<ResourceQuota>('v1/ResourceQuota/status', quotaStatus);
on<ControllerRevision>('apps/v1/ControllerRevision', controllerRevision);
on<Ingress>('networking.k8s.io/v1/Ingress', ingress);
on<Ingress>('networking.k8s.io/v1/Ingress/status', ingressStatus);
on<IngressClass>('networking.k8s.io/v1/IngressClass', ingressClass);
on<NetworkPolicy>('networking.k8s.io/v1/NetworkPolicy', networkPolicy);
for (const version of ['v1', 'v1beta1']) {
  on<IPAddress>(`networking.k8s.io/${version}/IPAddress`, ipAddress);
  on<ServiceCIDR>(`networking.k8s.io/${version}/ServiceCIDR`, serviceCidr);
  on<VolumeAttributesClass>(`storage.k8s.io/${version}/VolumeAttributesClass`, attributesClass);
}
on<AutoscalerV2>('autoscaling/v2/HorizontalPodAutoscaler', autoscaler);
on<AutoscalerV2>('autoscaling/v2/HorizontalPodAutoscaler/status', autoscalerStatus);
on<AutoscalerV1>('autoscaling/v1/HorizontalPodAutoscaler', autoscalerV1);
on<AutoscalerV1>('autoscaling/v1/HorizontalPodAutoscaler/status', autoscalerStatus);
on<PodDisruptionBudget>('policy/v1/PodDisruptionBudget', disruptionBudget);
on<PodDisruptionBudget>('policy/v1/PodDisruptionBudget/status', disruptionStatus);
on<ClusterRole>('rbac.authorization.k8s.io/v1/ClusterRole', (errors, object) => role(errors, object, false));
on<ClusterRole>('rbac.authorization.k8s.io/v1/Role', (errors, object) => role(errors, object, true));
on<RoleBinding>('rbac.authorization.k8s.io/v1/RoleBinding', (errors, object, old) => roleBinding(errors, object, old, true));
on<RoleBinding>('rbac.authorization.k8s.io/v1/ClusterRoleBinding', (errors, object, old) => roleBinding(errors, object, old, false));
on<PriorityClass>('scheduling.k8s.io/v1/PriorityClass', priorityClass);
on<RuntimeClass>('node.k8s.io/v1/RuntimeClass', runtimeClass);
on<StorageClass>('storage.k8s.io/v1/StorageClass', storageClass);
on<CSIDriver>('storage.k8s.io/v1/CSIDriver', csiDriver);
on<CSINode>('storage.k8s.io/v1/CSINode', csiNode);
on<VolumeAttachment>('storage.k8s.io/v1/VolumeAttachment', volumeAttachment);
on<CSIStorageCapacity>('storage.k8s.io/v1/CSIStorageCapacity', storageCapacity);
on<CertificateSigningRequest>('certificates.k8s.io/v1/CertificateSigningRequest', signingRequest);
on<CertificateSigningRequest>('certificates.k8s.io/v1/CertificateSigningRequest/status', signingStatus);
on<CertificateSigningRequest>('certificates.k8s.io/v1/CertificateSigningRequest/approval', signingStatus);
on<APIService>('apiregistration.k8s.io/v1/APIService', (errors, object) => apiService(errors, object));
on<APIService>('apiregistration.k8s.io/v1/APIService/status', (errors, object) => apiServiceStatus(errors, object));
on<FlowSchema>('flowcontrol.apiserver.k8s.io/v1/FlowSchema', (errors, object) => flowSchema(errors, object));
on<PriorityLevelConfiguration>('flowcontrol.apiserver.k8s.io/v1/PriorityLevelConfiguration', (errors, object) =>
  priorityLevel(errors, object),
);
on<MutatingWebhookConfiguration>('admissionregistration.k8s.io/v1/MutatingWebhookConfiguration', (errors, object) =>
  webhookConfiguration(errors, object),
);
on<ValidatingWebhookConfiguration>('admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration', (errors, object) =>
  webhookConfiguration(errors, object),
);
for (const version of ['v1', 'v1beta1', 'v1alpha1']) {
  const group = `admissionregistration.k8s.io/${version}`;
  on<ValidatingAdmissionPolicy>(`${group}/ValidatingAdmissionPolicy`, (errors, object) => admissionPolicy(errors, object));
  on<MutatingAdmissionPolicy>(`${group}/MutatingAdmissionPolicy`, (errors, object) => mutatingPolicy(errors, object));
  on<ValidatingAdmissionPolicyBinding>(`${group}/ValidatingAdmissionPolicyBinding`, (errors, object) =>
    policyBinding(errors, object, true),
  );
  on<ValidatingAdmissionPolicyBinding>(`${group}/MutatingAdmissionPolicyBinding`, (errors, object) => policyBinding(errors, object, false));
}
for (const version of ['v1', 'v1beta2']) {
  const group = `resource.k8s.io/${version}`;
  on<ResourceClaim>(`${group}/ResourceClaim`, resourceClaim);
  on<ResourceClaim>(`${group}/ResourceClaim/status`, resourceClaimStatus);
  on<ResourceClaimTemplate>(`${group}/ResourceClaimTemplate`, resourceClaimTemplate);
  on<ResourceSlice>(`${group}/ResourceSlice`, resourceSlice);
  on<DeviceClass>(`${group}/DeviceClass`, (errors, object) => deviceClass(errors, object));
}

for (const version of ['v1beta1', 'v1alpha1'])
  on<ClusterTrustBundle>(`certificates.k8s.io/${version}/ClusterTrustBundle`, clusterTrustBundle);
on<PodCertificateRequest>('certificates.k8s.io/v1beta1/PodCertificateRequest', podCertificateRequest);
for (const version of ['v1beta1', 'v1alpha2']) on<LeaseCandidate>(`coordination.k8s.io/${version}/LeaseCandidate`, leaseCandidate);
for (const version of ['v1beta2', 'v1alpha3'])
  on<DeviceTaintRule>(`resource.k8s.io/${version}/DeviceTaintRule`, (errors, object) => deviceTaintRule(errors, object));

/** Kinds with a validator here that does not replace the check of required fields. */
const partial = new Set<string>();

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
  IPAddress: isIPAddressName,
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
  return fieldErrors((errors) => {
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
  });
}
