import type { KubeObject } from '@oarlock/api/object';
import { groupResource, type Resource } from '@oarlock/api/resource';
import {
  apiServicePrinter,
  flowSchemaPrinter,
  mutatingPolicyPrinter,
  policyBindingPrinter,
  priorityLevelPrinter,
  validatingPolicyPrinter,
  webhooksPrinter,
} from './admission.ts';
import {
  bindingPrinter,
  componentStatusPrinter,
  configMapPrinter,
  createdAtPrinter,
  defaultPrinter,
  eventPrinter,
  leaseCandidatePrinter,
  leasePrinter,
  namespacePrinter,
  nodePrinter,
  podCertificateRequestPrinter,
  priorityClassPrinter,
  quotaPrinter,
  runtimeClassPrinter,
  secretPrinter,
  signingRequestPrinter,
  trustBundlePrinter,
} from './cluster.ts';
import { deviceTaintRulePrinter, resourceClaimPrinter, resourceSlicePrinter } from './devices.ts';
import {
  endpointSlicePrinter,
  endpointsPrinter,
  ingressClassPrinter,
  ingressPrinter,
  ipAddressPrinter,
  networkPolicyPrinter,
  serviceCidrPrinter,
  servicePrinter,
} from './network.ts';
import { podPrinter } from './pods.ts';
import type { Printer } from './printer.ts';
import {
  claimPrinter,
  csiDriverPrinter,
  csiNodePrinter,
  storageCapacityPrinter,
  storageClassPrinter,
  storageVersionMigrationPrinter,
  storageVersionPrinter,
  volumeAttachmentPrinter,
  volumeAttributesClassPrinter,
  volumePrinter,
} from './storage.ts';
import {
  autoscalerPrinter,
  controllerRevisionPrinter,
  cronJobPrinter,
  daemonSetPrinter,
  deploymentPrinter,
  disruptionBudgetPrinter,
  jobPrinter,
  podTemplatePrinter,
  replicaSetPrinter,
  replicationControllerPrinter,
  statefulSetPrinter,
} from './workloads.ts';

/** Returns a printer without its object type. The caller must pass only objects of the printer's resource. */
const of = <T extends KubeObject>(printer: Printer<T>): Printer => printer as unknown as Printer;

const printers: Readonly<Record<string, Printer>> = {
  pods: of(podPrinter),
  podtemplates: of(podTemplatePrinter),
  replicationcontrollers: of(replicationControllerPrinter),
  services: of(servicePrinter),
  endpoints: of(endpointsPrinter),
  nodes: of(nodePrinter),
  namespaces: of(namespacePrinter),
  configmaps: of(configMapPrinter),
  secrets: of(secretPrinter),
  events: of(eventPrinter),
  'events.events.k8s.io': of(eventPrinter),
  persistentvolumes: of(volumePrinter),
  persistentvolumeclaims: of(claimPrinter),
  resourcequotas: of(quotaPrinter),
  limitranges: createdAtPrinter,
  componentstatuses: of(componentStatusPrinter),
  'deployments.apps': of(deploymentPrinter),
  'replicasets.apps': of(replicaSetPrinter),
  'daemonsets.apps': of(daemonSetPrinter),
  'statefulsets.apps': of(statefulSetPrinter),
  'controllerrevisions.apps': of(controllerRevisionPrinter),
  'jobs.batch': of(jobPrinter),
  'cronjobs.batch': of(cronJobPrinter),
  'poddisruptionbudgets.policy': of(disruptionBudgetPrinter),
  'horizontalpodautoscalers.autoscaling': of(autoscalerPrinter),
  'leases.coordination.k8s.io': of(leasePrinter),
  'leasecandidates.coordination.k8s.io': of(leaseCandidatePrinter),
  'clustertrustbundles.certificates.k8s.io': of(trustBundlePrinter),
  'podcertificaterequests.certificates.k8s.io': of(podCertificateRequestPrinter),
  'endpointslices.discovery.k8s.io': of(endpointSlicePrinter),
  'ingresses.networking.k8s.io': of(ingressPrinter),
  'ingressclasses.networking.k8s.io': of(ingressClassPrinter),
  'networkpolicies.networking.k8s.io': of(networkPolicyPrinter),
  'ipaddresses.networking.k8s.io': of(ipAddressPrinter),
  'servicecidrs.networking.k8s.io': of(serviceCidrPrinter),
  'storageclasses.storage.k8s.io': of(storageClassPrinter),
  'volumeattachments.storage.k8s.io': of(volumeAttachmentPrinter),
  'volumeattributesclasses.storage.k8s.io': of(volumeAttributesClassPrinter),
  'csidrivers.storage.k8s.io': of(csiDriverPrinter),
  'csinodes.storage.k8s.io': of(csiNodePrinter),
  'customresourcedefinitions.apiextensions.k8s.io': createdAtPrinter,
  'storageversionmigrations.storagemigration.k8s.io': of(storageVersionMigrationPrinter),
  'csistoragecapacities.storage.k8s.io': of(storageCapacityPrinter),
  'resourceclaims.resource.k8s.io': of(resourceClaimPrinter),
  'resourceslices.resource.k8s.io': of(resourceSlicePrinter),
  'devicetaintrules.resource.k8s.io': of(deviceTaintRulePrinter),
  'storageversions.internal.apiserver.k8s.io': of(storageVersionPrinter),
  'roles.rbac.authorization.k8s.io': createdAtPrinter,
  'clusterroles.rbac.authorization.k8s.io': createdAtPrinter,
  'rolebindings.rbac.authorization.k8s.io': of(bindingPrinter),
  'clusterrolebindings.rbac.authorization.k8s.io': of(bindingPrinter),
  'priorityclasses.scheduling.k8s.io': of(priorityClassPrinter),
  'runtimeclasses.node.k8s.io': of(runtimeClassPrinter),
  'certificatesigningrequests.certificates.k8s.io': of(signingRequestPrinter),
  'mutatingwebhookconfigurations.admissionregistration.k8s.io': of(webhooksPrinter),
  'validatingwebhookconfigurations.admissionregistration.k8s.io': of(webhooksPrinter),
  'validatingadmissionpolicies.admissionregistration.k8s.io': of(validatingPolicyPrinter),
  'mutatingadmissionpolicies.admissionregistration.k8s.io': of(mutatingPolicyPrinter),
  'validatingadmissionpolicybindings.admissionregistration.k8s.io': of(policyBindingPrinter),
  'mutatingadmissionpolicybindings.admissionregistration.k8s.io': of(policyBindingPrinter),
  'apiservices.apiregistration.k8s.io': of(apiServicePrinter),
  'flowschemas.flowcontrol.apiserver.k8s.io': of(flowSchemaPrinter),
  'prioritylevelconfigurations.flowcontrol.apiserver.k8s.io': of(priorityLevelPrinter),
};
const byName = new Map(Object.entries(printers));

const custom = new WeakMap<Resource, () => Printer>();

/** Registers the printer of a custom resource, identified by the resource object, which is the same for all requests. */
export function registerPrinter(resource: Resource, printer: () => Printer): void {
  custom.set(resource, printer);
}

/** Returns the printer of a resource; by default the printer of name and age. */
export function printerFor(resource: Resource): Printer {
  return custom.get(resource)?.() ?? byName.get(groupResource(resource)) ?? defaultPrinter;
}
