import { fieldDescriptions } from './internal/field-descriptions.ts';
import { podFieldDescriptions } from './internal/pod-field-descriptions.ts';

/** The descriptions of kinds, as `kubectl explain` shows them above the fields. */
const kinds: Readonly<Record<string, string>> = {
  APIGroup: 'The versions of an API group.',
  APIGroupList: 'The API groups of the server.',
  APIResourceList: 'The resources of one version of an API group.',
  APIService: 'Registers one version of an API group, which this server or an extension server serves.',
  APIVersions: 'The versions of the core group.',
  Binding: 'Binds a pod to a node. Created by schedulers.',
  CertificateSigningRequest: 'Requests an X.509 certificate, which is issued after the request is approved.',
  ClusterRole: 'Permissions that apply in any namespace or to cluster-scoped resources.',
  ClusterRoleBinding: 'Grants a ClusterRole to users, groups or service accounts in the whole cluster.',
  ClusterTrustBundle: 'X.509 trust anchors that pods of the whole cluster can mount.',
  ComponentStatus: 'The health of a control plane component. Deprecated.',
  ConfigMap: 'Configuration for pods, as key-value pairs.',
  ControllerRevision: 'A previous state of a DaemonSet or StatefulSet, kept for rollbacks.',
  CronJob: 'Creates Jobs on a schedule.',
  CSIDriver: 'Configuration of the cluster for a CSI volume driver.',
  CSINode: 'The CSI volume drivers of one node.',
  CSIStorageCapacity: 'The capacity of a storage class in one segment of the cluster.',
  CustomResourceDefinition: 'Adds a resource to the API, with its schema, versions and names.',
  DaemonSet: 'Runs one pod on every node that it selects.',
  DeleteOptions: 'Options of a deletion.',
  Deployment: 'Keeps a number of identical pods running and replaces them gradually when their template changes.',
  DeviceClass: 'A class of devices that claims can request.',
  DeviceTaintRule: 'Taints the devices that it selects, so that pods are not scheduled to them or are evicted.',
  EndpointSlice: "A subset of the addresses and ports of a service's endpoints.",
  Endpoints: "The addresses and ports of a service's endpoints. Superseded by EndpointSlice.",
  Event: 'An occurrence on an object. Kept for a limited time.',
  Eviction: 'Requests the deletion of a pod, subject to its disruption budget.',
  FlowSchema: 'Classifies requests to the API server into flows and assigns them to a priority level.',
  HorizontalPodAutoscaler: 'Scales a workload so that measured metrics stay near their targets.',
  IPAddress: 'An IP address that is allocated to one object.',
  Ingress: 'Routes external requests to services by host and path.',
  IngressClass: 'Selects the controller that implements the ingresses of a class.',
  Job: 'Runs pods until a number of them succeed.',
  Lease: 'Specifies the holder of a lease and its expiry, for leader election and node heartbeats.',
  LeaseCandidate: 'A candidate in the leader election of a lease.',
  LimitRange: 'Minimum, maximum and default resources of the pods, containers and claims of a namespace.',
  LocalSubjectAccessReview: 'Checks whether a user can perform an action in one namespace.',
  MutatingAdmissionPolicy: 'Mutates objects on admission by CEL expressions.',
  MutatingAdmissionPolicyBinding: 'Binds a mutating policy to resources and parameters.',
  MutatingWebhookConfiguration: 'Webhooks that can mutate objects on admission.',
  Namespace: 'A scope for names and policies.',
  NetworkPolicy: 'The traffic that the selected pods can receive and send.',
  Node: 'A machine of the cluster that runs pods.',
  PersistentVolume: 'Storage whose lifecycle is independent of the pods that use it.',
  PersistentVolumeClaim: 'Requests storage of a size and class; bound to a volume that satisfies it.',
  Pod: 'Containers that run together on one node and share its network address and volumes.',
  PodCertificateRequest: 'Requests a certificate for a pod, on behalf of its node.',
  PodDisruptionBudget: 'Limits how many pods of a group can be evicted at the same time.',
  PodGroup: 'Pods that are scheduled together.',
  PodTemplate: 'A template for pods.',
  PriorityClass: 'Defines a pod priority by name.',
  PriorityLevelConfiguration: 'The concurrency and queues of requests of one priority.',
  ReplicaSet: 'Keeps a number of identical pods running.',
  ReplicationController: 'Keeps a number of identical pods running. Superseded by ReplicaSet.',
  ResourceClaim: 'Requests devices; used by the pods that refer to it.',
  ResourceClaimTemplate: 'A template from which a claim is created for each pod.',
  ResourcePoolStatusRequest: 'Requests the number of free devices in resource pools.',
  ResourceQuota: 'Limits the total resource usage of the objects of a namespace.',
  ResourceSlice: 'Devices that a driver offers, on one or several nodes.',
  Role: 'Permissions that apply in one namespace.',
  RoleBinding: 'Grants a Role or ClusterRole to users, groups or service accounts in one namespace.',
  RuntimeClass: 'The handler that runs the containers of a pod, and its overhead.',
  Scale: 'The desired and the current number of replicas of an object.',
  Secret: 'Confidential data for pods.',
  SelfSubjectAccessReview: 'Checks whether the caller can perform an action.',
  SelfSubjectReview: 'Returns the user attributes of the caller.',
  SelfSubjectRulesReview: 'Lists the actions that the caller can perform in a namespace.',
  Service: 'One address and name for a changing set of pods.',
  ServiceAccount: 'An identity for processes in pods.',
  ServiceCIDR: 'A range from which service IPs are allocated.',
  StatefulSet: 'Runs pods with stable names and storage.',
  Status: 'The outcome of a request that returns no object.',
  StorageClass: 'Defines how volumes of a class are provisioned.',
  StorageVersion: 'The versions in which the API servers of the cluster store a resource.',
  StorageVersionMigration: 'Rewrites all objects of a resource, so that they are stored in the current version.',
  SubjectAccessReview: 'Checks whether a user can perform an action.',
  TokenRequest: 'Requests a token of a service account.',
  TokenReview: 'Authenticates a token and returns its user.',
  ValidatingAdmissionPolicy: 'Rejects objects that do not satisfy CEL expressions.',
  ValidatingAdmissionPolicyBinding: 'Binds a validating policy to resources and parameters.',
  ValidatingWebhookConfiguration: 'Webhooks that can reject objects on admission.',
  VolumeAttachment: 'Requests to attach a volume to a node, and reports whether it is attached.',
  VolumeAttributesClass: 'Attributes of volumes that can be changed while the volumes are in use.',
  WatchEvent: 'A change of a watched object.',
  Workload: "An application from the scheduler's perspective: groups of pods and their dependencies.",
};

const conventions = 'https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md';

/** The descriptions of the members of every object and list. Programs and tests compare them, so they are upstream's. */
export const standardDescriptions = {
  apiVersion: `APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: ${conventions}#resources`,
  kind: `Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: ${conventions}#types-kinds`,
  metadata: `Standard object's metadata. More info: ${conventions}#metadata`,
  listMetadata: `Standard list metadata. More info: ${conventions}#types-kinds`,
} as const;

/** Returns the description of the list kind of a custom resource. */
export const describeCustomList = (listKind: string, kind: string): string => `${listKind} is a list of ${kind}`;
/** Returns the description of the items of a list of custom resources. */
export const describeCustomItems = (plural: string): string => `List of ${plural}. More info: ${conventions}`;

/** Returns the description of the items of a list of a built-in kind, such as "List of services". */
export function describeItems(kind: string): string {
  const words = kind.replace(/(?<=[a-z])(?=[A-Z])/g, ' ').toLowerCase();
  return `List of ${/(?:s|x|ss)$/.test(words) ? `${words}es` : /[^aeiou]y$/.test(words) ? `${words.slice(0, -1)}ies` : `${words}s`}`;
}

const members: Readonly<Record<string, string>> = {
  apiVersion: standardDescriptions.apiVersion,
  kind: standardDescriptions.kind,
  metadata: standardDescriptions.metadata,
  spec: 'The desired state.',
  status: 'The most recently observed state. Set by the system.',
};

/** Returns the description of a kind, by definition ID such as `apps/v1.Deployment`; undefined if there is none. */
export function describeKind(id: string): string | undefined {
  const kind = id.slice(id.lastIndexOf('.') + 1);
  return Object.hasOwn(kinds, kind) ? kinds[kind] : undefined;
}

/** Returns the description of a property that all kinds have, such as `metadata`; undefined if there is none. */
export function describeMember(name: string): string | undefined {
  return Object.hasOwn(members, name) ? members[name] : undefined;
}

/** Returns the description of a field, by definition ID such as `apps/v1.DeploymentSpec` and field name; undefined if there is none. */
export function describeField(id: string, name: string): string | undefined {
  const definition = id.slice(id.lastIndexOf('.') + 1);
  for (const table of [podFieldDescriptions, fieldDescriptions]) {
    const fields = Object.hasOwn(table, definition) ? table[definition] : undefined;
    if (fields !== undefined && Object.hasOwn(fields, name)) return fields[name];
  }
  return undefined;
}

/** Returns all descriptions as one text, which is part of the hash of OpenAPI documents. */
export function allDescriptions(): string {
  return JSON.stringify([kinds, members, podFieldDescriptions, fieldDescriptions]);
}
