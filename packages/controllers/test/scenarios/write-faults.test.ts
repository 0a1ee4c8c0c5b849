import {
  clusterRoles,
  configMaps,
  certificateSigningRequests,
  ipAddresses,
  jobs,
  namespaces,
  nodes,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  resourceQuotas,
  secrets,
  serviceCIDRs,
  volumeAttributesClasses,
} from '@oarlock/api/resources';
import bootstrapSigner from '@oarlock/controllers/auth/bootstrap-token/bootstrap-signer-controller';
import tokenCleaner from '@oarlock/controllers/auth/bootstrap-token/token-cleaner-controller';
import csrCleaner from '@oarlock/controllers/auth/certificate-signing-request/csr-cleaner-controller';
import aggregation from '@oarlock/controllers/auth/cluster-role-aggregation/cluster-role-aggregation-controller';
import namespace from '@oarlock/controllers/api-machinery/namespace/namespace-controller';
import nodeIpam from '@oarlock/controllers/node/node-ipam/node-ipam-controller';
import { CidrSet } from '@oarlock/controllers/node/node-ipam/cidr-set';
import resourceQuota from '@oarlock/controllers/api-machinery/resource-quota/resource-quota-controller';
import serviceCidr from '@oarlock/controllers/network/service-cidr/service-cidr-controller';
import ttlAfterFinished from '@oarlock/controllers/batch/ttl-after-finished/ttl-after-finished-controller';
import { attributesClassProtection, volumeProtection } from '@oarlock/controllers/volume/protection/volume-protection-controllers';
import ttl, { nextStep } from '@oarlock/controllers/node/ttl/ttl-controller';
import { controllerPluginContract } from '@oarlock/testing/controller-contract';
import type { MemoryApi } from '@oarlock/testing/memory-api';
import { describe, expect, it } from 'vitest';
import { at, runControllers } from '../support/running-controllers.ts';

// small controllers, each in a complete scenario with every fault at every write

const named = (objects: readonly { readonly metadata?: { readonly name?: string } }[]) =>
  objects.map(({ metadata }) => metadata?.name).sort();
const base64 = (text: string) => Buffer.from(text).toString('base64');

controllerPluginContract(aggregation, [
  {
    title: 'updates an aggregated role when roles are added and removed',
    steps: [
      (api) => {
        const role = (name: string, labels: Record<string, string>, resource: string) => ({
          apiVersion: 'rbac.authorization.k8s.io/v1',
          kind: 'ClusterRole',
          metadata: { name, labels },
          rules: [{ apiGroups: [''], resources: [resource], verbs: ['get'] }],
        });
        api.seed(clusterRoles, role('a', { 'to-all': 'true' }, 'pods'), role('b', {}, 'secrets'), {
          ...role('all', {}, 'none'),
          aggregationRule: { clusterRoleSelectors: [{ matchLabels: { 'to-all': 'true' } }] },
        });
      },
      async (api) => void (await api.client().patch(clusterRoles, { name: 'b' }, 'merge', { metadata: { labels: { 'to-all': 'true' } } })),
      (api) => api.remove(clusterRoles, { name: 'a' }),
    ],
    expectResult: (api) =>
      expect(api.object(clusterRoles, { name: 'all' })?.rules?.map(({ resources }) => resources)).toEqual([['secrets']]),
  },
]);

controllerPluginContract(resourceQuota, [
  {
    title: 'tracks usage as objects are created and deleted',
    steps: [
      (api) => void api.seed(resourceQuotas, { metadata: { namespace: 'd', name: 'q' }, spec: { hard: { pods: '5', secrets: '3' } } }),
      (api) =>
        void api.seed(
          pods,
          ...['a', 'b'].map((name) => ({ metadata: { namespace: 'd', name }, spec: { containers: [{ name: 'c', image: 'x' }] } })),
        ),
      (api) => void api.seed(secrets, { metadata: { namespace: 'd', name: 's' } }),
      (api) => api.remove(pods, at('a')),
    ],
    expectResult: (api) =>
      expect(api.object(resourceQuotas, at('q'))?.status).toEqual({ hard: { pods: '5', secrets: '3' }, used: { pods: '1', secrets: '1' } }),
    withinMs: 900_000,
  },
]);

controllerPluginContract(namespace, [
  {
    title: 'deletes the content and the finalizer of a deleted namespace',
    steps: [
      (api) => {
        api.seed(
          namespaces,
          { metadata: { name: 'd' }, spec: { finalizers: ['kubernetes'] } },
          { metadata: { name: 'other' }, spec: { finalizers: ['kubernetes'] } },
        );
        api.seed(configMaps, { metadata: { namespace: 'd', name: 'a' } }, { metadata: { namespace: 'other', name: 'a' } });
        api.seed(secrets, { metadata: { namespace: 'd', name: 'a' } });
      },
      async (api) => void (await api.client().delete(namespaces, { name: 'd' })),
    ],
    expectResult(api) {
      expect(named(api.objects(namespaces))).toEqual(['other']);
      expect([api.objects(configMaps, 'd').length, api.objects(secrets, 'd').length, api.objects(configMaps, 'other').length]).toEqual([
        0, 0, 1,
      ]);
    },
  },
]);

const ended = (name: string, ttlSecondsAfterFinished?: number) => ({
  apiVersion: 'batch/v1',
  kind: 'Job',
  metadata: { namespace: 'd', name },
  spec: { template: {}, ...(ttlSecondsAfterFinished !== undefined && { ttlSecondsAfterFinished }) },
  status: { conditions: [{ type: 'Complete', status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z' }] },
});
controllerPluginContract(ttlAfterFinished, [
  {
    title: 'deletes expired Jobs and keeps others',
    steps: [
      (api) => void api.seed(jobs, ended('soon', 0), ended('kept'), { ...ended('runs', 0), status: {} }),
      async (api) => void (await api.client().patch(jobs, at('kept'), 'merge', { metadata: { labels: { x: 'y' } } })),
    ],
    expectResult: (api) =>
      expect(named(api.objects(jobs, 'd').filter(({ metadata }) => metadata?.deletionTimestamp === undefined))).toEqual(['kept', 'runs']),
  },
]);

const token = (id: string, more: Record<string, string> = {}) => ({
  apiVersion: 'v1',
  kind: 'Secret',
  type: 'bootstrap.kubernetes.io/token',
  metadata: { namespace: 'kube-system', name: `bootstrap-token-${id}` },
  data: Object.fromEntries(
    Object.entries({ 'token-id': id, 'token-secret': '0123456789abcdef', 'usage-bootstrap-signing': 'true', ...more }).map(
      ([key, value]) => [key, base64(value)],
    ),
  ),
});
controllerPluginContract(bootstrapSigner, [
  {
    title: 'signs cluster-info with each valid token',
    steps: [
      (api) =>
        void api.seed(configMaps, {
          apiVersion: 'v1',
          kind: 'ConfigMap',
          metadata: { namespace: 'kube-public', name: 'cluster-info' },
          data: { kubeconfig: 'text' },
        }),
      (api) => void api.seed(secrets, token('abcdef'), token('ghijkl')),
      (api) => api.remove(secrets, { namespace: 'kube-system', name: 'bootstrap-token-ghijkl' }),
    ],
    expectResult: (api) =>
      expect(Object.keys(api.object(configMaps, { namespace: 'kube-public', name: 'cluster-info' })?.data ?? {}).sort()).toEqual([
        'jws-kubeconfig-abcdef',
        'kubeconfig',
      ]),
  },
]);
controllerPluginContract(tokenCleaner, [
  {
    title: 'deletes expired tokens',
    steps: [
      (api) =>
        void api.seed(
          secrets,
          token('abcdef', { expiration: '2000-01-01T00:00:00Z' }),
          token('ghijkl', { expiration: '2999-01-01T00:00:00Z' }),
          token('mnopqr'),
        ),
    ],
    expectResult: (api) => expect(named(api.objects(secrets))).toEqual(['bootstrap-token-ghijkl', 'bootstrap-token-mnopqr']),
  },
]);

const csr = (name: string, conditions: readonly string[], created: string) => ({
  apiVersion: 'certificates.k8s.io/v1',
  kind: 'CertificateSigningRequest',
  metadata: { name, creationTimestamp: created },
  spec: { signerName: 'example.com/x', request: '', usages: [] },
  status: { conditions: conditions.map((type) => ({ type, status: 'True', lastUpdateTime: created })) },
});
controllerPluginContract(csrCleaner, [
  {
    title: 'deletes requests that were decided or created long ago',
    steps: [
      (api) =>
        void api.seed(
          certificateSigningRequests,
          csr('old', ['Approved'], '2000-01-01T00:00:00Z'),
          csr('denied', ['Denied'], '2000-01-01T00:00:00Z'),
          csr('new', ['Approved'], '2999-01-01T00:00:00Z'),
        ),
    ],
    expectResult: (api) => expect(named(api.objects(certificateSigningRequests))).toEqual(['new']),
  },
]);

controllerPluginContract(volumeProtection, [
  {
    title: 'keeps a deleted volume while it is bound',
    steps: [
      (api) => {
        api.seed(persistentVolumeClaims, { metadata: { namespace: 'd', name: 'c' }, spec: { volumeName: 'v' } });
        const volume = (name: string, phase: string) => ({ metadata: { name }, spec: {}, status: { phase } });
        api.seed(persistentVolumes, volume('v', 'Bound'), volume('free', 'Available'));
      },
      async (api) => {
        await api.client().delete(persistentVolumes, { name: 'v' });
        await api.client().delete(persistentVolumes, { name: 'free' });
      },
    ],
    expectResult: (api) => {
      const v = api.object(persistentVolumes, { name: 'v' });
      if (v !== undefined) expect(v.metadata?.finalizers).toEqual(['kubernetes.io/pv-protection']);
      expect(api.object(persistentVolumes, { name: 'free' })).toBeUndefined();
    },
  },
]);

describe('ServiceCidrController', () => {
  const range = (name: string, ...cidrs: readonly string[]) => ({
    apiVersion: 'networking.k8s.io/v1',
    kind: 'ServiceCIDR',
    // an object that is deleted before the controller adds its finalizer disappears at once
    metadata: { name, finalizers: ['networking.k8s.io/service-cidr-finalizer'] },
    spec: { cidrs },
  });
  const address = (name: string) => ({
    apiVersion: 'networking.k8s.io/v1',
    kind: 'IPAddress',
    metadata: { name },
    spec: { parentRef: { resource: 'services', name: 'x' } },
  });
  const isReady = (api: MemoryApi, name: string) =>
    api.object(serviceCIDRs, { name })?.status?.conditions?.find(({ type }) => type === 'Ready')?.status;
  controllerPluginContract(serviceCidr, [
    {
      title: 'sets Ready and releases deleted ranges without addresses',
      steps: [
        (api) => void api.seed(serviceCIDRs, range('a', '10.0.0.0/24'), range('b', '10.1.0.0/24', 'fd00::/112'), range('c', '10.2.0.0/24')),
        (api) => void api.seed(ipAddresses, address('10.1.0.7'), address('10.0.0.7')),
        async (api) => {
          for (const name of ['b', 'c']) await api.client().delete(serviceCIDRs, { name });
        },
      ],
      expectResult(api) {
        expect(named(api.objects(serviceCIDRs))).toEqual(['a', 'b']);
        expect([isReady(api, 'a'), isReady(api, 'b')]).toEqual(['True', 'False']);
      },
    },
    {
      title: 'releases a range after its last address is deleted or another range contains it',
      steps: [
        (api) => void api.seed(serviceCIDRs, range('a', '10.0.0.0/24'), range('b', '10.0.0.0/16'), range('c', 'fd00::/112')),
        (api) => void api.seed(ipAddresses, address('10.0.0.7'), address('fd00::5')),
        async (api) => {
          for (const name of ['a', 'c']) await api.client().delete(serviceCIDRs, { name });
        },
        (api) => api.remove(ipAddresses, { name: 'fd00::5' }),
      ],
      expectResult: (api) => expect(named(api.objects(serviceCIDRs))).toEqual(['b']),
    },
  ]);
});

describe('node IPAM controller', () => {
  it('allocates CIDRs of both IP families', () => {
    const six = new CidrSet('fd00:10:244::/56', 64);
    expect([six.allocateNext(), six.allocateNext()]).toEqual(['fd00:10:244::/64', 'fd00:10:244:1::/64']);
    expect(six.occupy('fd00:10:244:2::/64')).toBe(true);
    expect(six.occupy('10.0.0.0/24')).toBe(false);
    expect(six.allocateNext()).toBe('fd00:10:244:3::/64');
    six.release('fd00:10:244::/64');
    const four = new CidrSet('10.0.0.0/31', 32);
    expect([four.allocateNext(), four.allocateNext(), four.allocateNext()]).toEqual(['10.0.0.0/32', '10.0.0.1/32', undefined]);
    expect(() => new CidrSet('fd00::/32', 64)).toThrow(RangeError);
    expect(() => new CidrSet('10.0.0.0/24', 16)).toThrow(RangeError);
  });

  controllerPluginContract(
    nodeIpam,
    [
      {
        title: 'allocates one CIDR per node and reuses it after a deletion',
        steps: [
          (api) => void api.seed(nodes, ...['a', 'b', 'c'].map((name) => ({ apiVersion: 'v1', kind: 'Node', metadata: { name } }))),
          (api) => {
            const first = api.objects(nodes).find(({ spec }) => spec?.podCIDR !== undefined);
            api.remove(nodes, { name: first?.metadata?.name ?? 'a' });
          },
        ],
        expectResult(api) {
          const ranges = api.objects(nodes).map(({ spec }) => spec?.podCIDR);
          expect(ranges).not.toContain(undefined);
          expect(new Set(ranges).size).toBe(2);
        },
      },
    ],
    { config: { nodeMaskBits: 17 } },
  );
});

const attributesClass = (name: string) => ({
  apiVersion: 'storage.k8s.io/v1',
  kind: 'VolumeAttributesClass',
  metadata: { name, finalizers: ['kubernetes.io/vac-protection'] },
  driverName: 'd.example.com',
});
controllerPluginContract(attributesClassProtection, [
  {
    title: 'keeps deleted VolumeAttributesClasses until no volume and no claim refers to them',
    steps: [
      (api) => {
        api.seed(volumeAttributesClasses, ...['bound', 'current', 'free', 'target', 'wanted'].map(attributesClass));
        api.seed(persistentVolumes, { metadata: { name: 'v' }, spec: { volumeAttributesClassName: 'bound' } });
        api.seed(persistentVolumeClaims, {
          metadata: { namespace: 'd', name: 'c' },
          spec: { volumeAttributesClassName: 'wanted' },
          status: {
            currentVolumeAttributesClassName: 'current',
            modifyVolumeStatus: { targetVolumeAttributesClassName: 'target', status: 'Pending' },
          },
        });
      },
      async (api) => {
        for (const { metadata } of api.objects(volumeAttributesClasses))
          await api.client().delete(volumeAttributesClasses, { name: metadata?.name ?? '' });
      },
      async (api) => {
        const status = { currentVolumeAttributesClassName: 'wanted', modifyVolumeStatus: null };
        await api.client().patch(persistentVolumeClaims, at('c'), 'merge', { status }, { subresource: 'status' });
      },
      (api) => void api.seed(volumeAttributesClasses, { ...attributesClass('new'), metadata: { name: 'new' } }),
    ],
    expectResult: (api) => {
      expect(named(api.objects(volumeAttributesClasses))).toEqual(['bound', 'new', 'wanted']);
      expect(api.object(volumeAttributesClasses, { name: 'new' })?.metadata?.finalizers).toEqual(['kubernetes.io/vac-protection']);
    },
  },
]);

const ttlOf = (api: MemoryApi, name: string) => api.object(nodes, { name })?.metadata?.annotations?.['node.alpha.kubernetes.io/ttl'];
controllerPluginContract(ttl, [
  {
    title: 'annotates nodes with the TTL for the size of the cluster',
    steps: [
      (api) =>
        void api.seed(
          nodes,
          { metadata: { name: 'a' } },
          { metadata: { name: 'b', annotations: { 'node.alpha.kubernetes.io/ttl': 'x' } } },
        ),
      (api) => void api.seed(nodes, { metadata: { name: 'c' } }),
      async (api) =>
        void (await api
          .client()
          .patch(nodes, { name: 'a' }, 'merge', { metadata: { annotations: { 'node.alpha.kubernetes.io/ttl': null } } })),
    ],
    expectResult: (api) => expect(['a', 'b', 'c'].map((name) => ttlOf(api, name))).toEqual(['0', '0', '0']),
  },
]);

describe('ttl controller', () => {
  it('annotates all nodes again when the size of the cluster requires another TTL', async () => {
    const { api, whenIdle } = await runControllers([ttl], {
      seed: (created) => void created.seed(nodes, ...Array.from({ length: 100 }, (_, i) => ({ metadata: { name: `n${i}` } }))),
    });
    expect(ttlOf(api, 'n0')).toBe('0');
    api.seed(nodes, { metadata: { name: 'last' } });
    await whenIdle();
    expect(new Set(api.objects(nodes).map(({ metadata }) => ttlOf(api, metadata?.name ?? '')))).toEqual(new Set(['15']));
  });
});

describe('nextStep', () => {
  it.each([
    [0, 100, 0],
    [0, 101, 1],
    [1, 90, 1],
    [1, 89, 0],
    [0, 501, 2],
    [2, 449, 1],
    [0, 5000, 4],
    [4, 1800, 4],
    [4, 0, 0],
  ])('keeps step %i until %i nodes are outside its boundary: %i', (step, count, expected) => {
    expect(nextStep(step, count)).toBe(expected);
  });
});
