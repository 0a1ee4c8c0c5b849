import type { FeatureGates } from '../component-helpers/feature-gates.ts';
import type { FieldError } from '../field/field-error.ts';
import { collectFieldErrors } from '../field/field-error-list.ts';
import { kindOf, type GroupVersionKind } from '../kinds.ts';
import {
  isConfigMapKey,
  isDns1035Label,
  isDns1123Label,
  isDns1123Subdomain,
  isPathSegmentName,
  maxLenError,
  type NameRule,
} from '../values/names.ts';
import type { KubeObject } from '../object.ts';
import { schemaOf } from '../schema/schema.ts';
import { validateNonNegative, type Errors } from './internal/checks.ts';
import { validateEndpointSlice, event, validateEventV1, validateLease } from './internal/coordination.ts';
import { validateSELinuxChangePolicy } from './internal/core/selinux-change-policy.ts';
import { validateLimitRange } from './internal/core/limit-range.ts';
import {
  validateConfigMap,
  validateEndpoints,
  validateNamespace,
  validateNamespaceStatus,
  validateNode,
  validateSecret,
} from './internal/core/core.ts';
import { validateObjectMeta, validateObjectMetaUpdate } from './meta.ts';
import { validatePodTemplate } from './internal/core/pods/pod-spec.ts';
import { validateBinding, validateEphemeralContainersUpdate, validatePodCreate, validatePodUpdate } from './internal/core/pods/pod.ts';
import { validatePodStatusUpdate } from './internal/core/pods/pod-status.ts';
import { validateResizeUpdate } from './internal/core/pods/pod-resize.ts';
import { validateRequiredFields } from './internal/required-fields.ts';
import { validateLoadBalancerStatus, validateService, validateServiceUpdate } from './internal/core/service.ts';
import { validatePersistentVolumeClaim, validatePersistentVolumeClaimStatus } from './internal/core/persistent-volume-claims.ts';
import { validatePersistentVolume } from './internal/core/persistent-volumes.ts';
import {
  validateDaemonSet,
  validateDeployment,
  validateReplicaSet,
  validateReplicationController,
  validateStatefulSet,
} from './internal/apps.ts';
import { validateDaemonSetStatus, validateReplicaStatus } from './internal/workload-status.ts';
import { validateRole, validateRoleBinding } from './internal/rbac.ts';
import {
  validateHorizontalPodAutoscaler,
  validateHorizontalPodAutoscalerStatus,
  validateHorizontalPodAutoscalerV1,
} from './internal/autoscaling.ts';
import { validateCronJob } from './internal/batch/cron-job.ts';
import { validateJobStatus } from './internal/batch/job-status.ts';
import { validateJob } from './internal/batch/job.ts';
import {
  validateDeviceClass,
  validateResourceClaim,
  validateResourceClaimStatus,
  validateResourceClaimTemplate,
} from './internal/dynamic-resources/resource-claim.ts';
import { validateDeviceTaintRule, validateResourceSlice } from './internal/dynamic-resources/resource-slice.ts';
import {
  validateApiService,
  validateApiServiceStatus,
  validateFlowSchema,
  validatePriorityLevelConfiguration,
} from './internal/flow-control.ts';
import {
  validateIngress,
  validateIngressClass,
  validateIngressStatus,
  validateIPAddress,
  isIPAddressName,
  validateNetworkPolicy,
  validateServiceCIDR,
} from './internal/networking.ts';
import {
  validateCertificateSigningRequest,
  validateCertificateSigningRequestApproval,
  validateCertificateSigningRequestStatus,
} from './internal/certificates/certificate-signing-request.ts';
import {
  validateControllerRevision,
  validatePodDisruptionBudget,
  validatePodDisruptionBudgetStatus,
  validateLimitRangeNames,
  validatePriorityClass,
  validateResourceQuotaStatus,
  validateResourceQuota,
  validateRuntimeClass,
} from './internal/policies.ts';
import {
  validateVolumeAttributesClass,
  validateCSIDriver,
  validateCSINode,
  validateCSIStorageCapacity,
  validateStorageClass,
  validateVolumeAttachment,
} from './internal/storage-classes.ts';
import { validateClusterTrustBundle, validateLeaseCandidate } from './internal/alpha-beta-kinds.ts';
import { validatePodCertificateRequest } from './internal/certificates/pod-certificate-request.ts';
import { validatePodCertificateRequestStatus } from './internal/certificates/pod-certificate-status.ts';
import {
  validateValidatingAdmissionPolicy,
  validateMutatingAdmissionPolicy,
  validatePolicyBinding,
  validateWebhookConfiguration,
} from './internal/admission-registration.ts';
import type {
  MutatingAdmissionPolicy,
  MutatingWebhookConfiguration,
  ValidatingAdmissionPolicy,
  ValidatingAdmissionPolicyBinding,
  ValidatingWebhookConfiguration,
} from '../generated/types/admissionregistration-v1.ts';
import type { APIService } from '../generated/types/apiregistration-v1.ts';
import type { ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet } from '../generated/types/apps-v1.ts';
import type { HorizontalPodAutoscaler as AutoscalerV1, Scale } from '../generated/types/autoscaling-v1.ts';
import type { HorizontalPodAutoscaler as AutoscalerV2 } from '../generated/types/autoscaling-v2.ts';
import type { CronJob, Job } from '../generated/types/batch-v1.ts';
import type { CertificateSigningRequest } from '../generated/types/certificates-v1.ts';
import type { ClusterTrustBundle, PodCertificateRequest } from '../generated/types/certificates-v1beta1.ts';
import type { LeaseCandidate } from '../generated/types/coordination-v1beta1.ts';
import type { DeviceTaintRule } from '../generated/types/resource-v1beta2.ts';
import type { Lease } from '../generated/types/coordination-v1.ts';
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
} from '../generated/types/core-v1.ts';
import type { EndpointSlice } from '../generated/types/discovery-v1.ts';
import type { Event as EventV1 } from '../generated/types/events-v1.ts';
import type { FlowSchema, PriorityLevelConfiguration } from '../generated/types/flowcontrol-v1.ts';
import type { Ingress, IngressClass, IPAddress, NetworkPolicy, ServiceCIDR } from '../generated/types/networking-v1.ts';
import type { RuntimeClass } from '../generated/types/node-v1.ts';
import type { PodDisruptionBudget } from '../generated/types/policy-v1.ts';
import type { ClusterRole, RoleBinding } from '../generated/types/rbac-v1.ts';
import type { DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice } from '../generated/types/resource-v1.ts';
import type { PriorityClass } from '../generated/types/scheduling-v1.ts';
import type {
  CSIDriver,
  CSINode,
  CSIStorageCapacity,
  StorageClass,
  VolumeAttachment,
  VolumeAttributesClass,
} from '../generated/types/storage-v1.ts';

export interface ValidationOptions {
  /** The subresource of the write (`status`, `resize`, ...), which has its own rules. Absent for the object itself. */
  readonly subresource?: string;
  /** Allows loopback addresses for Services and their endpoints, for clusters whose pods have addresses in 127.0.0.0/8. */
  readonly allowLoopback?: boolean;
  /** The present time in milliseconds, for rules that compare times with it. Without it, they do not apply. */
  readonly now?: number;
  /** The feature gates of the cluster; by default those of the current version. */
  readonly features?: FeatureGates;
}
type Validator<T extends KubeObject = KubeObject> = (errors: Errors, object: T, old: T | undefined, options: ValidationOptions) => void;

const validators = new Map<string, Validator>();
/** Registers a validator. Its argument type is that of the kind; objects conform to the schema of the kind. */
function on<T extends KubeObject>(kind: string, validator: Validator<T>): void {
  validators.set(kind, validator as unknown as Validator);
}
const updatesOnly =
  <T extends KubeObject>(validator: (errors: Errors, object: T, old: T) => void): Validator<T> =>
  (errors, object, old) => {
    if (old !== undefined) validator(errors, object, old);
  };

on<Pod>('v1/Pod', (errors, pod, old) => (old === undefined ? validatePodCreate(errors, pod) : validatePodUpdate(errors, pod, old)));
on<Pod>('v1/Pod/status', updatesOnly(validatePodStatusUpdate));
on<Pod>('v1/Pod/ephemeralcontainers', updatesOnly(validateEphemeralContainersUpdate));
on<Pod>('v1/Pod/resize', updatesOnly(validateResizeUpdate));
on<Binding>('v1/Binding', (errors, object) => validateBinding(errors, object));
on<PodTemplate>('v1/PodTemplate', (errors, object) => validatePodTemplate(errors, 'template', object.template ?? {}));
on<Service>('v1/Service', (errors, service, old, { allowLoopback = false }) => {
  if (old !== undefined) validateServiceUpdate(errors, service, old);
  validateService(errors, service, { allowLoopback, old });
});
on<Service>('v1/Service/status', (errors, service) =>
  validateLoadBalancerStatus(errors, 'status.loadBalancer', service.status?.loadBalancer, service.spec),
);
on<ConfigMap>('v1/ConfigMap', validateConfigMap);
on<Secret>('v1/Secret', validateSecret);
on<Namespace>('v1/Namespace', (errors, object, old) => {
  if (old === undefined) validateNamespace(errors, object);
});
on<Namespace>('v1/Namespace/status', (errors, object) => validateNamespaceStatus(errors, object));
on<Namespace>('v1/Namespace/finalize', (errors, object) => validateNamespace(errors, object));
on<Node>('v1/Node', validateNode);
on<Node>('v1/Node/status', validateNode);
on<KubeObject>('v1/ServiceAccount', () => undefined);
on<Endpoints>('v1/Endpoints', (errors, object, _, { allowLoopback = false }) => validateEndpoints(errors, object, allowLoopback));
on<PersistentVolumeClaim>('v1/PersistentVolumeClaim', validatePersistentVolumeClaim);
on<PersistentVolumeClaim>('v1/PersistentVolumeClaim/status', validatePersistentVolumeClaimStatus);
on<PersistentVolume>('v1/PersistentVolume', validatePersistentVolume);
on<LimitRange>('v1/LimitRange', (errors, object) => {
  validateLimitRangeNames(errors, object);
  validateLimitRange(errors, object);
});
on<Event>('v1/Event', (errors, object) => event(errors, object));
on<ReplicationController>('v1/ReplicationController', (errors, object) => validateReplicationController(errors, object));
on<ReplicationController>('v1/ReplicationController/status', (errors, object, old) =>
  validateReplicaStatus(errors, { status: object.status, old: old?.status }),
);
on<EventV1>('events.k8s.io/v1/Event', validateEventV1);
on<Deployment>('apps/v1/Deployment', validateDeployment);
on<Deployment>('apps/v1/Deployment/status', (errors, object, old) =>
  validateReplicaStatus(errors, { status: object.status, old: old?.status }),
);
on<ReplicaSet>('apps/v1/ReplicaSet', validateReplicaSet);
on<ReplicaSet>('apps/v1/ReplicaSet/status', (errors, object, old) =>
  validateReplicaStatus(errors, { status: object.status, old: old?.status }),
);
on<DaemonSet>('apps/v1/DaemonSet', validateDaemonSet);
on<DaemonSet>('apps/v1/DaemonSet/status', updatesOnly(validateDaemonSetStatus));
on<StatefulSet>('apps/v1/StatefulSet', validateStatefulSet);
on<StatefulSet>('apps/v1/StatefulSet/status', (errors, object, old) =>
  validateReplicaStatus(errors, { status: object.status, old: old?.status, ready: 'status.readyReplicas' }),
);
on<Scale>('autoscaling/v1/Scale', (errors, object) => validateNonNegative(errors, 'spec.replicas', object.spec?.replicas));
on<Lease>('coordination.k8s.io/v1/Lease', (errors, object) => validateLease(errors, object));
on<EndpointSlice>('discovery.k8s.io/v1/EndpointSlice', (errors, object, old, { allowLoopback = false }) =>
  validateEndpointSlice(errors, object, old, allowLoopback),
);
on<Job>('batch/v1/Job', validateJob);
on<Job>('batch/v1/Job/status', updatesOnly(validateJobStatus));
on<CronJob>('batch/v1/CronJob', validateCronJob);
on<ResourceQuota>('v1/ResourceQuota', validateResourceQuota);
on<ResourceQuota>('v1/ResourceQuota/status', validateResourceQuotaStatus);
on<ControllerRevision>('apps/v1/ControllerRevision', validateControllerRevision);
on<Ingress>('networking.k8s.io/v1/Ingress', validateIngress);
on<Ingress>('networking.k8s.io/v1/Ingress/status', validateIngressStatus);
on<IngressClass>('networking.k8s.io/v1/IngressClass', validateIngressClass);
on<NetworkPolicy>('networking.k8s.io/v1/NetworkPolicy', validateNetworkPolicy);
for (const version of ['v1', 'v1beta1']) {
  on<IPAddress>(`networking.k8s.io/${version}/IPAddress`, validateIPAddress);
  on<ServiceCIDR>(`networking.k8s.io/${version}/ServiceCIDR`, validateServiceCIDR);
  on<VolumeAttributesClass>(`storage.k8s.io/${version}/VolumeAttributesClass`, validateVolumeAttributesClass);
}
on<AutoscalerV2>('autoscaling/v2/HorizontalPodAutoscaler', validateHorizontalPodAutoscaler);
on<AutoscalerV2>('autoscaling/v2/HorizontalPodAutoscaler/status', validateHorizontalPodAutoscalerStatus);
on<AutoscalerV1>('autoscaling/v1/HorizontalPodAutoscaler', validateHorizontalPodAutoscalerV1);
on<AutoscalerV1>('autoscaling/v1/HorizontalPodAutoscaler/status', validateHorizontalPodAutoscalerStatus);
on<PodDisruptionBudget>('policy/v1/PodDisruptionBudget', validatePodDisruptionBudget);
on<PodDisruptionBudget>('policy/v1/PodDisruptionBudget/status', validatePodDisruptionBudgetStatus);
on<ClusterRole>('rbac.authorization.k8s.io/v1/ClusterRole', (errors, object) => validateRole(errors, object, false));
on<ClusterRole>('rbac.authorization.k8s.io/v1/Role', (errors, object) => validateRole(errors, object, true));
on<RoleBinding>('rbac.authorization.k8s.io/v1/RoleBinding', (errors, object, old) => validateRoleBinding(errors, object, old, true));
on<RoleBinding>('rbac.authorization.k8s.io/v1/ClusterRoleBinding', (errors, object, old) =>
  validateRoleBinding(errors, object, old, false),
);
on<PriorityClass>('scheduling.k8s.io/v1/PriorityClass', validatePriorityClass);
on<RuntimeClass>('node.k8s.io/v1/RuntimeClass', validateRuntimeClass);
on<StorageClass>('storage.k8s.io/v1/StorageClass', validateStorageClass);
on<CSIDriver>('storage.k8s.io/v1/CSIDriver', validateCSIDriver);
on<CSINode>('storage.k8s.io/v1/CSINode', validateCSINode);
on<VolumeAttachment>('storage.k8s.io/v1/VolumeAttachment', validateVolumeAttachment);
on<CSIStorageCapacity>('storage.k8s.io/v1/CSIStorageCapacity', validateCSIStorageCapacity);
on<CertificateSigningRequest>('certificates.k8s.io/v1/CertificateSigningRequest', validateCertificateSigningRequest);
on<CertificateSigningRequest>(
  'certificates.k8s.io/v1/CertificateSigningRequest/status',
  updatesOnly(validateCertificateSigningRequestStatus),
);
on<CertificateSigningRequest>(
  'certificates.k8s.io/v1/CertificateSigningRequest/approval',
  updatesOnly(validateCertificateSigningRequestApproval),
);
on<APIService>('apiregistration.k8s.io/v1/APIService', (errors, object) => validateApiService(errors, object));
on<APIService>('apiregistration.k8s.io/v1/APIService/status', (errors, object) => validateApiServiceStatus(errors, object));
on<FlowSchema>('flowcontrol.apiserver.k8s.io/v1/FlowSchema', (errors, object) => validateFlowSchema(errors, object));
on<PriorityLevelConfiguration>('flowcontrol.apiserver.k8s.io/v1/PriorityLevelConfiguration', (errors, object) =>
  validatePriorityLevelConfiguration(errors, object),
);
on<MutatingWebhookConfiguration>('admissionregistration.k8s.io/v1/MutatingWebhookConfiguration', (errors, object) =>
  validateWebhookConfiguration(errors, object),
);
on<ValidatingWebhookConfiguration>('admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration', (errors, object) =>
  validateWebhookConfiguration(errors, object),
);
for (const version of ['v1', 'v1beta1', 'v1alpha1']) {
  const group = `admissionregistration.k8s.io/${version}`;
  on<ValidatingAdmissionPolicy>(`${group}/ValidatingAdmissionPolicy`, (errors, object) =>
    validateValidatingAdmissionPolicy(errors, object),
  );
  on<MutatingAdmissionPolicy>(`${group}/MutatingAdmissionPolicy`, (errors, object) => validateMutatingAdmissionPolicy(errors, object));
  on<ValidatingAdmissionPolicyBinding>(`${group}/ValidatingAdmissionPolicyBinding`, (errors, object) =>
    validatePolicyBinding(errors, object, true),
  );
  on<ValidatingAdmissionPolicyBinding>(`${group}/MutatingAdmissionPolicyBinding`, (errors, object) =>
    validatePolicyBinding(errors, object, false),
  );
}
for (const version of ['v1', 'v1beta2']) {
  const group = `resource.k8s.io/${version}`;
  on<ResourceClaim>(`${group}/ResourceClaim`, validateResourceClaim);
  on<ResourceClaim>(`${group}/ResourceClaim/status`, validateResourceClaimStatus);
  on<ResourceClaimTemplate>(`${group}/ResourceClaimTemplate`, validateResourceClaimTemplate);
  on<ResourceSlice>(`${group}/ResourceSlice`, validateResourceSlice);
  on<DeviceClass>(`${group}/DeviceClass`, validateDeviceClass);
}

for (const version of ['v1beta1', 'v1alpha1'])
  on<ClusterTrustBundle>(`certificates.k8s.io/${version}/ClusterTrustBundle`, validateClusterTrustBundle);
on<PodCertificateRequest>('certificates.k8s.io/v1beta1/PodCertificateRequest', validatePodCertificateRequest);
on<PodCertificateRequest>('certificates.k8s.io/v1beta1/PodCertificateRequest/status', (errors, request, old, { now }) => {
  if (old !== undefined) validatePodCertificateRequestStatus(errors, request, { old, now });
});
for (const version of ['v1beta1', 'v1alpha2']) on<LeaseCandidate>(`coordination.k8s.io/${version}/LeaseCandidate`, validateLeaseCandidate);
for (const version of ['v1beta2', 'v1alpha3'])
  on<DeviceTaintRule>(`resource.k8s.io/${version}/DeviceTaintRule`, (errors, object) => validateDeviceTaintRule(errors, object));

/** Kinds whose validator here does not replace the check of required fields. */
const subresourceValidators = new Set<string>();

/** Exceptions from the rule that names are DNS subdomains. */
const nameRules: Readonly<Record<string, NameRule>> = {
  Namespace: isDns1123Label,
  Service: isDns1123Label, // with RelaxedServiceNameValidation (KEP-5311)
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
export function nameRuleOf(kind: string, features?: FeatureGates): NameRule {
  if (kind === 'Service' && features?.enabled('RelaxedServiceNameValidation') === false) return isDns1035Label;
  return (Object.hasOwn(nameRules, kind) ? nameRules[kind] : undefined) ?? isDns1123Subdomain;
}

/**
 * Returns all validation errors of a write in Kubernetes' words. `old` is the stored object, for updates. Expects defaults to be applied, names
 * to be generated and, for updates, a resource version. Kinds without a validator get the checks of metadata and of required fields.
 */
export function validateObject<T extends KubeObject>(
  gvk: GroupVersionKind,
  object: T,
  old?: T,
  options: ValidationOptions = {},
): readonly FieldError[] {
  return collectFieldErrors((errors) => {
    const kind = kindOf(gvk);
    const schema = schemaOf(gvk);
    if (old !== undefined) validateObjectMetaUpdate(errors, object.metadata ?? {}, old.metadata ?? {});
    // Kinds that are not stored (bindings, reviews, scales) need no name; a kind that is not built-in is a custom resource.
    else if (kind === undefined ? schema === undefined : kind.verbs.includes('get')) {
      validateObjectMeta(
        errors,
        object.metadata ?? {},
        kind?.namespaced ?? object.metadata?.namespace !== undefined,
        nameRuleOf(gvk.kind, options.features),
      );
    }
    const key = `${gvk.group === '' ? '' : `${gvk.group}/`}${gvk.version}/${gvk.kind}`;
    const validator = validators.get(options.subresource === undefined ? key : `${key}/${options.subresource}`);
    validator?.(errors, object, old, options);
    if (options.subresource === undefined) validateSELinuxChangePolicy(errors, `${gvk.group}/${gvk.kind}`, { object, old });
    if (schema !== undefined && options.subresource === undefined && (validator === undefined || subresourceValidators.has(key)))
      validateRequiredFields(errors, schema, object);
  });
}
