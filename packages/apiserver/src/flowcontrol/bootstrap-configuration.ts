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
interface QueuedLevel {
  readonly shares: number;
  readonly lendablePercent: number;
  readonly queues: number;
  readonly handSize: number;
}
const queued = (name: string, { shares, lendablePercent, queues, handSize }: QueuedLevel) =>
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

interface SchemaHead {
  readonly name: string;
  readonly priorityLevel: string;
  readonly matchingPrecedence: number;
  readonly by?: 'ByUser' | 'ByNamespace';
}
const schema = ({ name, priorityLevel, matchingPrecedence, by }: SchemaHead, rules: Rules): FlowSchema => ({
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

/** The mandatory priority levels, which the configuration controller restores after a change or deletion. */
export const mandatoryPriorityLevels: readonly PriorityLevelConfiguration[] = [
  level('exempt', { type: 'Exempt', exempt: { nominalConcurrencyShares: 0, lendablePercent: 0 } }),
  level('catch-all', {
    type: 'Limited',
    limited: { nominalConcurrencyShares: 5, lendablePercent: 0, limitResponse: { type: 'Reject' } },
  }),
];
export const mandatoryFlowSchemas: readonly FlowSchema[] = [
  schema({ name: 'exempt', priorityLevel: 'exempt', matchingPrecedence: 1 }, everything([group('system:masters')])),
  schema({ name: 'catch-all', priorityLevel: 'catch-all', matchingPrecedence: 10_000, by: 'ByUser' }, everything(everyone)),
];

/** The suggested priority levels. Administrators can change them after they remove the autoupdate annotation. */
export const suggestedPriorityLevels: readonly PriorityLevelConfiguration[] = [
  queued('system', { shares: 30, lendablePercent: 33, queues: 64, handSize: 6 }),
  queued('node-high', { shares: 40, lendablePercent: 25, queues: 64, handSize: 6 }),
  queued('leader-election', { shares: 10, lendablePercent: 0, queues: 16, handSize: 4 }),
  queued('workload-high', { shares: 40, lendablePercent: 50, queues: 128, handSize: 6 }),
  queued('workload-low', { shares: 100, lendablePercent: 90, queues: 128, handSize: 6 }),
  queued('global-default', { shares: 20, lendablePercent: 50, queues: 128, handSize: 6 }),
];
export const suggestedFlowSchemas: readonly FlowSchema[] = [
  schema({ name: 'system-nodes', priorityLevel: 'system', matchingPrecedence: 500, by: 'ByUser' }, everything([group('system:nodes')])),
  schema({ name: 'system-node-high', priorityLevel: 'node-high', matchingPrecedence: 400, by: 'ByUser' }, [
    {
      subjects: [group('system:nodes')],
      resourceRules: [
        { verbs: ['*'], apiGroups: [''], resources: ['nodes', 'nodes/status'], namespaces: ['*'], clusterScope: true },
        { verbs: ['*'], apiGroups: ['coordination.k8s.io'], resources: ['leases'], namespaces: ['*'] },
      ],
    },
  ]),
  schema({ name: 'probes', priorityLevel: 'exempt', matchingPrecedence: 2 }, [
    { subjects: everyone, nonResourceRules: [{ verbs: ['get'], nonResourceURLs: ['/healthz', '/readyz', '/livez'] }] },
  ]),
  schema({ name: 'system-leader-election', priorityLevel: 'leader-election', matchingPrecedence: 100, by: 'ByUser' }, [
    { subjects: [user('system:kube-controller-manager'), user('system:kube-scheduler')], resourceRules: [leases] },
  ]),
  schema(
    { name: 'kube-controller-manager', priorityLevel: 'workload-high', matchingPrecedence: 800, by: 'ByNamespace' },
    everything([user('system:kube-controller-manager')]),
  ),
  schema(
    { name: 'kube-scheduler', priorityLevel: 'workload-high', matchingPrecedence: 800, by: 'ByNamespace' },
    everything([user('system:kube-scheduler')]),
  ),
  schema(
    { name: 'kube-system-service-accounts', priorityLevel: 'workload-high', matchingPrecedence: 900, by: 'ByNamespace' },
    everything([account('*')]),
  ),
  schema(
    { name: 'service-accounts', priorityLevel: 'workload-low', matchingPrecedence: 9_000, by: 'ByUser' },
    everything([group('system:serviceaccounts')]),
  ),
  schema({ name: 'global-default', priorityLevel: 'global-default', matchingPrecedence: 9_900, by: 'ByUser' }, everything(everyone)),
];
