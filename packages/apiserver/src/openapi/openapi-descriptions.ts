import { fieldDescriptions } from './internal/field-descriptions.ts';
import { podFieldDescriptions } from './internal/pod-field-descriptions.ts';

/** The description of each kind, as `kubectl explain` shows it above the fields. */
const kinds: Readonly<Record<string, string>> = {
  APIService: 'Serves one version of one API group, here or at a service that requests are passed on to.',
  Binding: 'Puts a pod on a node. Made by schedulers.',
  CertificateSigningRequest: 'Asks for an X.509 certificate; it is issued when the request has been approved.',
  ClusterRole: 'Rules of what may be done, in any namespace or to what has none.',
  ClusterRoleBinding: 'Grants a ClusterRole to users, groups or service accounts in the whole cluster.',
  ClusterTrustBundle: 'X.509 trust anchors that pods of the whole cluster can mount.',
  ComponentStatus: 'Whether a component of the control plane is well. Deprecated.',
  ConfigMap: 'Configuration for pods to read, as pairs of keys and values.',
  ControllerRevision: 'An earlier state of a DaemonSet or StatefulSet, kept to roll back to.',
  CronJob: 'Makes Jobs at the times of a schedule.',
  CSIDriver: 'What the cluster has to know of a CSI volume driver.',
  CSINode: 'The CSI volume drivers that run on one node.',
  CSIStorageCapacity: 'How much room a storage class has in one part of the cluster.',
  CustomResourceDefinition: 'Adds a resource to the API, with its schema, versions and names.',
  DaemonSet: 'Runs one pod on every node that it selects.',
  DeleteOptions: 'How an object is to be deleted.',
  Deployment: 'Keeps a number of equal pods running, and replaces them step by step when their template changes.',
  DeviceClass: 'A class of devices that claims can ask for.',
  DeviceTaintRule: 'Taints the devices that it selects, so that pods keep off or leave.',
  EndpointSlice: 'Addresses and ports of some of the endpoints of a service.',
  Endpoints: 'Addresses and ports behind a service. EndpointSlices have taken its place.',
  Event: 'Something that happened to an object. Kept for a limited time.',
  Eviction: 'Asks for a pod to be deleted if its disruption budget allows that.',
  FlowSchema: 'Sorts requests to the API server into flows, and says at which priority they are served.',
  HorizontalPodAutoscaler: 'Changes how many pods there are so that what is measured stays near what is wanted.',
  IPAddress: 'An address that belongs to one object, so that nothing else gets it.',
  Ingress: 'Leads requests from outside to services, by host and path.',
  IngressClass: 'Which controller takes care of the ingresses of a class.',
  Job: 'Runs pods until a number of them have succeeded.',
  Lease: 'Says who holds something, and until when: leaders and living nodes.',
  LeaseCandidate: 'A process that stands for election as the holder of a lease.',
  LimitRange: 'Least, largest and default resources of the pods, containers and claims of a namespace.',
  LocalSubjectAccessReview: 'Answers whether somebody may do something in one namespace.',
  MutatingAdmissionPolicy: 'Changes objects as they are written, by expressions.',
  MutatingAdmissionPolicyBinding: 'Puts a mutating policy into force, with its parameters.',
  MutatingWebhookConfiguration: 'Webhooks that may change objects as they are written.',
  Namespace: 'A scope for names, and for rules about what is in it.',
  NetworkPolicy: 'Which traffic the pods that it selects may receive and send.',
  Node: 'A machine of the cluster that runs pods.',
  PersistentVolume: 'Storage that lives on when the pods that use it are gone.',
  PersistentVolumeClaim: 'Asks for storage of a size and kind; bound to a volume that has it.',
  Pod: 'Containers that run together on one node and share its network address and volumes.',
  PodCertificateRequest: 'Asks for a certificate for a pod, on behalf of its node.',
  PodDisruptionBudget: 'How many pods of a group may be evicted at the same time.',
  PodGroup: 'Pods that are scheduled together.',
  PodTemplate: 'A template that pods can be made from.',
  PriorityClass: 'Names a priority of pods.',
  PriorityLevelConfiguration: 'How many requests of one priority the API server works on at a time, and how many wait.',
  ReplicaSet: 'Keeps a number of equal pods running.',
  ReplicationController: 'Keeps a number of equal pods running. ReplicaSets have taken its place.',
  ResourceClaim: 'Asks for devices; used by the pods that refer to it.',
  ResourceClaimTemplate: 'A template from which each pod gets a claim of its own.',
  ResourcePoolStatusRequest: 'Asks how many devices of which pools are free.',
  ResourceQuota: 'How much the objects of a namespace may use together.',
  ResourceSlice: 'Devices that a driver offers, of one node or of several.',
  Role: 'Rules of what may be done in one namespace.',
  RoleBinding: 'Grants a Role or ClusterRole to users, groups or service accounts in one namespace.',
  RuntimeClass: 'How the containers of a pod are run: the handler on the node, and what it costs.',
  Scale: 'How many replicas an object has and should have.',
  Secret: 'Confidential data for pods to read.',
  SelfSubjectAccessReview: 'Answers whether whoever asks may do something.',
  SelfSubjectReview: 'Answers who it is that asks.',
  SelfSubjectRulesReview: 'Lists what whoever asks may do in a namespace.',
  Service: 'One address and name for a changing set of pods.',
  ServiceAccount: 'An identity for the processes of pods.',
  ServiceCIDR: 'A range that the addresses of services are taken from.',
  StatefulSet: 'Runs pods that each keep a name and storage of their own.',
  Status: 'The outcome of a request that has no object to answer with.',
  StorageClass: 'How volumes of one kind are made when they are claimed.',
  StorageVersion: 'In which versions the API servers of the cluster store a resource.',
  StorageVersionMigration: 'Writes all objects of a resource again, so that they are stored in its present version.',
  SubjectAccessReview: 'Answers whether somebody may do something.',
  TokenRequest: 'Asks for a token of a service account.',
  TokenReview: 'Answers whose token something is.',
  ValidatingAdmissionPolicy: 'Refuses objects that do not satisfy its expressions.',
  ValidatingAdmissionPolicyBinding: 'Puts a validating policy into force, with its parameters.',
  ValidatingWebhookConfiguration: 'Webhooks that may refuse objects as they are written.',
  VolumeAttachment: 'Asks for a volume to be attached to a node, and says whether it is.',
  VolumeAttributesClass: 'Attributes of volumes that can be changed while they are used.',
  Workload: 'An application as the scheduler sees it: groups of pods and how they depend on each other.',
};

const members: Readonly<Record<string, string>> = {
  apiVersion: 'The group and version of the API that the object is written in.',
  kind: 'What the object is. Cannot be changed.',
  metadata: 'Name, labels, and what the server keeps of every object.',
  spec: 'What is wanted.',
  status: 'What is, as was last seen. Written by the system.',
};

/** Returns the description of a kind by the id of its definition, such as `apps/v1.Deployment`. */
export function describeKind(id: string): string | undefined {
  const kind = id.slice(id.lastIndexOf('.') + 1);
  return Object.hasOwn(kinds, kind) ? kinds[kind] : undefined;
}

/** Returns the description of a property that all kinds share. */
export function describeMember(name: string): string | undefined {
  return Object.hasOwn(members, name) ? members[name] : undefined;
}

/** Returns the description of a field of a definition, such as `replicas` of `apps/v1.DeploymentSpec`. */
export function describeField(id: string, name: string): string | undefined {
  const definition = id.slice(id.lastIndexOf('.') + 1);
  for (const table of [podFieldDescriptions, fieldDescriptions]) {
    const fields = Object.hasOwn(table, definition) ? table[definition] : undefined;
    if (fields !== undefined && Object.hasOwn(fields, name)) return fields[name];
  }
  return undefined;
}

/** Returns all descriptions as one text, from which the hash of the documents is computed. */
export function allDescriptions(): string {
  return JSON.stringify([kinds, members, podFieldDescriptions, fieldDescriptions]);
}
