import type { CertificateSigningRequest } from '@oarlock/api/types/certificates-v1';
import type { Lease } from '@oarlock/api/types/coordination-v1';
import type { ComponentStatus, ConfigMap, Event, Namespace, Node, ResourceQuota, Secret, ServiceAccount } from '@oarlock/api/types/core-v1';
import type { RuntimeClass } from '@oarlock/api/types/node-v1';
import type { ClusterRoleBinding, RoleBinding } from '@oarlock/api/types/rbac-v1';
import type { PriorityClass } from '@oarlock/api/types/scheduling-v1';
import type { KubeObject } from '@oarlock/api/object';
import { ageOf, createdAt, nameOf, none } from './cells.ts';
import { humanDuration, since } from './duration.ts';
import { columnsOf, type Printer } from './printer.ts';

/** What every kind has. */
export const defaultPrinter: Printer = { columns: columnsOf('Name', 'Age'), cells: (object, now) => [nameOf(object), ageOf(object, now)] };

export const createdAtPrinter: Printer = {
  columns: columnsOf('Name', { name: 'Created At', about: 'When the object was created.' }),
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
const nodeAddress = ({ status }: Node, wanted: string) => status?.addresses?.find(({ type }) => type === wanted)?.address ?? none;

export const nodePrinter: Printer<Node> = {
  columns: columnsOf(
    'Name',
    { name: 'Status', about: 'Whether the node is ready and takes pods.' },
    { name: 'Roles', about: 'Roles of the node.' },
    'Age',
    { name: 'Version', about: 'Version of its kubelet.' },
    { name: 'Internal-IP', wide: true, about: 'Its address in the cluster.' },
    { name: 'External-IP', wide: true, about: 'Its address outside.' },
    { name: 'OS-Image', wide: true, about: 'Its operating system.' },
    { name: 'Kernel-Version', wide: true, about: 'Version of its kernel.' },
    { name: 'Container-Runtime', wide: true, about: 'Runtime and version.' },
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
      info?.kernelVersion || '<unknown>',
      info?.containerRuntimeVersion || '<unknown>',
    ];
  },
};

export const namespacePrinter: Printer<Namespace> = {
  columns: columnsOf('Name', { name: 'Status', about: 'Active, or Terminating while it is emptied.' }, 'Age'),
  cells: (object, now) => [nameOf(object), object.status?.phase ?? '', ageOf(object, now)],
};

const size = (...parts: readonly (object | undefined)[]) => parts.reduce((sum, part) => sum + Object.keys(part ?? {}).length, 0);
export const configMapPrinter: Printer<ConfigMap> = {
  columns: columnsOf('Name', { name: 'Data', about: 'How many entries it has.' }, 'Age'),
  cells: (object, now) => [nameOf(object), size(object.data, object.binaryData), ageOf(object, now)],
};
export const secretPrinter: Printer<Secret> = {
  columns: columnsOf('Name', { name: 'Type', about: 'What it is for.' }, { name: 'Data', about: 'How many entries it has.' }, 'Age'),
  cells: (object, now) => [nameOf(object), object.type ?? '', size(object.data), ageOf(object, now)],
};
export const serviceAccountPrinter: Printer<ServiceAccount> = {
  columns: columnsOf('Name', { name: 'Secrets', about: 'How many secrets it names.' }, 'Age'),
  cells: (object, now) => [nameOf(object), object.secrets?.length ?? 0, ageOf(object, now)],
};
export const leasePrinter: Printer<Lease> = {
  columns: columnsOf('Name', { name: 'Holder', about: 'Who holds it.' }, 'Age'),
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
/** Events of both groups: the newer one calls the same things by other names. */
export const eventPrinter: Printer<AnyEvent> = {
  columns: columnsOf(
    { name: 'Last Seen', about: 'How long ago it happened last.' },
    { name: 'Type', about: 'Normal or Warning.' },
    { name: 'Reason', about: 'What happened, in one word.' },
    { name: 'Object', about: 'What it happened to.' },
    { name: 'Subobject', wide: true, about: 'The part of the object.' },
    { name: 'Source', wide: true, about: 'Who reports it.' },
    { name: 'Message', about: 'What happened.' },
    { name: 'First Seen', wide: true, about: 'How long ago it happened first.' },
    { name: 'Count', type: 'integer', wide: true, about: 'How often it happened.' },
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
    { name: 'Role', about: 'The role that is given.' },
    'Age',
    { name: 'Users', wide: true, about: 'Users who get it.' },
    { name: 'Groups', wide: true, about: 'Groups that get it.' },
    { name: 'ServiceAccounts', wide: true, about: 'Service accounts that get it.' },
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
    { name: 'Request', about: 'What is requested, of what may be.' },
    { name: 'Limit', about: 'What limits add up to, of what they may.' },
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
    { name: 'Value', type: 'integer', about: 'The priority.' },
    { name: 'Global-Default', about: 'Whether pods get it that name none.' },
    'Age',
    { name: 'PreemptionPolicy', about: 'Whether its pods may displace others.' },
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
  columns: columnsOf('Name', { name: 'Handler', about: 'The handler of the runtime.' }, 'Age'),
  cells: (object, now) => [nameOf(object), object.handler ?? '', ageOf(object, now)],
};

export const signingRequestPrinter: Printer<CertificateSigningRequest> = {
  columns: columnsOf(
    'Name',
    'Age',
    { name: 'SignerName', about: 'Who is to sign.' },
    { name: 'Requestor', about: 'Who asks.' },
    { name: 'RequestedDuration', about: 'How long it is to be valid.' },
    { name: 'Condition', about: 'What has become of it.' },
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
    { name: 'Status', about: 'Healthy, Unhealthy or Unknown.' },
    { name: 'Message', about: 'What it says.' },
    { name: 'Error', about: 'What is wrong.' },
  ),
  cells(object) {
    const condition = object.conditions?.find(({ type }) => type === 'Healthy');
    return [
      nameOf(object),
      condition?.status === 'True' ? 'Healthy' : condition?.status === 'False' ? 'Unhealthy' : 'Unknown',
      condition?.message ?? '',
      condition?.error ?? '',
    ];
  },
};
