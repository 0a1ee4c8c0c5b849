/** What the cluster's own parts may do, until roles are kept as objects. Facts of Kubernetes' default policy. */
export interface Rule {
  readonly groups: readonly string[];
  readonly verbs: readonly string[];
  /** `pods`, `pods/status`, `leases.coordination.k8s.io`. */
  readonly resources?: readonly string[];
  /** Exact, or a prefix that ends in `*`. */
  readonly paths?: readonly string[];
}

const read = ['get', 'list', 'watch'];

export const rules: readonly Rule[] = [
  { groups: ['system:authenticated', 'system:unauthenticated'], verbs: ['get'], paths: ['/healthz', '/livez', '/readyz', '/version', '/version/', '/oarlock/v1/ca'] },
  { groups: ['system:authenticated'], verbs: ['get'], paths: ['/', '/api', '/api/*', '/apis', '/apis/*', '/openapi', '/openapi/*'] },
  {
    groups: ['system:authenticated'], verbs: ['create'],
    resources: ['selfsubjectaccessreviews.authorization.k8s.io', 'selfsubjectrulesreviews.authorization.k8s.io', 'selfsubjectreviews.authentication.k8s.io'],
  },
  { groups: ['system:bootstrappers'], verbs: ['post'], paths: ['/oarlock/v1/join'] },
  { groups: ['system:nodes'], verbs: ['post'], paths: ['/oarlock/v1/spans'] },
  {
    groups: ['system:nodes'], verbs: read,
    resources: ['services', 'endpoints', 'endpointslices.discovery.k8s.io', 'nodes', 'pods', 'configmaps', 'secrets', 'serviceaccounts', 'namespaces',
      'persistentvolumeclaims', 'persistentvolumes', 'runtimeclasses.node.k8s.io', 'csinodes.storage.k8s.io', 'csidrivers.storage.k8s.io', 'volumeattachments.storage.k8s.io',
      'leases.coordination.k8s.io', 'servicecidrs.networking.k8s.io'],
  },
  { groups: ['system:nodes'], verbs: ['create', 'update', 'patch'], resources: ['nodes', 'nodes/status', 'events', 'events.events.k8s.io'] },
  { groups: ['system:nodes'], verbs: ['create', 'delete'], resources: ['pods'] },
  { groups: ['system:nodes'], verbs: ['update', 'patch'], resources: ['pods/status'] },
  { groups: ['system:nodes'], verbs: ['create', 'update', 'patch', 'delete'], resources: ['leases.coordination.k8s.io'] },
  { groups: ['system:nodes'], verbs: ['create'], resources: ['serviceaccounts/token', 'tokenreviews.authentication.k8s.io', 'subjectaccessreviews.authorization.k8s.io'] },
];
