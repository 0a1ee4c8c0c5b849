import { jsonEqual } from '@oarlock/api/json/json';
import type { Kind } from '@oarlock/api/kinds';
import { groupResource } from '@oarlock/api/resource';
import type { ServiceAllocator } from './service-allocator.ts';
import { certificateSigningRequests, events, nodes, persistentVolumeClaims, persistentVolumes, secrets, serviceAccounts } from './core.ts';
import { deviceTaintRules } from './device-taint-rules.ts';
import { customResourceDefinitions } from '../../custom-resources/definition/strategy.ts';
import { namespaces } from './namespaces.ts';
import { pods } from './pods.ts';
import { priorityClasses } from './priority-classes.ts';
import { resourceClaims } from './resource-claims.ts';
import { servicesStrategy } from './services.ts';
import { fieldOf, withFields, type Strategy } from '../strategy.ts';
import { daemonSets, deployments, jobs, podTemplates, replicaSets, replicationControllers, statefulSets } from './workloads.ts';

const generation: Strategy = { generation: true };
const requiresResourceVersion: Strategy = { allowUnconditionalUpdate: false };
const createsOnUpdate: Strategy = { allowCreateOnUpdate: true };
const returnsDeleted: Strategy = { returnsDeletedObject: true };

type StrategyTable = Readonly<Record<string, Strategy>>;

const coreStrategies = (allocator: ServiceAllocator): StrategyTable => ({
  pods,
  namespaces,
  nodes,
  secrets,
  events,
  services: servicesStrategy(allocator),
  serviceaccounts: serviceAccounts,
  persistentvolumes: persistentVolumes,
  persistentvolumeclaims: persistentVolumeClaims,
  replicationcontrollers: replicationControllers,
  podtemplates: podTemplates,
  endpoints: createsOnUpdate,
  limitranges: createsOnUpdate,
  resourcequotas: returnsDeleted,
});

const workloadStrategies: StrategyTable = {
  'deployments.apps': deployments,
  'replicasets.apps': replicaSets,
  'daemonsets.apps': daemonSets,
  'statefulsets.apps': statefulSets,
  'jobs.batch': jobs,
  'cronjobs.batch': generation,
};

const admissionStrategies: StrategyTable = {
  'mutatingwebhookconfigurations.admissionregistration.k8s.io': {
    generation: (object, old) => !jsonEqual(withoutMetadata(object), withoutMetadata(old)),
    allowUnconditionalUpdate: false,
  },
  'validatingwebhookconfigurations.admissionregistration.k8s.io': {
    generation: (object, old) => !jsonEqual(withoutMetadata(object), withoutMetadata(old)),
    allowUnconditionalUpdate: false,
  },
  'validatingadmissionpolicies.admissionregistration.k8s.io': { generation: true, allowUnconditionalUpdate: false },
  'validatingadmissionpolicybindings.admissionregistration.k8s.io': { generation: true, allowUnconditionalUpdate: false },
  'mutatingadmissionpolicies.admissionregistration.k8s.io': { generation: true, allowUnconditionalUpdate: false },
  'mutatingadmissionpolicybindings.admissionregistration.k8s.io': { generation: true, allowUnconditionalUpdate: false },
};

const groupStrategies: StrategyTable = {
  'certificatesigningrequests.certificates.k8s.io': certificateSigningRequests,
  'leases.coordination.k8s.io': { allowCreateOnUpdate: true, allowUnconditionalUpdate: false },
  'endpointslices.discovery.k8s.io': {
    // label changes count: consumers find the slices of a Service by label
    generation: (object, old) =>
      !jsonEqual(withoutMetadata(object), withoutMetadata(old)) || !jsonEqual(object.metadata?.labels ?? {}, old.metadata?.labels ?? {}),
  },
  'ingresses.networking.k8s.io': generation,
  'ingressclasses.networking.k8s.io': generation,
  'networkpolicies.networking.k8s.io': generation,
  'poddisruptionbudgets.policy': { generation: true, allowUnconditionalUpdate: false },
  'priorityclasses.scheduling.k8s.io': priorityClasses,
  'customresourcedefinitions.apiextensions.k8s.io': customResourceDefinitions,
  'apiservices.apiregistration.k8s.io': requiresResourceVersion,
  'flowschemas.flowcontrol.apiserver.k8s.io': generation,
  'prioritylevelconfigurations.flowcontrol.apiserver.k8s.io': generation,
  'deviceclasses.resource.k8s.io': { generation: true, returnsDeletedObject: true },
  'devicetaintrules.resource.k8s.io': deviceTaintRules,
  'resourceclaims.resource.k8s.io': resourceClaims,
  'resourceclaimtemplates.resource.k8s.io': returnsDeleted,
  'resourceslices.resource.k8s.io': {
    returnsDeletedObject: true,
    generation: true,
    fields: { 'spec.nodeName': specText('nodeName'), 'spec.driver': specText('driver') },
  },
  'runtimeclasses.node.k8s.io': requiresResourceVersion,
  'roles.rbac.authorization.k8s.io': createsOnUpdate,
  'rolebindings.rbac.authorization.k8s.io': createsOnUpdate,
  'clusterroles.rbac.authorization.k8s.io': createsOnUpdate,
  'clusterrolebindings.rbac.authorization.k8s.io': createsOnUpdate,
  'clustertrustbundles.certificates.k8s.io': { fields: { 'spec.signerName': specText('signerName') } },
  'podcertificaterequests.certificates.k8s.io': {
    fields: { 'spec.signerName': specText('signerName'), 'spec.podName': specText('podName'), 'spec.nodeName': specText('nodeName') },
  },
  'leasecandidates.coordination.k8s.io': { allowCreateOnUpdate: true, allowUnconditionalUpdate: false },
  'csidrivers.storage.k8s.io': { allowUnconditionalUpdate: false, returnsDeletedObject: true },
  'csinodes.storage.k8s.io': { allowUnconditionalUpdate: false, returnsDeletedObject: true },
  'csistoragecapacities.storage.k8s.io': { allowUnconditionalUpdate: false },
  'storageclasses.storage.k8s.io': returnsDeleted,
  'volumeattachments.storage.k8s.io': { allowUnconditionalUpdate: false, returnsDeletedObject: true },
  'volumeattributesclasses.storage.k8s.io': returnsDeleted,
};

/** Returns the strategies of kinds to which more than the generic rules apply, by `resource.group`. */
export function allStrategies(allocator: ServiceAllocator): ReadonlyMap<string, Strategy> {
  return new Map(Object.entries({ ...coreStrategies(allocator), ...workloadStrategies, ...admissionStrategies, ...groupStrategies }));
}

function specText(name: string) {
  return (object: Parameters<typeof fieldOf>[0]): string => {
    const value = (fieldOf(object, 'spec') as Readonly<Record<string, unknown>> | undefined)?.[name];
    return typeof value === 'string' ? value : '';
  };
}

/** Returns the object without metadata. */
const withoutMetadata = (object: Parameters<typeof withFields>[0]) =>
  withFields(object, { metadata: undefined, kind: undefined, apiVersion: undefined });

const defaultStrategy: Strategy = {};
export const strategyOf = (table: ReadonlyMap<string, Strategy>, kind: Kind): Strategy => table.get(groupResource(kind)) ?? defaultStrategy;
