import { compileAuditPolicy, type AuditPolicy } from './audit-policy.ts';

const connects = ['pods/exec', 'pods/attach', 'pods/portforward', 'pods/proxy', 'services/proxy', 'nodes/proxy'];
/** Resources whose reads are recorded for every caller. */
const sensitive = [
  { group: '', resources: ['secrets', 'serviceaccounts/token', ...connects] },
  { group: 'authentication.k8s.io', resources: ['tokenreviews'] },
  { group: 'rbac.authorization.k8s.io', resources: ['*'] },
];
const components = [
  'system:apiserver',
  'system:kube-scheduler',
  'system:kube-controller-manager',
  'system:kube-proxy',
  'system:oarlock:dns',
  'system:oarlock:volumes',
  'system:oarlock:simulated-nodes',
];
const componentGroups = ['system:nodes', 'system:serviceaccounts:kube-system'];
const reads = ['get', 'list', 'watch'];
/** Requests that the components of a cluster repeat every few seconds on their own objects. */
const heartbeats = [
  { group: 'coordination.k8s.io', resources: ['leases'] },
  { group: '', resources: ['nodes/status', 'pods/status', 'endpoints'] },
  { group: 'discovery.k8s.io', resources: ['endpointslices'] },
];
const ownWrites = { level: 'None' as const, verbs: [...reads, 'create', 'update', 'patch'], resources: heartbeats };

/**
 * The policy of a composition that names neither sinks nor a policy: one event of level Metadata for every write, and for reads of Secrets, tokens,
 * roles and connections to pods. It omits other reads, Events, health checks, and the heartbeats of the cluster's components. Controls 3.2.1 and
 * 3.2.2 of the CIS Kubernetes Benchmark 1.11.
 */
export const defaultAuditPolicy: AuditPolicy = compileAuditPolicy({
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  omitStages: ['RequestReceived'],
  rules: [
    {
      level: 'None',
      nonResourceURLs: ['/healthz*', '/livez*', '/readyz*', '/version', '/openapi/*', '/api', '/api/*', '/apis', '/apis/*'],
    },
    {
      level: 'None',
      resources: [
        { group: '', resources: ['events'] },
        { group: 'events.k8s.io', resources: ['events'] },
      ],
    },
    { ...ownWrites, users: components },
    { ...ownWrites, userGroups: componentGroups },
    { level: 'Metadata', verbs: reads, resources: sensitive },
    { level: 'Metadata', nonResourceURLs: ['*'] },
    { level: 'None', verbs: reads },
    { level: 'Metadata' },
  ],
});
