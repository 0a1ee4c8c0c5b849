import { jsonEqual } from '@oarlock/api/json';
import type { Kind } from '@oarlock/api/kinds';
import { groupResource } from '@oarlock/api/resource';
import type { ServiceRanges } from '../service-ranges.ts';
import { certificateSigningRequests, events, nodes, persistentVolumeClaims, persistentVolumes, secrets, serviceAccounts } from './core.ts';
import { customResourceDefinitions } from './custom-resource-definitions.ts';
import { namespaces } from './namespaces.ts';
import { pods } from './pods.ts';
import { services } from './services.ts';
import { part, withParts, type Strategy } from './strategy.ts';
import { daemonSets, deployments, jobs, podTemplates, replicaSets, replicationControllers } from './workloads.ts';

const generation: Strategy = { generation: true };
const guarded: Strategy = { unconditionalUpdate: false };
const upsert: Strategy = { createOnUpdate: true };
const returned: Strategy = { returnsDeleted: true };

/** Rules of kinds that differ from the generic ones, by `groupResource`. */
export function strategies(ranges: ServiceRanges): ReadonlyMap<string, Strategy> {
  return new Map<string, Strategy>(
    Object.entries({
      pods,
      namespaces,
      nodes,
      secrets,
      events,
      services: services(ranges),
      serviceaccounts: serviceAccounts,
      persistentvolumes: persistentVolumes,
      persistentvolumeclaims: persistentVolumeClaims,
      replicationcontrollers: replicationControllers,
      podtemplates: podTemplates,
      endpoints: upsert,
      limitranges: upsert,
      resourcequotas: returned,
      'deployments.apps': deployments,
      'replicasets.apps': replicaSets,
      'daemonsets.apps': daemonSets,
      'statefulsets.apps': generation,
      'jobs.batch': jobs,
      'cronjobs.batch': generation,
      'certificatesigningrequests.certificates.k8s.io': certificateSigningRequests,
      'leases.coordination.k8s.io': { createOnUpdate: true, unconditionalUpdate: false },
      'endpointslices.discovery.k8s.io': {
        // labels count: consumers find the slices of a Service by them
        generation: (object, old) =>
          !jsonEqual(bare(object), bare(old)) || !jsonEqual(object.metadata?.labels ?? {}, old.metadata?.labels ?? {}),
      },
      'ingresses.networking.k8s.io': generation,
      'ingressclasses.networking.k8s.io': generation,
      'networkpolicies.networking.k8s.io': generation,
      'poddisruptionbudgets.policy': { generation: true, unconditionalUpdate: false },
      'priorityclasses.scheduling.k8s.io': generation,
      'customresourcedefinitions.apiextensions.k8s.io': customResourceDefinitions,
      'apiservices.apiregistration.k8s.io': guarded,
      'mutatingwebhookconfigurations.admissionregistration.k8s.io': {
        generation: (object, old) => !jsonEqual(bare(object), bare(old)),
        unconditionalUpdate: false,
      },
      'validatingwebhookconfigurations.admissionregistration.k8s.io': {
        generation: (object, old) => !jsonEqual(bare(object), bare(old)),
        unconditionalUpdate: false,
      },
      'validatingadmissionpolicies.admissionregistration.k8s.io': { generation: true, unconditionalUpdate: false },
      'validatingadmissionpolicybindings.admissionregistration.k8s.io': { generation: true, unconditionalUpdate: false },
      'mutatingadmissionpolicies.admissionregistration.k8s.io': { generation: true, unconditionalUpdate: false },
      'mutatingadmissionpolicybindings.admissionregistration.k8s.io': { generation: true, unconditionalUpdate: false },
      'flowschemas.flowcontrol.apiserver.k8s.io': generation,
      'prioritylevelconfigurations.flowcontrol.apiserver.k8s.io': generation,
      'deviceclasses.resource.k8s.io': generation,
      'resourceslices.resource.k8s.io': {
        generation: true,
        fields: { 'spec.nodeName': specText('nodeName'), 'spec.driver': specText('driver') },
      },
      'runtimeclasses.node.k8s.io': guarded,
      'roles.rbac.authorization.k8s.io': upsert,
      'rolebindings.rbac.authorization.k8s.io': upsert,
      'clusterroles.rbac.authorization.k8s.io': upsert,
      'clusterrolebindings.rbac.authorization.k8s.io': upsert,
      'clustertrustbundles.certificates.k8s.io': { fields: { 'spec.signerName': specText('signerName') } },
      'podcertificaterequests.certificates.k8s.io': {
        fields: { 'spec.signerName': specText('signerName'), 'spec.podName': specText('podName'), 'spec.nodeName': specText('nodeName') },
      },
      'leasecandidates.coordination.k8s.io': { createOnUpdate: true, unconditionalUpdate: false },
      'csidrivers.storage.k8s.io': { unconditionalUpdate: false, returnsDeleted: true },
      'csinodes.storage.k8s.io': { unconditionalUpdate: false, returnsDeleted: true },
      'csistoragecapacities.storage.k8s.io': { unconditionalUpdate: false, returnsDeleted: true },
      'storageclasses.storage.k8s.io': returned,
      'volumeattachments.storage.k8s.io': { unconditionalUpdate: false, returnsDeleted: true },
      'volumeattributesclasses.storage.k8s.io': returned,
    } satisfies Record<string, Strategy>),
  );
}

function specText(name: string) {
  return (object: Parameters<typeof part>[0]): string => {
    const value = (part(object, 'spec') as Readonly<Record<string, unknown>> | undefined)?.[name];
    return typeof value === 'string' ? value : '';
  };
}

/** Without metadata. */
const bare = (object: Parameters<typeof withParts>[0]) =>
  withParts(object, { metadata: undefined, kind: undefined, apiVersion: undefined });

const none: Strategy = {};
export const strategyOf = (table: ReadonlyMap<string, Strategy>, kind: Kind): Strategy => table.get(groupResource(kind)) ?? none;
