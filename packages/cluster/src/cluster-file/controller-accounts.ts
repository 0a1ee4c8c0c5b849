/** Service accounts in kube-system as which kube-controller-manager runs its controllers, keyed by the id of Oarlock's plugin for the controller. */
const serviceAccounts: Readonly<Record<string, string>> = {
  'controller-attach-detach': 'attachdetach-controller',
  'controller-bootstrap-signer': 'bootstrap-signer',
  'controller-cloud-node': 'cloud-node-controller',
  'controller-cluster-role-aggregation': 'clusterrole-aggregation-controller',
  'controller-cron-job': 'cronjob-controller',
  'controller-csr-approving': 'certificate-controller',
  'controller-csr-cleaner': 'certificate-controller',
  'controller-csr-signing': 'certificate-controller',
  'controller-daemon-set': 'daemon-set-controller',
  'controller-deployment': 'deployment-controller',
  'controller-device-taint-eviction': 'device-taint-eviction-controller',
  'controller-disruption': 'disruption-controller',
  'controller-endpoint-slice': 'endpointslice-controller',
  'controller-endpoint-slice-mirroring': 'endpointslicemirroring-controller',
  'controller-endpoints': 'endpoint-controller',
  'controller-ephemeral-volume': 'ephemeral-volume-controller',
  'controller-garbage-collector': 'generic-garbage-collector',
  'controller-horizontal-pod-autoscaler': 'horizontal-pod-autoscaler',
  'controller-ip-blocks': 'ip-blocks-controller',
  'controller-job': 'job-controller',
  'controller-legacy-token-cleaner': 'legacy-service-account-token-cleaner',
  'controller-namespace': 'namespace-controller',
  'controller-node-ipam': 'node-controller',
  'controller-node-lifecycle': 'node-controller',
  'controller-persistent-volume': 'persistent-volume-binder',
  'controller-pod-gc': 'pod-garbage-collector',
  'controller-pv-protection': 'pv-protection-controller',
  'controller-pvc-protection': 'pvc-protection-controller',
  'controller-replica-set': 'replicaset-controller',
  'controller-replication-controller': 'replication-controller',
  'controller-resource-claim': 'resource-claim-controller',
  'controller-resource-quota': 'resourcequota-controller',
  'controller-root-ca': 'root-ca-cert-publisher',
  'controller-route': 'route-controller',
  'controller-service-account': 'service-account-controller',
  'controller-service-cidr': 'service-cidrs-controller',
  'controller-service-lb': 'service-controller',
  'controller-stateful-set': 'statefulset-controller',
  'controller-storage-version-migration': 'storage-version-migrator-controller',
  'controller-taint-eviction': 'node-controller',
  'controller-token-cleaner': 'token-cleaner',
  'controller-ttl': 'ttl-controller',
  'controller-ttl-after-finished': 'ttl-after-finished-controller',
  'controller-vac-protection': 'volumeattributesclass-protection-controller',
  'controller-validating-admission-policy-status': 'validatingadmissionpolicy-status-controller',
  'controller-volume-expansion': 'expand-controller',
};

/** Controllers that kube-controller-manager runs with its own identity. */
const ownIdentity: ReadonlySet<string> = new Set(['controller-service-account-token', 'controller-volume-data-source']);

/**
 * Returns the service account of a controller by the name of its plugin: that of the built-in controller of this name, otherwise one of the same name.
 * A plugin that configures or replaces a built-in controller has the name of that controller. Returns undefined for controllers that
 * kube-controller-manager runs with its own identity.
 */
export function serviceAccountOf(name: string): string | undefined {
  if (ownIdentity.has(name)) return undefined;
  return Object.hasOwn(serviceAccounts, name) ? serviceAccounts[name] : name;
}
