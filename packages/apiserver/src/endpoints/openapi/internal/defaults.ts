/** Optional fields that are structs and not pointers in Go: their default is an empty object. Others have no default. */
const structs: ReadonlySet<string> = new Set([
  'apiextensions.k8s.io/v1.CustomResourceDefinitionStatus.acceptedNames',
  'apps/v1.DaemonSetSpec.updateStrategy',
  'apps/v1.DeploymentSpec.strategy',
  'apps/v1.ReplicaSetSpec.template',
  'apps/v1.StatefulSetSpec.updateStrategy',
  'authentication.k8s.io/v1.SelfSubjectReviewStatus.userInfo',
  'authentication.k8s.io/v1.TokenReviewStatus.user',
  'core/v1.Container.resources',
  'core/v1.ContainerStatus.lastState',
  'core/v1.ContainerStatus.state',
  'core/v1.EphemeralContainer.resources',
  'core/v1.Event.source',
  'core/v1.NodeDaemonEndpoints.kubeletEndpoint',
  'core/v1.NodeStatus.daemonEndpoints',
  'core/v1.NodeStatus.nodeInfo',
  'core/v1.PersistentVolumeClaimSpec.resources',
  'core/v1.PodTemplate.template',
  'core/v1.ServiceStatus.loadBalancer',
  'discovery.k8s.io/v1.Endpoint.conditions',
  'events.k8s.io/v1.Event.deprecatedSource',
  'events.k8s.io/v1.Event.regarding',
  'flowcontrol.apiserver.k8s.io/v1.LimitedPriorityLevelConfiguration.limitResponse',
  'meta/v1.APIGroup.preferredVersion',
  'networking.k8s.io/v1.IngressServiceBackend.port',
  'networking.k8s.io/v1.IngressStatus.loadBalancer',
  'networking.k8s.io/v1.NetworkPolicySpec.podSelector',
  ...['v1', 'v1beta1', 'v1beta2'].flatMap((version) => [
    `resource.k8s.io/${version}.AllocationResult.devices`,
    `resource.k8s.io/${version}.ResourceClaimSpec.devices`,
  ]),
]);
/** Required fields that are pointers in Go, which have no default. */
const pointers: ReadonlySet<string> = new Set([
  ...['DaemonSet', 'Deployment', 'ReplicaSet', 'StatefulSet'].map((name) => `apps/v1.${name}Spec.selector`),
  ...['MutatingWebhook', 'ValidatingWebhook'].map((name) => `admissionregistration.k8s.io/v1.${name}.sideEffects`),
  'core/v1.ScaleIOPersistentVolumeSource.secretRef',
  'core/v1.ScaleIOVolumeSource.secretRef',
  'networking.k8s.io/v1.HTTPIngressPath.pathType',
  'networking.k8s.io/v1.IPAddressSpec.parentRef',
  'networking.k8s.io/v1beta1.IPAddressSpec.parentRef',
]);
/** The members of objects that are structs in every kind. */
const objectMembers: ReadonlySet<string> = new Set(['metadata', 'spec', 'status']);

/** The defaults that the API declares with a marker. */
const declared: Readonly<Record<string, unknown>> = {
  'core/v1.AzureDiskVolumeSource.cachingMode': 'ReadWrite',
  'core/v1.AzureDiskVolumeSource.fsType': 'ext4',
  'core/v1.AzureDiskVolumeSource.kind': 'Shared',
  'core/v1.AzureDiskVolumeSource.readOnly': false,
  'core/v1.ContainerPort.protocol': 'TCP',
  'certificates.k8s.io/v1beta1.PodCertificateRequestSpec.maxExpirationSeconds': 86_400,
  'core/v1.FileKeySelector.optional': false,
  'core/v1.GRPCAction.service': '',
  'core/v1.ISCSIPersistentVolumeSource.iscsiInterface': 'default',
  'core/v1.ISCSIVolumeSource.iscsiInterface': 'default',
  'core/v1.RBDPersistentVolumeSource.keyring': '/etc/ceph/keyring',
  'core/v1.RBDPersistentVolumeSource.pool': 'rbd',
  'core/v1.RBDPersistentVolumeSource.user': 'admin',
  'core/v1.RBDVolumeSource.keyring': '/etc/ceph/keyring',
  'core/v1.RBDVolumeSource.pool': 'rbd',
  'core/v1.RBDVolumeSource.user': 'admin',
  'core/v1.ScaleIOPersistentVolumeSource.fsType': 'xfs',
  'core/v1.ScaleIOPersistentVolumeSource.storageMode': 'ThinProvisioned',
  'core/v1.ScaleIOVolumeSource.fsType': 'xfs',
  'core/v1.ScaleIOVolumeSource.storageMode': 'ThinProvisioned',
  'core/v1.ServicePort.protocol': 'TCP',
  ...Object.fromEntries(['v1', 'v1beta1', 'v1beta2'].map((version) => [`resource.k8s.io/${version}.DeviceToleration.operator`, 'Equal'])),
};
const zeroValues: Readonly<Record<string, unknown>> = { string: '', integer: 0, number: 0, boolean: false };

/** Returns the default of an element of a list or map; undefined if it has none. */
export function elementDefault(type: string, format: string | undefined): unknown {
  return format === 'byte' ? undefined : zeroValues[type];
}

/** Returns the default of a field that is a struct; undefined if it has none. */
export function structDefault(id: string, property: string, isRequired: boolean): unknown {
  const field = `${id}.${property}`;
  const isStruct = (isRequired && !pointers.has(field)) || objectMembers.has(property) || structs.has(field);
  return isStruct ? {} : undefined;
}

/** Returns the default of a field that is a string, a number or a boolean; undefined if it has none. */
export function scalarDefault(id: string, property: string, { type, format, isRequired }: ScalarField): unknown {
  const field = `${id}.${property}`;
  if (Object.hasOwn(declared, field)) return declared[field];
  return isRequired && !pointers.has(field) ? elementDefault(type, format) : undefined;
}

interface ScalarField {
  readonly type: string;
  readonly format: string | undefined;
  readonly isRequired: boolean;
}
