import type { CertificateSigningRequest } from '@oarlock/api/types/certificates-v1';
import type { ClusterTrustBundle, PodCertificateRequest } from '@oarlock/api/types/certificates-v1beta1';
import type { Lease } from '@oarlock/api/types/coordination-v1';
import type { LeaseCandidate } from '@oarlock/api/types/coordination-v1beta1';
import type { ComponentStatus, ConfigMap, Event, Namespace, Node, NodeSystemInfo, ResourceQuota, Secret } from '@oarlock/api/types/core-v1';
import type { RuntimeClass } from '@oarlock/api/types/node-v1';
import type { ClusterRoleBinding, RoleBinding } from '@oarlock/api/types/rbac-v1';
import type { PriorityClass } from '@oarlock/api/types/scheduling-v1';
import type { KubeObject } from '@oarlock/api/object';
import { ageOf, createdAt, nameOf, none } from './cells.ts';
import { humanDuration, since } from './duration.ts';
import { columnsOf, type Printer } from './printer.ts';

/** Prints the columns that every kind has: name and age. */
export const defaultPrinter: Printer = { columns: columnsOf('Name', 'Age'), cells: (object, now) => [nameOf(object), ageOf(object, now)] };

export const createdAtPrinter: Printer = {
  columns: columnsOf('Name', { name: 'Created At', type: 'date', description: 'When the object was created.' }),
  cells: (object: KubeObject) => [nameOf(object), createdAt(object)],
};

const rolePrefix = 'node-role.kubernetes.io/';
function nodeRoles({ metadata }: Node): string {
  const roles = new Set<string>();
  for (const [key, value] of Object.entries(metadata?.labels ?? {})) {
    if (key.startsWith(rolePrefix) && key.length > rolePrefix.length) roles.add(key.slice(rolePrefix.length));
    else if (key === 'kubernetes.io/role' && value !== '') roles.add(value);
  }
  return [...roles].sort().join(',') || none;
}
function nodeStatus({ spec, status }: Node): string {
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  const word = ready === undefined ? 'Unknown' : ready.status === 'True' ? 'Ready' : 'NotReady';
  return spec?.unschedulable === true ? `${word},SchedulingDisabled` : word;
}
/** Returns the version of the kernel with its architecture, as Kubernetes prints both in one column since 1.36. */
function kernelOf({ kernelVersion, architecture }: Partial<NodeSystemInfo> = {}): string {
  if (!kernelVersion) return '<unknown>';
  return architecture ? `${kernelVersion} (${architecture})` : kernelVersion;
}
const nodeAddress = ({ status }: Node, wanted: string) => status?.addresses?.find(({ type }) => type === wanted)?.address ?? none;

export const nodePrinter: Printer<Node> = {
  columns: columnsOf(
    'Name',
    { name: 'Status', description: 'The readiness and schedulability of the node.' },
    { name: 'Roles', description: 'The roles of the node.' },
    'Age',
    { name: 'Version', description: 'The kubelet version of the node.' },
    { name: 'Internal-IP', wide: true, description: 'The internal IP address of the node.' },
    { name: 'External-IP', wide: true, description: 'The external IP address of the node.' },
    { name: 'OS-Image', wide: true, description: 'The operating system image of the node.' },
    { name: 'Kernel-Version', wide: true, description: 'The kernel version and the architecture of the node.' },
    { name: 'Container-Runtime', wide: true, description: 'The container runtime and its version.' },
  ),
  cells(node, now) {
    const info = node.status?.nodeInfo;
    return [
      nameOf(node),
      nodeStatus(node),
      nodeRoles(node),
      ageOf(node, now),
      info?.kubeletVersion ?? '',
      nodeAddress(node, 'InternalIP'),
      nodeAddress(node, 'ExternalIP'),
      info?.osImage || '<unknown>',
      kernelOf(info),
      info?.containerRuntimeVersion || '<unknown>',
    ];
  },
};

export const namespacePrinter: Printer<Namespace> = {
  columns: columnsOf('Name', { name: 'Status', description: 'The phase of the namespace: Active or Terminating.' }, 'Age'),
  cells: (object, now) => [nameOf(object), object.status?.phase ?? '', ageOf(object, now)],
};

const size = (...parts: readonly (object | undefined)[]) => parts.reduce((sum, part) => sum + Object.keys(part ?? {}).length, 0);
export const configMapPrinter: Printer<ConfigMap> = {
  columns: columnsOf('Name', { name: 'Data', description: 'The number of entries.' }, 'Age'),
  cells: (object, now) => [nameOf(object), size(object.data, object.binaryData), ageOf(object, now)],
};
export const secretPrinter: Printer<Secret> = {
  columns: columnsOf(
    'Name',
    { name: 'Type', description: 'The type of the secret.' },
    { name: 'Data', description: 'The number of entries.' },
    'Age',
  ),
  cells: (object, now) => [nameOf(object), object.type ?? '', size(object.data), ageOf(object, now)],
};
export const leaseCandidatePrinter: Printer<LeaseCandidate> = {
  columns: columnsOf(
    'Name',
    { name: 'LeaseName', description: 'The lease that the candidate can hold.' },
    { name: 'BinaryVersion', description: 'The version of the program.' },
    { name: 'EmulationVersion', description: 'The version that the program emulates.' },
    'Age',
  ),
  cells: (object, now) => [
    nameOf(object),
    object.spec?.leaseName ?? '',
    object.spec?.binaryVersion ?? '',
    object.spec?.emulationVersion ?? '',
    ageOf(object, now),
  ],
};
export const trustBundlePrinter: Printer<ClusterTrustBundle> = {
  columns: columnsOf('Name', { name: 'SignerName', description: 'The signer whose certificates the bundle verifies.' }),
  cells: (object) => [nameOf(object), object.spec?.signerName || none],
};
const certificateStates: ReadonlySet<string> = new Set(['Issued', 'Denied', 'Failed']);
export const podCertificateRequestPrinter: Printer<PodCertificateRequest> = {
  columns: columnsOf(
    'Name',
    { name: 'PodName', description: 'The pod that the certificate is for.' },
    { name: 'ServiceAccountName', description: 'The service account of the pod.' },
    { name: 'NodeName', description: 'The node of the pod.' },
    { name: 'SignerName', description: 'The signer of the certificate.' },
    { name: 'State', description: 'Pending, Issued, Denied or Failed.' },
  ),
  cells(object) {
    const spec: Partial<PodCertificateRequest['spec']> = object.spec ?? {};
    const { podName = '', serviceAccountName = '', nodeName = '', signerName = '' } = spec;
    const state = object.status?.conditions?.findLast(({ type }) => certificateStates.has(type))?.type ?? 'Pending';
    return [nameOf(object), podName, serviceAccountName, nodeName, signerName, state];
  },
};
export const leasePrinter: Printer<Lease> = {
  columns: columnsOf('Name', { name: 'Holder', description: 'The identity that holds the lease.' }, 'Age'),
  cells: (object, now) => [nameOf(object), object.spec?.holderIdentity ?? '', ageOf(object, now)],
};

interface AnyEvent extends Omit<Event, 'involvedObject'> {
  readonly involvedObject?: Event['involvedObject'];
  readonly regarding?: Event['involvedObject'];
  readonly note?: string;
  readonly reportingController?: string;
  readonly deprecatedSource?: Event['source'];
  readonly deprecatedFirstTimestamp?: string;
  readonly deprecatedLastTimestamp?: string;
  readonly deprecatedCount?: number;
}
/** Prints Events of core/v1 and of events.k8s.io, which have different names for the same fields. */
export const eventPrinter: Printer<AnyEvent> = {
  columns: columnsOf(
    { name: 'Last Seen', description: 'The time since the last occurrence.' },
    { name: 'Type', description: 'Normal or Warning.' },
    { name: 'Reason', description: 'The reason of the event.' },
    { name: 'Object', description: 'The object of the event.' },
    { name: 'Subobject', wide: true, description: 'The part of the object.' },
    { name: 'Source', wide: true, description: 'The component that reported the event.' },
    { name: 'Message', description: 'The message of the event.' },
    { name: 'First Seen', wide: true, description: 'The time since the first occurrence.' },
    { name: 'Count', wide: true, description: 'The number of occurrences.' },
    { name: 'Name', wide: true },
  ),
  cells(event, now) {
    const about = event.involvedObject ?? event.regarding ?? {};
    const source = event.source ?? event.deprecatedSource ?? {};
    const first = since(event.firstTimestamp || event.deprecatedFirstTimestamp || event.eventTime, now);
    const last = event.series
      ? since(event.series.lastObservedTime, now)
      : event.lastTimestamp || event.deprecatedLastTimestamp
        ? since(event.lastTimestamp || event.deprecatedLastTimestamp, now)
        : first;
    const component = source.component || event.reportingComponent || event.reportingController || '';
    const instance = source.host || event.reportingInstance || '';
    const kind = (about.kind ?? '').toLowerCase();
    return [
      last,
      event.type ?? '',
      event.reason ?? '',
      about.name ? `${kind}/${about.name}` : kind,
      about.fieldPath ?? '',
      instance === '' ? component : `${component}, ${instance}`,
      (event.message ?? event.note ?? '').trim(),
      first,
      event.series?.count ?? (event.count || event.deprecatedCount || 1),
      nameOf(event),
    ];
  },
};

export const bindingPrinter: Printer<RoleBinding | ClusterRoleBinding> = {
  columns: columnsOf(
    'Name',
    { name: 'Role', description: 'The role that the binding grants.' },
    'Age',
    { name: 'Users', wide: true, description: 'The users that the binding grants the role to.' },
    { name: 'Groups', wide: true, description: 'The groups that the binding grants the role to.' },
    { name: 'ServiceAccounts', wide: true, description: 'The service accounts that the binding grants the role to.' },
  ),
  cells(object, now) {
    const named = (kind: string) =>
      (object.subjects ?? [])
        .filter((subject) => subject.kind === kind)
        .map(({ namespace, name }) => (kind === 'ServiceAccount' ? `${namespace ?? ''}/${name}` : name))
        .join(', ');
    return [
      nameOf(object),
      `${object.roleRef?.kind ?? ''}/${object.roleRef?.name ?? ''}`,
      ageOf(object, now),
      named('User'),
      named('Group'),
      named('ServiceAccount'),
    ];
  },
};

export const quotaPrinter: Printer<ResourceQuota> = {
  columns: columnsOf(
    'Name',
    { name: 'Request', description: 'The used and the allowed requests.' },
    { name: 'Limit', description: 'The used and the allowed limits.' },
    'Age',
  ),
  cells(object, now) {
    const { hard = {}, used = {} } = object.status ?? {};
    const texts = (limits: boolean) =>
      Object.keys(hard)
        .filter((key) => key.startsWith('limits.') === limits)
        .sort()
        .map((key) => `${key}: ${used[key] ?? '0'}/${hard[key] ?? '0'}`)
        .join(', ');
    return [nameOf(object), texts(false), texts(true), ageOf(object, now)];
  },
};

export const priorityClassPrinter: Printer<PriorityClass> = {
  columns: columnsOf(
    'Name',
    { name: 'Value', type: 'integer', description: 'The priority value.' },
    { name: 'Global-Default', type: 'boolean', description: 'True if pods without a priority class get this one.' },
    'Age',
    { name: 'PreemptionPolicy', description: 'Whether pods of this priority preempt pods of lower priority.' },
  ),
  cells: (object, now) => [
    nameOf(object),
    object.value ?? 0,
    object.globalDefault ?? false,
    ageOf(object, now),
    object.preemptionPolicy ?? '',
  ],
};

export const runtimeClassPrinter: Printer<RuntimeClass> = {
  columns: columnsOf('Name', { name: 'Handler', description: 'The handler of the container runtime.' }, 'Age'),
  cells: (object, now) => [nameOf(object), object.handler ?? '', ageOf(object, now)],
};

export const signingRequestPrinter: Printer<CertificateSigningRequest> = {
  columns: columnsOf(
    'Name',
    'Age',
    { name: 'SignerName', description: 'The signer of the certificate.' },
    { name: 'Requestor', description: 'The user that created the request.' },
    { name: 'RequestedDuration', description: 'The requested validity of the certificate.' },
    { name: 'Condition', description: 'The state of the request.' },
  ),
  cells(object, now) {
    const { spec, status } = object;
    const has = (type: string) => status?.conditions?.some((condition) => condition.type === type) ?? false;
    const words = [
      has('Denied') ? 'Denied' : has('Approved') ? 'Approved' : 'Pending',
      ...(has('Failed') ? ['Failed'] : []),
      ...(status?.certificate ? ['Issued'] : []),
    ];
    return [
      nameOf(object),
      ageOf(object, now),
      spec?.signerName || none,
      spec?.username ?? '',
      spec?.expirationSeconds === undefined ? none : humanDuration(spec.expirationSeconds * 1000),
      words.join(','),
    ];
  },
};

export const componentStatusPrinter: Printer<ComponentStatus> = {
  columns: columnsOf(
    'Name',
    { name: 'Status', description: 'Healthy, Unhealthy or Unknown.' },
    { name: 'Message', description: 'The message of the health check.' },
    { name: 'Error', description: 'The error of the health check.' },
  ),
  cells(object) {
    const condition = object.conditions?.find(({ type }) => type === 'Healthy');
    return [
      nameOf(object),
      condition === undefined ? 'Unknown' : condition.status === 'True' ? 'Healthy' : 'Unhealthy',
      condition?.message ?? '',
      condition?.error ?? '',
    ];
  },
};
