import { services } from '@oarlock/api/resources';
import { configuration, ignoredKeys } from '@oarlock/scheduler/config/configuration';
import { makeProfiles } from '@oarlock/scheduler/config/profiles';
import type { z } from 'zod';
import { afterEach, describe, expect, it } from 'vitest';
import { node, pod, testScheduler } from '../support/test-scheduler.ts';

type Given = z.input<typeof configuration>;
let w: ReturnType<typeof testScheduler> | undefined;
afterEach(() => w?.stop());
const start = async (options: Given) => {
  w = testScheduler(options);
  w.seedNodes(
    node('small', { disk: 'ssd' }, { cpu: '2' }),
    node('large', { disk: 'hdd' }, { cpu: '16' }),
    node('off', {}, { spec: { unschedulable: true } }),
  );
  await w.start();
  return w;
};
const asking = (cpu: string) => ({ containers: [{ name: 'c', image: 'a:1', resources: { requests: { cpu } } }] });

describe('a KubeSchedulerConfiguration', () => {
  it.each<[string, unknown, string, string]>([
    ['an unknown key', { profile: [] }, '', 'Unrecognized key: "profile"'],
    ['another version', { apiVersion: 'kubescheduler.config.k8s.io/v1beta3' }, 'apiVersion', 'kubescheduler.config.k8s.io/v1'],
    [
      'invalid plugin arguments',
      { profiles: [{ pluginConfig: [{ name: 'InterPodAffinity', args: { hardPodAffinityWeight: 200 } }] }] },
      'profiles.0.pluginConfig.0.args.hardPodAffinityWeight',
      '<=100',
    ],
    [
      'unknown arguments',
      { profiles: [{ pluginConfig: [{ name: 'ImageLocality', args: { a: 1 } }] }] },
      'profiles.0.pluginConfig.0.args',
      'Unrecognized key: "a"',
    ],
    [
      'arguments of another plugin',
      { profiles: [{ pluginConfig: [{ name: 'VolumeBinding', args: { kind: 'NodeAffinityArgs' } }] }] },
      'profiles.0.pluginConfig.0.args.kind',
      'must be VolumeBindingArgs',
    ],
    [
      'a shape that is not increasing',
      {
        profiles: [
          {
            pluginConfig: [
              {
                name: 'NodeResourcesFit',
                args: {
                  scoringStrategy: {
                    type: 'RequestedToCapacityRatio',
                    requestedToCapacityRatio: {
                      shape: [
                        { utilization: 50, score: 1 },
                        { utilization: 50, score: 2 },
                      ],
                    },
                  },
                },
              },
            ],
          },
        ],
      },
      'profiles.0.pluginConfig.0.args.scoringStrategy.requestedToCapacityRatio.shape.1.utilization',
      'increasing',
    ],
    ['two profiles with one name', { profiles: [{}, {}] }, 'profiles.1.schedulerName', 'two profiles'],
    [
      'a maximum backoff below the initial backoff',
      { podInitialBackoffSeconds: 5, podMaxBackoffSeconds: 1 },
      'podMaxBackoffSeconds',
      'greater',
    ],
    ['an extender without a weight', { extenders: [{ urlPrefix: 'http://x', prioritizeVerb: 'p' }] }, 'extenders.0.weight', 'positive'],
    [
      'two binders',
      {
        extenders: [
          { urlPrefix: 'http://x', bindVerb: 'b' },
          { urlPrefix: 'http://y', bindVerb: 'b' },
        ],
      },
      'extenders.1.bindVerb',
      'only one',
    ],
  ])('rejects %s', (_what, options, path, message) => {
    const { error } = configuration.safeParse(options);
    expect(error?.issues.map((issue) => issue.path.join('.'))).toContain(path);
    expect(error?.issues.map((issue) => issue.message).join()).toContain(message);
  });

  it('accepts the defaults that upstream writes out', () => {
    const parsed = configuration.parse({
      apiVersion: 'kubescheduler.config.k8s.io/v1',
      kind: 'KubeSchedulerConfiguration',
      parallelism: 16,
      clientConnection: { kubeconfig: '', acceptContentTypes: '', contentType: 'application/vnd.kubernetes.protobuf', qps: 50, burst: 100 },
      leaderElection: {
        leaderElect: true,
        leaseDuration: '15s',
        renewDeadline: '10s',
        resourceLock: 'leases',
        resourceName: 'kube-scheduler',
        resourceNamespace: 'kube-system',
        retryPeriod: '2s',
      },
      enableProfiling: true,
      enableContentionProfiling: true,
      delayCacheUntilActive: false,
      percentageOfNodesToScore: 0,
      podInitialBackoffSeconds: 1,
      podMaxBackoffSeconds: 10,
      profiles: [
        {
          schedulerName: 'default-scheduler',
          plugins: { multiPoint: { enabled: [{ name: 'SchedulingGates', weight: 0 }] }, bind: {}, score: {} },
          pluginConfig: [
            {
              name: 'DefaultPreemption',
              args: {
                apiVersion: 'kubescheduler.config.k8s.io/v1',
                kind: 'DefaultPreemptionArgs',
                minCandidateNodesAbsolute: 100,
                minCandidateNodesPercentage: 10,
              },
            },
            { name: 'NodeResourcesBalancedAllocation', args: { resources: [{ name: 'cpu', weight: 1 }] } },
            { name: 'PodTopologySpread', args: { defaultingType: 'System' } },
            { name: 'DynamicResources', args: { filterTimeout: '10s' } },
          ],
        },
      ],
    });
    expect(parsed.leaderElection).toMatchObject({ leaseDuration: 15_000, resourceName: 'kube-scheduler' });
  });
});

describe('ignored keys', () => {
  it('are named, with why', () => {
    const ignoredKeysOf = (options: Given) => ignoredKeys(configuration.parse(options)).map(({ key }) => key);
    expect(
      ignoredKeysOf({ parallelism: 16, clientConnection: { qps: 50 }, enableProfiling: true, enableContentionProfiling: false }),
    ).toEqual(['parallelism', 'clientConnection', 'enableProfiling']);
    expect(ignoredKeysOf({})).toEqual([]);
  });
  it('treats weight 0 as the default weight 1', () => {
    const parse = (weight?: number) =>
      configuration.safeParse({
        profiles: [
          {
            pluginConfig: [
              {
                name: 'NodeResourcesFit',
                args: { scoringStrategy: { resources: [{ name: 'cpu', ...(weight !== undefined && { weight }) }] } },
              },
            ],
          },
        ],
      }).success;
    expect([parse(), parse(0), parse(100), parse(101)]).toEqual([true, true, true, false]);
  });
});

describe('profiles', () => {
  it('selects the profile by schedulerName', async () => {
    const { submit, placeOf, podOf } = await start({
      profiles: [
        {},
        {
          schedulerName: 'packing',
          pluginConfig: [{ name: 'NodeResourcesFit', args: { scoringStrategy: { type: 'MostAllocated' } } }],
          plugins: { multiPoint: { disabled: [{ name: 'NodeResourcesBalancedAllocation' }] } },
        },
      ],
    });
    await submit(pod('a', asking('1')), pod('b', { ...asking('1'), schedulerName: 'packing' }), pod('c', { schedulerName: 'none' }));
    expect([placeOf('a'), placeOf('b'), placeOf('c')]).toEqual(['large', 'small', undefined]);
    expect(podOf('c')?.status?.conditions).toBeUndefined();
  });

  it('disables plugins at all extension points or at one', async () => {
    const { submit, placeOf, explain } = await start({
      profiles: [
        {
          plugins: {
            filter: { disabled: [{ name: 'NodeUnschedulable' }] },
            score: { disabled: [{ name: '*' }], enabled: [{ name: 'ImageLocality', weight: 9 }] },
          },
        },
        { schedulerName: 'gates', plugins: { multiPoint: { disabled: [{ name: 'SchedulingGates' }] } } },
      ],
    });
    expect(explain(pod('x')).every(({ rejectedBy }) => rejectedBy === undefined)).toBe(true);
    expect(explain(pod('x')).every(({ score }) => score === 0)).toBe(true);
    await submit(pod('a', { schedulerName: 'gates', schedulingGates: [{ name: 'x/y' }] }));
    expect(placeOf('a')).toBeDefined();
  });

  it('weights count', async () => {
    const withWeight = (weight: number): Given => ({
      profiles: [{ plugins: { multiPoint: { enabled: [{ name: 'NodeResourcesFit', weight }] } } }],
    });
    const { explain } = await start(withWeight(7));
    const [best] = explain(pod('x', asking('1')));
    await w?.stop();
    const plain = (await start(withWeight(1))).explain(pod('x', asking('1')))[0];
    expect(best?.scores?.['NodeResourcesFit']).toBe(7 * (plain?.scores?.['NodeResourcesFit'] ?? 0));
  });

  it.each<[string, Given, string]>([
    [
      'an unknown plugin',
      { profiles: [{ plugins: { filter: { enabled: [{ name: 'Magic' }] } } }] },
      'profiles[0]: plugins.filter: there is no scheduling plugin Magic',
    ],
    [
      'an extension point that the plugin does not implement',
      { profiles: [{ plugins: { bind: { enabled: [{ name: 'ImageLocality' }] } } }] },
      'profiles[0]: the scheduling plugin ImageLocality has no bind',
    ],
    [
      'no binder',
      { profiles: [{ plugins: { bind: { disabled: [{ name: '*' }] } } }] },
      'profiles[0]: at least one scheduling plugin must bind pods',
    ],
    [
      'no order',
      { profiles: [{ plugins: { queueSort: { disabled: [{ name: '*' }] } } }] },
      'profiles[0]: exactly one scheduling plugin must sort the queue',
    ],
    [
      'arguments of an unknown plugin',
      { profiles: [{ pluginConfig: [{ name: 'Magic' }] }] },
      'profiles[0]: pluginConfig[0]: there is no scheduling plugin Magic',
    ],
    ['disabling of an unknown plugin', { disable: ['Magic'] }, 'there is no scheduling plugin Magic to disable'],
  ])('rejects %s', async (_what, options, message) => {
    w = testScheduler(options);
    await expect(w.start()).rejects.toThrow(message);
  });
});

describe('arguments', () => {
  const profile = (name: string, args: Record<string, unknown>): Given => ({ profiles: [{ pluginConfig: [{ name, args }] }] });

  it('NodeAffinity: addedAffinity applies to all pods', async () => {
    const { submit, placeOf, whyNot } = await start(
      profile('NodeAffinity', {
        addedAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: {
            nodeSelectorTerms: [{ matchExpressions: [{ key: 'disk', operator: 'In', values: ['ssd'] }] }],
          },
        },
      }),
    );
    await submit(pod('a'), pod('b', { nodeSelector: { disk: 'hdd' } }));
    expect(placeOf('a')).toBe('small');
    expect(whyNot('b')).toContain(
      "1 node(s) didn't match Pod's node affinity/selector, 1 node(s) didn't match scheduler-enforced node affinity, 1 node(s) were unschedulable",
    );
  });

  it('PodTopologySpread: defaultConstraints apply to pods without constraints', async () => {
    const { submit, placeOf, whyNot, api } = await start(
      profile('PodTopologySpread', {
        defaultingType: 'List',
        defaultConstraints: [{ maxSkew: 1, topologyKey: 'disk', whenUnsatisfiable: 'DoNotSchedule' }],
      }),
    );
    api.seed(services, { metadata: { namespace: 'd', name: 's' }, spec: { selector: { app: 'a' } } });
    const labels = { app: 'a' };
    await submit(pod('a', {}, labels), pod('b', {}, labels), pod('c', asking('8'), labels));
    expect([placeOf('a'), placeOf('b')].sort()).toEqual(['large', 'small']);
    expect(placeOf('c')).toBe('large');
    await submit(pod('d', asking('4'), labels));
    expect(whyNot('d')).toContain("1 node(s) didn't match pod topology spread constraints");
  });

  it('NodeResourcesFit: RequestedToCapacityRatio shape and ignored resources', async () => {
    const { submit, placeOf } = await start(
      profile('NodeResourcesFit', {
        ignoredResourceGroups: ['example.com'],
        scoringStrategy: {
          type: 'RequestedToCapacityRatio',
          resources: [{ name: 'cpu', weight: 5 }],
          requestedToCapacityRatio: {
            shape: [
              { utilization: 0, score: 0 },
              { utilization: 100, score: 10 },
            ],
          },
        },
      }),
    );
    await submit(
      pod('a', { containers: [{ name: 'c', image: 'a:1', resources: { requests: { cpu: '1500m', 'example.com/fpga': '1' } } }] }),
    );
    expect(placeOf('a')).toBe('small');
  });

  it('reach third-party plugins', () => {
    const chain = [
      { name: 'Sort', queueSort: () => 0 },
      { name: 'Bind', bind: async () => ({ code: 'success' }) as const },
      { name: 'Mine', withArgs: (args: unknown) => ({ name: 'Mine', weight: (args as { weight: number }).weight, score: () => 0 }) },
      { name: 'Fixed', score: () => 0 },
    ];
    const parseProfile = (name: string) => configuration.parse(profile(name, { weight: 4 }));
    expect(makeProfiles(parseProfile('Mine'), chain)[0]?.framework.pluginsAt('score')[0]?.weight).toBe(4);
    expect(() => makeProfiles(parseProfile('Fixed'), chain)).toThrow('profiles[0]: pluginConfig[0]: Fixed takes no arguments');
  });
});
