import 'reflect-metadata';
import { customResourceDefinitions, deployments, leaseCandidatesV1beta1, leases, nodes, pods, replicaSets } from '@oarlock/api/resources';
import { formatMicroTime } from '@oarlock/api/values/time';
import type { CustomResourceDefinition } from '@oarlock/api/types/apiextensions-v1';
import type { Deployment } from '@oarlock/api/types/apps-v1';
import type { Node } from '@oarlock/api/types/core-v1';
import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import deployment from '@oarlock/controllers/apps/deployment/deployment-controller';
import ipBlocksController, { blocksAnnotation, ipBlocks, type IPBlock } from '@oarlock/controllers/network/ip-blocks/ip-blocks-controller';
import { LeaderElectionController } from '@oarlock/controllers/api-machinery/leader-election/leader-election-controller';
import nodeLifecycle from '@oarlock/controllers/node/node-lifecycle/node-lifecycle-controller';
import { controllerContract } from '@oarlock/spi/controller/contract';
import { controllerPluginContract } from '@oarlock/testing/controller-contract';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, sequence, type MemoryApi } from '@oarlock/testing/memory-api';
import { expect } from 'vitest';
import { at, named } from '../support/running-controllers.ts';

const node = (name: string, ready: 'True' | 'Unknown', annotations: Readonly<Record<string, string>> = {}): Node => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name, annotations },
  spec: {},
  status: { conditions: [{ type: 'Ready', status: ready }] },
});

const block = (name: string, spec: Partial<IPBlock['spec']>): IPBlock => ({
  apiVersion: 'network.oarlock.dev/v1',
  kind: ipBlocks.kind,
  metadata: { name },
  spec: { cidr: '10.1.0.0/26', pool: 'p', ...spec },
});
controllerPluginContract(ipBlocksController, [
  {
    title: 'creates the IPBlock resource once a node uses blocks, and releases those of a deleted node',
    steps: [
      (api) => void api.seed(nodes, node('a', 'True', { [blocksAnnotation]: '' }), node('b', 'True', { [blocksAnnotation]: '' })),
      (api) => {
        // blocks exist only while their resource is served
        const kind = { name: 'ipblocks.network.oarlock.dev' };
        if (api.object(customResourceDefinitions, kind) === undefined)
          api.seed(customResourceDefinitions, { metadata: kind, spec: { group: 'network.oarlock.dev' } } as CustomResourceDefinition);
        api.seed(ipBlocks, block('own', { node: 'a' }), block('lent', { node: 'a', claims: { b: [1] } }), block('other', { node: 'b' }));
      },
      (api) => api.remove(nodes, { name: 'a' }),
    ],
    expectResult(api) {
      expect(named(api.objects(customResourceDefinitions))).toEqual(['ipblocks.network.oarlock.dev']);
      expect(named(api.objects(ipBlocks))).toEqual(['lent', 'other']);
      expect(api.object(ipBlocks, { name: 'lent' })?.spec).toEqual({ cidr: '10.1.0.0/26', pool: 'p', claims: { b: [1] } });
    },
  },
]);

const taintsOf = (api: MemoryApi, name: string) =>
  api
    .object(nodes, { name })
    ?.spec?.taints?.map(({ key, effect }) => `${key}:${effect}`)
    .sort() ?? [];
controllerPluginContract(
  nodeLifecycle,
  [
    {
      title: 'two of four nodes become unreachable and one recovers',
      steps: [
        (api) => void api.seed(nodes, ...['a', 'b', 'c', 'd'].map((name) => node(name, 'True'))),
        (api) =>
          void api.seed(pods, {
            apiVersion: 'v1',
            kind: 'Pod',
            metadata: { namespace: 'd', name: 'p' },
            spec: { nodeName: 'a', containers: [{ name: 'c', image: 'i' }] },
            status: { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] },
          }),
        async (api) => {
          for (const name of ['a', 'b'])
            await api
              .client()
              .patch(
                nodes,
                { name },
                'merge',
                { status: { conditions: [{ type: 'Ready', status: 'Unknown' }] } },
                { subresource: 'status' },
              );
        },
        async (api) =>
          void (await api
            .client()
            .patch(
              nodes,
              { name: 'b' },
              'merge',
              { status: { conditions: [{ type: 'Ready', status: 'True' }] } },
              { subresource: 'status' },
            )),
      ],
      expectResult(api) {
        const lost = 'node.kubernetes.io/unreachable';
        expect(taintsOf(api, 'a')).toEqual([`${lost}:NoExecute`, `${lost}:NoSchedule`]);
        for (const name of ['b', 'c', 'd']) expect(taintsOf(api, name)).toEqual([]);
        expect(api.object(pods, at('p'))?.status?.conditions?.[0]?.status).toBe('False');
      },
    },
  ],
  { config: { gracePeriodSeconds: 1_000_000 } },
);

const template = (image: string) => ({ metadata: { labels: { app: 'web' } }, spec: { containers: [{ name: 'c', image }] } });
const web: Deployment = {
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { namespace: 'd', name: 'web' },
  spec: {
    replicas: 2,
    selector: { matchLabels: { app: 'web' } },
    revisionHistoryLimit: 0,
    progressDeadlineSeconds: 600,
    strategy: { type: 'Recreate' },
    template: template('a:1'),
  },
};
/** Sets the status of ReplicaSets as if all pods were available at once. */
async function sets(api: MemoryApi): Promise<boolean> {
  let changed = false;
  for (const set of api.objects(replicaSets)) {
    const replicas = set.spec?.replicas ?? 0;
    const status = { replicas, readyReplicas: replicas, availableReplicas: replicas, observedGeneration: set.metadata?.generation ?? 0 };
    if (JSON.stringify(set.status) === JSON.stringify(status)) continue;
    await api.client().update(replicaSets, { ...set, status }, { subresource: 'status' });
    changed = true;
  }
  return changed;
}
const patch = (spec: unknown) => async (api: MemoryApi) => void (await api.client().patch(deployments, at('web'), 'merge', { spec }));
controllerPluginContract(deployment, [
  {
    title: 'rolls out after a pause and leaves no old pods',
    simulateOthers: sets,
    steps: [
      async (api) => void (await api.client().create(deployments, web)),
      patch({ paused: true, template: template('a:2') }),
      patch({ paused: false, replicas: 3 }),
    ],
    expectResult(api) {
      const left = api.objects(replicaSets, 'd').map(({ spec }) => [spec?.template?.spec?.containers[0]?.image, spec?.replicas]);
      expect(left).toEqual([['a:2', 3]]);
      const { conditions = [], ...status } = api.object(deployments, at('web'))?.status ?? {};
      expect(status).toMatchObject({ replicas: 3, updatedReplicas: 3, availableReplicas: 3 });
      expect(conditions.find(({ type }) => type === 'Progressing')?.reason).toBe('NewReplicaSetAvailable');
    },
  },
]);

const candidate = (name: string, emulationVersion: string, clock: FakeClock) => ({
  metadata: { namespace: 'kube-system', name },
  spec: {
    leaseName: 'manager',
    binaryVersion: '1.36.0',
    emulationVersion,
    strategy: 'OldestEmulationVersion',
    renewTime: formatMicroTime(clock.now()),
  },
});
const clock = { current: new FakeClock() };
controllerContract<MemoryApi>('leader election', {
  open() {
    clock.current = new FakeClock();
    const api = memoryApi({ clock: clock.current });
    return {
      clock: clock.current,
      api,
      informers: (client) => new SharedInformerFactory({ client, clock: clock.current, random: sequence(7) }),
    };
  },
  create: ({ informers, clock: time }) => new LeaderElectionController(informers, time),
  scenarios: [
    {
      title: 'assigns the lease to the oldest emulation version, also when another candidate leads',
      steps: [
        (api) => void api.seed(leaseCandidatesV1beta1, candidate('young', '1.37.0', clock.current)),
        (api) => void api.seed(leaseCandidatesV1beta1, candidate('old', '1.36.0', clock.current)),
      ],
      // candidates acknowledge the ping
      async simulateOthers(api) {
        const asked = api.objects(leaseCandidatesV1beta1).find(({ spec }) => (spec.pingTime ?? '') > (spec.renewTime ?? ''));
        if (asked === undefined) return false;
        const renewTime = formatMicroTime(clock.current.now());
        await api.client().update(leaseCandidatesV1beta1, { ...asked, spec: { ...asked.spec, renewTime } });
        return true;
      },
      expectResult(api) {
        const spec = api.object(leases, { namespace: 'kube-system', name: 'manager' })?.spec;
        expect(spec?.strategy).toBe('OldestEmulationVersion');
        expect(spec?.preferredHolder ?? spec?.holderIdentity).toBe('old');
      },
    },
  ],
});
