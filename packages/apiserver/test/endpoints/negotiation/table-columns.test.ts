import { kinds } from '@oarlock/api/kinds';
import { groupResource, resource } from '@oarlock/api/resource';
import { describe, expect, it } from 'vitest';
import { printerFor } from '../../../src/endpoints/negotiation/table/printers.ts';
import { scalePrinter } from '../../../src/endpoints/negotiation/table/workloads.ts';
import type { TableColumn } from '../../../src/endpoints/negotiation/table/printer.ts';

/**
 * The columns of Kubernetes' printers. `*` marks priority 1, `:integer` and the like a type other than string, `@name` the format `name`. The format
 * of the column Name is `name` unless the entry begins with `Name@`.
 */
const upstream: Readonly<Record<string, string>> = {
  pods: 'Name Ready Status Restarts Age IP* Node* Nominated_Node* Readiness_Gates*',
  podtemplates: 'Name Containers Images Pod_Labels',
  'poddisruptionbudgets.policy': 'Name Min_Available Max_Unavailable Allowed_Disruptions:integer Age',
  replicationcontrollers: 'Name Desired:integer Current:integer Ready:integer Age Containers* Images* Selector*',
  'replicasets.apps': 'Name Desired:integer Current:integer Ready:integer Age Containers* Images* Selector*',
  'daemonsets.apps':
    'Name Desired:integer Current:integer Ready:integer Up-to-date:integer Available:integer Node_Selector Age Containers* Images* Selector*',
  'jobs.batch': 'Name Status Completions Duration Age Containers* Images* Selector*',
  'cronjobs.batch': 'Name Schedule Timezone Suspend:boolean Active:integer Last_Schedule Age Containers* Images* Selector*',
  services: 'Name Type Cluster-IP External-IP Port(s) Age Selector*',
  'ingresses.networking.k8s.io': 'Name Class Hosts Address Ports Age',
  'ingressclasses.networking.k8s.io': 'Name Controller Parameters Age',
  'statefulsets.apps': 'Name Ready Age Containers* Images*',
  endpoints: 'Name Endpoints Age',
  nodes: 'Name Status Roles Age Version Internal-IP* External-IP* OS-Image* Kernel-Version* Container-Runtime*',
  events: 'Last_Seen Type Reason Object Subobject* Source* Message First_Seen* Count* Name*',
  'events.events.k8s.io': 'Last_Seen Type Reason Object Subobject* Source* Message First_Seen* Count* Name*',
  namespaces: 'Name Status Age',
  secrets: 'Name Type Data Age',
  serviceaccounts: 'Name Age',
  persistentvolumes: 'Name Capacity Access_Modes Reclaim_Policy Status Claim StorageClass VolumeAttributesClass Reason Age VolumeMode*',
  persistentvolumeclaims: 'Name Status Volume Capacity Access_Modes StorageClass VolumeAttributesClass Age VolumeMode*',
  componentstatuses: 'Name Status Message Error',
  'deployments.apps': 'Name Ready Up-to-date Available Age Containers* Images* Selector*',
  'horizontalpodautoscalers.autoscaling': 'Name Reference Targets MinPods MaxPods Replicas Age',
  configmaps: 'Name Data Age',
  'networkpolicies.networking.k8s.io': 'Name Pod-Selector Age',
  'rolebindings.rbac.authorization.k8s.io': 'Name Role Age Users* Groups* ServiceAccounts*',
  'clusterrolebindings.rbac.authorization.k8s.io': 'Name Role Age Users* Groups* ServiceAccounts*',
  'certificatesigningrequests.certificates.k8s.io': 'Name Age SignerName Requestor RequestedDuration Condition',
  'clustertrustbundles.certificates.k8s.io': 'Name SignerName',
  'podcertificaterequests.certificates.k8s.io': 'Name PodName ServiceAccountName NodeName SignerName State',
  'leases.coordination.k8s.io': 'Name Holder Age',
  'leasecandidates.coordination.k8s.io': 'Name LeaseName BinaryVersion EmulationVersion Age',
  'storageclasses.storage.k8s.io': 'Name Provisioner ReclaimPolicy VolumeBindingMode AllowVolumeExpansion Age',
  'volumeattributesclasses.storage.k8s.io': 'Name DriverName Age',
  'controllerrevisions.apps': 'Name Controller Revision Age',
  resourcequotas: 'Name Request Limit Age',
  'priorityclasses.scheduling.k8s.io': 'Name Value:integer Global-Default:boolean Age PreemptionPolicy',
  'runtimeclasses.node.k8s.io': 'Name Handler Age',
  'volumeattachments.storage.k8s.io': 'Name Attacher@name PV Node Attached:boolean Age',
  'endpointslices.discovery.k8s.io': 'Name AddressType Ports Endpoints Age',
  'csinodes.storage.k8s.io': 'Name Drivers:integer Age',
  'csidrivers.storage.k8s.io':
    'Name AttachRequired:boolean PodInfoOnMount:boolean StorageCapacity:boolean TokenRequests RequiresRepublish:boolean Modes Age',
  'csistoragecapacities.storage.k8s.io': 'Name StorageClassName Capacity',
  'mutatingwebhookconfigurations.admissionregistration.k8s.io': 'Name Webhooks:integer Age',
  'validatingwebhookconfigurations.admissionregistration.k8s.io': 'Name Webhooks:integer Age',
  'validatingadmissionpolicies.admissionregistration.k8s.io': 'Name Validations:integer ParamKind Age',
  'validatingadmissionpolicybindings.admissionregistration.k8s.io': 'Name PolicyName ParamRef Age',
  'mutatingadmissionpolicies.admissionregistration.k8s.io': 'Name Mutations:integer ParamKind Age',
  'mutatingadmissionpolicybindings.admissionregistration.k8s.io': 'Name PolicyName ParamRef Age',
  'flowschemas.flowcontrol.apiserver.k8s.io': 'Name PriorityLevel MatchingPrecedence DistinguisherMethod Age MissingPL',
  'prioritylevelconfigurations.flowcontrol.apiserver.k8s.io': 'Name Type NominalConcurrencyShares Queues HandSize QueueLengthLimit Age',
  'deviceclasses.resource.k8s.io': 'Name Age',
  'resourceclaims.resource.k8s.io': 'Name State Age',
  'resourceclaimtemplates.resource.k8s.io': 'Name Age',
  'resourceslices.resource.k8s.io': 'Name Node Driver Pool Age',
  'devicetaintrules.resource.k8s.io': 'Name Key Value Effect TimeAdded Age',
  'storageversions.internal.apiserver.k8s.io': 'Name CommonEncodingVersion StorageVersions Age',
  'servicecidrs.networking.k8s.io': 'Name CIDRs Age',
  'ipaddresses.networking.k8s.io': 'Name ParentRef',
  'storageversionmigrations.storagemigration.k8s.io': 'Name@ Resource',
  'apiservices.apiregistration.k8s.io': 'Name Service Available Age',
  // kinds without a printer
  limitranges: 'Name Created_At:date',
  'roles.rbac.authorization.k8s.io': 'Name Created_At:date',
  'clusterroles.rbac.authorization.k8s.io': 'Name Created_At:date',
  'customresourcedefinitions.apiextensions.k8s.io': 'Name Created_At:date',
};
/** Kinds that are served only on request, whose columns are not compared. */
const notCompared = ['podgroups.scheduling.k8s.io', 'resourcepoolstatusrequests.resource.k8s.io', 'workloads.scheduling.k8s.io'];

function textOf({ name, type, format, priority }: TableColumn): string {
  const formatText = name === 'Name' ? (format === 'name' ? '' : '@') : format === '' ? '' : `@${format}`;
  return `${name.replaceAll(' ', '_')}${formatText}${type === 'string' ? '' : `:${type}`}${priority === 1 ? '*' : ''}`;
}
const columnsText = (columns: readonly TableColumn[]) => columns.map(textOf).join(' ');

describe('table columns', () => {
  const listable = kinds.filter(({ verbs }) => verbs.includes('list'));
  const names = [...new Set(listable.map(({ group, resource: name }) => groupResource({ group, resource: name })))];

  it.each(Object.entries(upstream))('of %s have the name, type, format and priority of upstream', (name, expected) => {
    const [plural = '', ...group] = name.split('.');
    const { columns } = printerFor(resource(group.join('.'), 'v1', plural, 'Any', true));
    expect(columnsText(columns)).toBe(expected);
    for (const { name: column, description } of columns) expect(description, column).not.toBe(column);
  });

  it('are compared for all built-in kinds', () => {
    const compared = names.filter((name) => Object.hasOwn(upstream, name));
    const missing = names.filter((name) => !Object.hasOwn(upstream, name) && !notCompared.includes(name));
    console.log(
      `table columns: ${compared.length} of ${names.length} built-in kinds equal upstream's; not compared: ${names.filter((name) => !compared.includes(name)).join(', ')}`,
    );
    expect(missing).toEqual([]);
  });

  it('of a Scale have no format', () => {
    expect(columnsText(scalePrinter.columns)).toBe('Name@ Desired:integer Available:integer Age');
  });
});

describe('table cells', () => {
  const created = '2026-06-01T11:00:00Z';
  const now = Date.parse('2026-06-01T12:00:00Z');
  const cells = (name: string, object: object) => {
    const [plural = '', ...group] = name.split('.');
    const { cells: print } = printerFor(resource(group.join('.'), 'v1', plural, 'Any', true));
    return print({ metadata: { name: 'a', creationTimestamp: created }, ...object } as never, now);
  };
  const request = { podName: 'p', serviceAccountName: 's', nodeName: 'n', signerName: 'example.com/s' };
  const versions = ['x', 'y', 'z', 'w'].map((id) => ({ apiServerID: id, encodingVersion: 'v1' }));

  it.each<readonly [string, object, readonly unknown[]]>([
    [
      'devicetaintrules.resource.k8s.io',
      { spec: { taint: { key: 'k', value: 'v', effect: 'NoExecute', timeAdded: created } } },
      ['a', 'k', 'v', 'NoExecute', '60m', '60m'],
    ],
    ['devicetaintrules.resource.k8s.io', { spec: { taint: { key: 'k', effect: 'NoSchedule' } } }, ['a', 'k', '', 'NoSchedule', '', '60m']],
    ['podcertificaterequests.certificates.k8s.io', { spec: request }, ['a', 'p', 's', 'n', 'example.com/s', 'Pending']],
    [
      'podcertificaterequests.certificates.k8s.io',
      {
        spec: request,
        status: {
          conditions: [
            { type: 'Other', status: 'True' },
            { type: 'Issued', status: 'True' },
          ],
        },
      },
      ['a', 'p', 's', 'n', 'example.com/s', 'Issued'],
    ],
    ['storageversions.internal.apiserver.k8s.io', {}, ['a', '<unset>', '<unset>', '60m']],
    [
      'storageversions.internal.apiserver.k8s.io',
      { status: { commonEncodingVersion: 'v1', storageVersions: versions } },
      ['a', 'v1', 'x=v1,y=v1,z=v1 + 1 more...', '60m'],
    ],
    ['resourceclaimtemplates.resource.k8s.io', { spec: { spec: {} } }, ['a', '60m']],
    ['deviceclasses.resource.k8s.io', { spec: {} }, ['a', '60m']],
    ['resourceclaims.resource.k8s.io', { spec: {} }, ['a', 'pending', '60m']],
    ['resourceclaims.resource.k8s.io', { status: { allocation: {}, reservedFor: [{}] } }, ['a', 'allocated,reserved', '60m']],
    ['resourceslices.resource.k8s.io', { spec: { driver: 'd', pool: { name: 'p' } } }, ['a', '', 'd', 'p', '60m']],
    ['componentstatuses', { conditions: [{ type: 'Healthy', status: 'Unknown', message: 'm' }] }, ['a', 'Unhealthy', 'm', '']],
  ])('of %s %j', (name, object, expected) => {
    expect(cells(name, object)).toEqual(expected);
  });

  it('mark the default storage class by the annotation of either version', () => {
    const [name] = cells('storageclasses.storage.k8s.io', {
      metadata: { name: 'a', annotations: { 'storageclass.beta.kubernetes.io/is-default-class': 'true' } },
    });
    expect(name).toBe('a (default)');
  });
});
