import { compileAuditPolicy, type AuditPolicy } from './audit-policy.ts';

const connects = ['pods/exec', 'pods/attach', 'pods/portforward', 'pods/proxy', 'services/proxy', 'nodes/proxy'];
/** The resources whose reads are recorded for every user. */
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
/** The requests that components of the cluster repeat every few seconds for their own objects. */
const heartbeats = [
  { group: 'coordination.k8s.io', resources: ['leases'] },
  { group: '', resources: ['nodes/status', 'pods/status', 'endpoints'] },
  { group: 'discovery.k8s.io', resources: ['endpointslices'] },
];
const ownWrites = { level: 'None' as const, verbs: [...reads, 'create', 'update', 'patch'], resources: heartbeats };

/**
 * The audit policy of a composition without audit sinks or policy: one event of level Metadata for each write, and for each read of
 * Secrets, tokens, roles and connections to pods. Omits other reads, Events, health checks, and the heartbeats of the cluster's components.
 * Meets controls 3.2.1 and 3.2.2 of the CIS Kubernetes Benchmark 1.11.
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
