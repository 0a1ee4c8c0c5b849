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
  {
    groups: ['system:authenticated', 'system:unauthenticated'],
    verbs: ['get'],
    paths: ['/healthz', '/livez', '/readyz', '/version', '/version/', '/oarlock/v1/ca'],
  },
  { groups: ['system:authenticated'], verbs: ['get'], paths: ['/', '/api', '/api/*', '/apis', '/apis/*', '/openapi', '/openapi/*'] },
  {
    groups: ['system:authenticated'],
    verbs: ['create'],
    resources: [
      'selfsubjectaccessreviews.authorization.k8s.io',
      'selfsubjectrulesreviews.authorization.k8s.io',
      'selfsubjectreviews.authentication.k8s.io',
    ],
  },
  { groups: ['system:bootstrappers'], verbs: ['post'], paths: ['/oarlock/v1/join'] },
  { groups: ['system:nodes'], verbs: ['post'], paths: ['/oarlock/v1/spans'] },
  // what does not depend on which node it is; the rest is in node-grants.ts
  {
    groups: ['system:nodes'],
    verbs: read,
    resources: ['services', 'endpointslices.discovery.k8s.io', 'nodes', 'pods', 'runtimeclasses.node.k8s.io', 'csidrivers.storage.k8s.io'],
  },
  { groups: ['system:nodes'], verbs: ['get'], resources: ['persistentvolumes'] },
  { groups: ['system:nodes'], verbs: ['create'], resources: ['nodes'] },
  { groups: ['system:nodes'], verbs: ['create', 'update', 'patch'], resources: ['events', 'events.events.k8s.io'] },
];
