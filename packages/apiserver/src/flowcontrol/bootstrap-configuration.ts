import type {
  FlowSchema,
  FlowSchemaSpec,
  PriorityLevelConfiguration,
  PriorityLevelConfigurationSpec,
} from '@oarlock/api/types/flowcontrol-v1';

type Rules = NonNullable<FlowSchemaSpec['rules']>;
type Subject = Rules[number]['subjects'][number];
type ResourceRule = NonNullable<Rules[number]['resourceRules']>[number];

const autoUpdated = { annotations: { 'apf.kubernetes.io/autoupdate-spec': 'true' } };
const level = (name: string, spec: PriorityLevelConfigurationSpec): PriorityLevelConfiguration => ({
  kind: 'PriorityLevelConfiguration',
  apiVersion: 'flowcontrol.apiserver.k8s.io/v1',
  metadata: { name, ...autoUpdated },
  spec,
});
const queued = (name: string, shares: number, lendablePercent: number, queues: number, handSize: number) =>
  level(name, {
    type: 'Limited',
    limited: {
      nominalConcurrencyShares: shares,
      lendablePercent,
      limitResponse: { type: 'Queue', queuing: { queues, handSize, queueLengthLimit: 50 } },
    },
  });

const group = (name: string): Subject => ({ kind: 'Group', group: { name } });
const user = (name: string): Subject => ({ kind: 'User', user: { name } });
const account = (name: string): Subject => ({ kind: 'ServiceAccount', serviceAccount: { namespace: 'kube-system', name } });
const everyone = [group('system:unauthenticated'), group('system:authenticated')];
const anything: ResourceRule = { verbs: ['*'], apiGroups: ['*'], resources: ['*'], namespaces: ['*'], clusterScope: true };
const anyPath = { verbs: ['*'], nonResourceURLs: ['*'] };
const everything = (subjects: readonly Subject[]): Rules => [{ subjects, resourceRules: [anything], nonResourceRules: [anyPath] }];
const leases: ResourceRule = {
  verbs: ['get', 'create', 'update'],
  apiGroups: ['coordination.k8s.io'],
  resources: ['leases'],
  namespaces: ['*'],
};

const schema = (
  name: string,
  priorityLevel: string,
  matchingPrecedence: number,
  by: 'ByUser' | 'ByNamespace' | undefined,
  rules: Rules,
): FlowSchema => ({
  kind: 'FlowSchema',
  apiVersion: 'flowcontrol.apiserver.k8s.io/v1',
  metadata: { name, ...autoUpdated },
  spec: {
    matchingPrecedence,
    priorityLevelConfiguration: { name: priorityLevel },
    ...(by !== undefined && { distinguisherMethod: { type: by } }),
    rules,
  },
});

/** The mandatory objects. The configuration controller restores them when they are deleted or changed. */
export const mandatoryPriorityLevels: readonly PriorityLevelConfiguration[] = [
  level('exempt', { type: 'Exempt', exempt: { nominalConcurrencyShares: 0, lendablePercent: 0 } }),
  level('catch-all', {
    type: 'Limited',
    limited: { nominalConcurrencyShares: 5, lendablePercent: 0, limitResponse: { type: 'Reject' } },
  }),
];
export const mandatoryFlowSchemas: readonly FlowSchema[] = [
  schema('exempt', 'exempt', 1, undefined, everything([group('system:masters')])),
  schema('catch-all', 'catch-all', 10_000, 'ByUser', everything(everyone)),
];

/** The suggested objects. Administrators may change them after removing the autoupdate annotation. */
export const suggestedPriorityLevels: readonly PriorityLevelConfiguration[] = [
  queued('system', 30, 33, 64, 6),
  queued('node-high', 40, 25, 64, 6),
  queued('leader-election', 10, 0, 16, 4),
  queued('workload-high', 40, 50, 128, 6),
  queued('workload-low', 100, 90, 128, 6),
  queued('global-default', 20, 50, 128, 6),
];
export const suggestedFlowSchemas: readonly FlowSchema[] = [
  schema('system-nodes', 'system', 500, 'ByUser', everything([group('system:nodes')])),
  schema('system-node-high', 'node-high', 400, 'ByUser', [
    {
      subjects: [group('system:nodes')],
      resourceRules: [
        { verbs: ['*'], apiGroups: [''], resources: ['nodes', 'nodes/status'], namespaces: ['*'], clusterScope: true },
        { verbs: ['*'], apiGroups: ['coordination.k8s.io'], resources: ['leases'], namespaces: ['*'] },
      ],
    },
  ]),
  schema('probes', 'exempt', 2, undefined, [
    { subjects: everyone, nonResourceRules: [{ verbs: ['get'], nonResourceURLs: ['/healthz', '/readyz', '/livez'] }] },
  ]),
  schema('system-leader-election', 'leader-election', 100, 'ByUser', [
    { subjects: [user('system:kube-controller-manager'), user('system:kube-scheduler')], resourceRules: [leases] },
  ]),
  schema('endpoint-controller', 'workload-high', 150, 'ByUser', [
    {
      subjects: [user('system:kube-controller-manager'), account('endpoint-controller'), account('endpointslicemirroring-controller')],
      resourceRules: [{ verbs: ['get', 'create', 'update'], apiGroups: [''], resources: ['endpoints'], namespaces: ['*'] }],
    },
  ]),
  schema('workload-leader-election', 'leader-election', 200, 'ByUser', [{ subjects: [account('*')], resourceRules: [leases] }]),
  schema('kube-controller-manager', 'workload-high', 800, 'ByNamespace', everything([user('system:kube-controller-manager')])),
  schema('kube-scheduler', 'workload-high', 800, 'ByNamespace', everything([user('system:kube-scheduler')])),
  schema('kube-system-service-accounts', 'workload-high', 900, 'ByNamespace', everything([account('*')])),
  schema('service-accounts', 'workload-low', 9_000, 'ByUser', everything([group('system:serviceaccounts')])),
  schema('global-default', 'global-default', 9_900, 'ByUser', everything(everyone)),
];
