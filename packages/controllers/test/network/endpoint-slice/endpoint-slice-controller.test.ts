import { endpoints, endpointSlices, nodes, pods, services } from '@oarlock/api/resources';
import { failure } from '@oarlock/api/status';
import type { Endpoints, Pod, Service } from '@oarlock/api/types/core-v1';
import endpointSlice from '@oarlock/controllers/network/endpoint-slice/endpoint-slice-controller';
import endpointsLoop from '@oarlock/controllers/network/endpoints/endpoints-controller';
import mirroring from '@oarlock/controllers/network/endpoint-slice-mirroring/endpoint-slice-mirroring-controller';
import { controllerPluginContract } from '@oarlock/testing/controller-contract';
import type { MemoryApi } from '@oarlock/testing/memory-api';
import { describe, expect, it } from 'vitest';
import { at, runControllers } from '../../support/running-controllers.ts';

const plain = { defaults: false };
const service = (more: Service['spec'] = {}): Service => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { namespace: 'd', name: 'web' },
  spec: { clusterIP: '10.96.0.7', ipFamilies: ['IPv4'], ports: [{ name: 'http', port: 80, targetPort: 8080 }], ...more },
});
const pod = (name: string, ips: readonly string[], more: Partial<Pod> = {}): Pod => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { namespace: 'd', name, labels: { app: 'web' } },
  spec: { nodeName: 'n1', containers: [{ name: 'c', image: 'a' }] },
  status: { phase: 'Running', podIP: ips[0] ?? '', podIPs: ips.map((ip) => ({ ip })), conditions: [{ type: 'Ready', status: 'True' }] },
  ...more,
});
const n1 = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'n1' } };
const slices = (api: MemoryApi) => api.objects(endpointSlices, 'd');

describe('EndpointSliceController', () => {
  it('creates slices for each IP family of a Service', async () => {
    const { api, clock } = await runControllers([endpointSlice], {
      ...plain,
      seed: (memory) => {
        memory.seed(nodes, n1);
        memory.seed(pods, pod('p', ['10.0.0.1', 'fd00::1']));
      },
    });
    await api.client().create(services, service({ selector: { app: 'web' }, ipFamilies: ['IPv4', 'IPv6'] }));
    await clock.settle();
    expect(Object.fromEntries(slices(api).map(({ addressType, endpoints: some }) => [addressType, some?.[0]?.addresses]))).toEqual({
      IPv4: ['10.0.0.1'],
      IPv6: ['fd00::1'],
    });
  });

  it('publishes terminating pods as serving and not ready', async () => {
    const { api, clock } = await runControllers([endpointSlice], {
      ...plain,
      seed: (memory) => {
        memory.seed(nodes, n1);
        memory.seed(pods, pod('p', ['10.0.0.1']));
      },
    });
    await api.client().create(services, service({ selector: { app: 'web' } }));
    await api.client().delete(pods, at('p'));
    await clock.settle();
    expect(slices(api)[0]?.endpoints?.[0]?.conditions).toEqual({ ready: false, serving: true, terminating: true });
  });

  it('publishes no pods of nodes that do not exist, and reports them', async () => {
    const elsewhere = { spec: { nodeName: 'gone', containers: [{ name: 'c', image: 'a' }] } };
    const life = await runControllers([endpointSlice], {
      ...plain,
      seed: (memory) => {
        memory.seed(nodes, n1);
        memory.seed(pods, pod('p', ['10.0.0.1']), pod('q', ['10.0.0.2'], elsewhere));
      },
    });
    await life.api.client().create(services, service({ selector: { app: 'web' } }));
    await life.clock.settle();
    expect(slices(life.api).flatMap(({ endpoints: some }) => some ?? [])).toMatchObject([{ addresses: ['10.0.0.1'] }]);
    expect(life.messages('FailedToUpdateEndpointSlices')[0]).toBe(
      'Error updating Endpoint Slices for Service d/web: skipping Pod q for Service d/web: Node gone Not Found',
    );
    life.api.seed(nodes, { ...n1, metadata: { name: 'gone' } });
    await life.clock.settle();
    expect(slices(life.api).flatMap(({ endpoints: some }) => some ?? [])).toHaveLength(2);
  });

  it('reports which slice could not be written', async () => {
    const life = await runControllers([endpointSlice], { ...plain, seed: (memory) => memory.seed(pods, pod('p', ['10.0.0.1'])) });
    life.api.failNext({ verb: 'create', resource: endpointSlices }, failure('Forbidden', 'no'));
    await life.api.client().create(services, service({ selector: { app: 'web' } }));
    await life.clock.settle();
    expect(life.messages('FailedToUpdateEndpointSlices')).toEqual([
      'Error updating Endpoint Slices for Service d/web: failed to create EndpointSlice for Service d/web: no',
    ]);
  });

  it('publishes pods of nodes that do not exist for publishNotReadyAddresses', async () => {
    const life = await runControllers([endpointSlice], { ...plain, seed: (memory) => memory.seed(pods, pod('p', ['10.0.0.1'])) });
    await life.api.client().create(services, service({ selector: { app: 'web' }, publishNotReadyAddresses: true }));
    await life.clock.settle();
    expect(slices(life.api).flatMap(({ endpoints: some }) => some ?? [])).toMatchObject([{ addresses: ['10.0.0.1'], nodeName: 'n1' }]);
    expect(life.messages('FailedToUpdateEndpointSlices')).toEqual([]);
  });

  it('keeps the endpoints of a Service that ends current, and creates no more slices', async () => {
    const { api, clock } = await runControllers([endpointSlice], {
      ...plain,
      seed: (memory) => {
        memory.seed(nodes, n1);
        memory.seed(pods, pod('p', ['10.0.0.1']));
      },
    });
    const { metadata, ...rest } = service({ selector: { app: 'web' } });
    const finalizers = ['service.kubernetes.io/load-balancer-cleanup'];
    await api.client().create(services, { ...rest, metadata: { ...metadata, finalizers } });
    await clock.settle();
    await api.client().delete(services, at('web'));
    api.seed(pods, pod('q', ['10.0.0.2']));
    await clock.settle();
    expect(slices(api).map(({ endpoints: some }) => some?.length)).toEqual([2]);
    await api.client().delete(endpointSlices, at(slices(api)[0]?.metadata?.name ?? ''));
    await clock.settle();
    expect(slices(api)).toEqual([]);
  });

  it('keeps the name of a slice when endpoints appear, change their ports and disappear', async () => {
    const { api, clock } = await runControllers([endpointSlice], { ...plain, seed: (memory) => void memory.seed(nodes, n1) });
    await api.client().create(services, service({ selector: { app: 'web' } }));
    await clock.settle();
    const [{ metadata } = {}] = slices(api);
    const now = () =>
      slices(api).map(({ metadata: { uid } = {}, ports, endpoints: some }) => [uid, ports?.map(({ port }) => port), some?.length]);
    expect(now()).toEqual([[metadata?.uid, [], 0]]);
    api.seed(pods, pod('p', ['10.0.0.1']));
    await clock.settle();
    expect(now()).toEqual([[metadata?.uid, [8080], 1]]);
    await api.client().patch(services, at('web'), 'merge', { spec: { ports: [{ name: 'http', port: 80, targetPort: 9090 }] } });
    await clock.settle();
    expect(now()).toEqual([[metadata?.uid, [9090], 1]]);
    api.remove(pods, at('p'));
    await clock.settle();
    expect(now()).toEqual([[metadata?.uid, [], 0]]);
  });

  it('adds node hints without a known zone', async () => {
    const { api, clock } = await runControllers([endpointSlice], {
      ...plain,
      seed: (memory) => {
        memory.seed(nodes, { apiVersion: 'v1', kind: 'Node', metadata: { name: 'n1' } });
        memory.seed(pods, pod('p', ['10.0.0.1']));
      },
    });
    await api.client().create(services, service({ selector: { app: 'web' }, trafficDistribution: 'PreferSameNode' }));
    await clock.settle();
    expect(slices(api)[0]?.endpoints?.[0]?.hints).toEqual({ forNodes: [{ name: 'n1' }] });
    await api.client().patch(services, at('web'), 'merge', { spec: { trafficDistribution: 'PreferSameZone' } });
    await clock.settle();
    expect(slices(api)[0]?.endpoints?.[0]?.hints).toBeUndefined();
  });

  it('and EndpointsController annotate the time of the change', async () => {
    const { api, clock } = await runControllers([endpointSlice, endpointsLoop], {
      ...plain,
      seed: (memory) => void memory.seed(nodes, n1),
    });
    const noted = () =>
      [slices(api)[0], api.object(endpoints, at('web'))].map(
        (each) => each?.metadata?.annotations?.['endpoints.kubernetes.io/last-change-trigger-time'],
      );
    const ready = (name: string, ip: string, lastTransitionTime: string) =>
      api.seed(
        pods,
        pod(name, [ip], {
          status: { phase: 'Running', podIP: ip, podIPs: [{ ip }], conditions: [{ type: 'Ready', status: 'True', lastTransitionTime }] },
        }),
      );
    await api.client().create(services, service({ selector: { app: 'web' } }));
    await clock.settle();
    const created = api.object(services, at('web'))?.metadata?.creationTimestamp;
    expect(noted()).toEqual([created, created]);
    ready('p', '10.0.0.1', '2026-01-01T00:00:07Z');
    await clock.settle();
    expect(noted()).toEqual(['2026-01-01T00:00:07Z', '2026-01-01T00:00:07Z']);
    ready('q', '10.0.0.2', '2026-01-01T00:00:09Z');
    await clock.settle();
    expect(noted()).toEqual(['2026-01-01T00:00:09Z', '2026-01-01T00:00:09Z']);
    // a deletion has no time
    api.remove(pods, at('q'));
    await clock.settle();
    expect(noted()).toEqual([undefined, undefined]);
  });

  it('adds hints for the traffic distribution of the Service', async () => {
    const { api, clock } = await runControllers([endpointSlice], {
      ...plain,
      seed: (memory) => {
        memory.seed(nodes, { apiVersion: 'v1', kind: 'Node', metadata: { name: 'n1', labels: { 'topology.kubernetes.io/zone': 'a' } } });
        memory.seed(pods, pod('p', ['10.0.0.1']));
      },
    });
    await api.client().create(services, service({ selector: { app: 'web' } }));
    await clock.settle();
    const hints = () => slices(api)[0]?.endpoints?.[0]?.hints;
    expect(hints()).toBeUndefined();
    await api.client().patch(services, at('web'), 'merge', { spec: { trafficDistribution: 'PreferClose' } });
    await clock.settle();
    expect(hints()).toEqual({ forZones: [{ name: 'a' }] });
    await api.client().patch(services, at('web'), 'merge', { spec: { trafficDistribution: 'PreferSameNode' } });
    await clock.settle();
    expect(hints()).toEqual({ forZones: [{ name: 'a' }], forNodes: [{ name: 'n1' }] });
    await api.client().patch(nodes, { name: 'n1' }, 'merge', { metadata: { labels: { 'topology.kubernetes.io/zone': 'b' } } });
    await clock.settle();
    expect(slices(api)[0]?.endpoints?.[0]).toMatchObject({ zone: 'b', hints: { forZones: [{ name: 'b' }] } });
  });
});

describe('topology hints', () => {
  const node = (name: string, zone: string, cpu: string, ready = 'True') => ({
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name, labels: { 'topology.kubernetes.io/zone': zone } },
    status: { allocatable: { cpu }, conditions: [{ type: 'Ready', status: ready }] },
  });
  const on = (name: string, nodeName: string) =>
    pod(name, [`10.0.0.${name}`], { spec: { nodeName, containers: [{ name: 'c', image: 'a' }] } });
  const auto = {
    ...service({ selector: { app: 'web' } }),
    metadata: { namespace: 'd', name: 'web', annotations: { 'service.kubernetes.io/topology-mode': 'Auto' } },
  };
  const zones = (api: MemoryApi) => {
    const counts: Record<string, number> = {};
    for (const { hints } of slices(api).flatMap(({ endpoints: some }) => some ?? []))
      for (const { name } of hints?.forZones ?? []) counts[name] = (counts[name] ?? 0) + 1;
    return counts;
  };

  it('are allocated by the CPU of zones and stable without changes', async () => {
    const { api, clock } = await runControllers([endpointSlice], {
      ...plain,
      seed: (memory) => {
        memory.seed(nodes, node('a1', 'a', '8'), node('b1', 'b', '4'), node('c1', 'c', '4'), node('gone', 'z', '64', 'Unknown'));
        memory.seed(pods, ...['1', '2', '3', '4', '5', '6', '7', '8'].map((name) => on(name, name < '7' ? 'a1' : 'b1')));
        memory.seed(services, auto);
      },
    });
    await clock.settle();
    expect(zones(api)).toEqual({ a: 4, b: 2, c: 2 });
    const version = slices(api)[0]?.metadata?.resourceVersion;
    await api.client().patch(nodes, { name: 'a1' }, 'merge', { metadata: { labels: { other: 'x' } } });
    await clock.settle();
    expect(slices(api)[0]?.metadata?.resourceVersion).toBe(version);
    // a zone that grows gets more endpoints
    api.seed(nodes, node('c2', 'c', '16'));
    await clock.settle();
    expect(zones(api)['c']).toBeGreaterThan(2);
  });

  it('are reported when they begin and while they cannot be allocated', async () => {
    const life = await runControllers([endpointSlice], {
      ...plain,
      seed: (memory) => {
        memory.seed(nodes, node('a1', 'a', '4'), node('b1', 'b', '4'));
        memory.seed(pods, on('1', 'a1'), on('2', 'b1'));
        memory.seed(services, auto);
      },
    });
    const { api, clock } = life;
    await clock.settle();
    const enabled = 'Topology Aware Hints has been enabled, addressType: IPv4';
    expect(life.messages('TopologyAwareHintsEnabled')).toEqual([enabled]);
    expect(life.messages('TopologyAwareHintsDisabled')).toEqual([]);
    api.remove(pods, at('2'));
    await clock.settle();
    const tooFew = 'Insufficient number of endpoints (1 endpoints, 2 zones), addressType: IPv4';
    expect(new Set(life.messages('TopologyAwareHintsDisabled'))).toEqual(new Set([tooFew]));
    api.seed(pods, on('2', 'b1'));
    await clock.settle();
    expect(life.messages('TopologyAwareHintsEnabled')).toEqual([enabled, enabled]);
    await api.client().patch(services, at('web'), 'merge', { metadata: { annotations: null } });
    await clock.settle();
    expect(zones(api)).toEqual({});
    expect(life.messages('TopologyAwareHintsDisabled').at(-1)).toBe('Topology Aware Hints has been disabled, addressType: IPv4');
  });

  it('are allocated to the endpoints of all ports together, and begin once for both families', async () => {
    const named = (name: string, nodeName: string, containerPort: number) => ({
      ...pod(name, [`10.0.0.${name}`, `fd00::${name}`]),
      spec: { nodeName, containers: [{ name: 'c', image: 'a', ports: [{ name: 'http', containerPort, protocol: 'TCP' }] }] },
    });
    const ports = [{ name: 'http', port: 80, targetPort: 'http', protocol: 'TCP' }];
    const life = await runControllers([endpointSlice], {
      ...plain,
      seed: (memory) => {
        memory.seed(nodes, node('a1', 'a', '4'), node('b1', 'b', '4'));
        memory.seed(pods, named('1', 'a1', 8080), named('2', 'b1', 9090));
        memory.seed(services, { ...auto, spec: { ...auto.spec, ports, ipFamilies: ['IPv4', 'IPv6'] } });
      },
    });
    await life.clock.settle();
    expect(zones(life.api)).toEqual({ a: 2, b: 2 });
    expect(life.messages('TopologyAwareHintsEnabled')).toEqual(['Topology Aware Hints has been enabled, addressType: IPv4']);
    expect(life.messages('TopologyAwareHintsDisabled')).toEqual([]);
  });

  it.each([
    ['a node without a zone', [node('a1', 'a', '4'), node('b1', '', '4')], {}],
    ['one zone', [node('a1', 'a', '4')], {}],
    ['more zones than endpoints', ['a1', 'b1', 'c1', 'd1', 'e1'].map((name) => node(name, name[0] ?? '', '4')), {}],
    ['two zones', [node('a1', 'a', '4'), node('b1', 'b', '4')], { a: 2, b: 2 }],
  ] as const)('with %s', async (_title, all, wanted) => {
    const { api, clock } = await runControllers([endpointSlice], {
      ...plain,
      seed: (memory) => {
        memory.seed(nodes, ...all);
        memory.seed(pods, on('1', 'a1'), on('2', 'a1'), on('3', 'a1'), on('4', 'a1'));
        memory.seed(services, auto);
      },
    });
    await clock.settle();
    expect(zones(api)).toEqual(wanted);
  });
});

const byHand = (ips: readonly string[], notReady: readonly string[] = []): Endpoints => ({
  apiVersion: 'v1',
  kind: 'Endpoints',
  metadata: {
    namespace: 'd',
    name: 'web',
    labels: { mine: 'yes' },
    annotations: { note: 'x', 'kubectl.kubernetes.io/last-applied-configuration': '{}' },
  },
  subsets: [
    {
      addresses: ips.map((ip) => ({ ip })),
      ...(notReady.length > 0 && { notReadyAddresses: notReady.map((ip) => ({ ip })) }),
      ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
    },
  ],
});

describe('EndpointSliceMirroring', () => {
  it('should mirror a custom Endpoints resource through create update and delete', async () => {
    const { api, clock } = await runControllers([mirroring], plain);
    await api.client().create(services, service());
    await api.client().create(endpoints, byHand(['10.1.2.3', 'fd00::3'], ['10.1.2.4']));
    await clock.settle();
    const four = slices(api).find(({ addressType }) => addressType === 'IPv4');
    expect(slices(api)).toHaveLength(2);
    expect(four).toMatchObject({
      metadata: {
        generateName: 'web-',
        labels: {
          mine: 'yes',
          'kubernetes.io/service-name': 'web',
          'endpointslice.kubernetes.io/managed-by': 'endpointslicemirroring-controller.k8s.io',
        },
        annotations: { note: 'x' },
        ownerReferences: [{ kind: 'Endpoints', name: 'web' }],
      },
      ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
      endpoints: [
        { addresses: ['10.1.2.3'], conditions: { ready: true } },
        { addresses: ['10.1.2.4'], conditions: { ready: false } },
      ],
    });
    await api.client().patch(endpoints, at('web'), 'merge', { subsets: byHand(['10.2.3.4']).subsets });
    await clock.settle();
    expect(slices(api).map(({ endpoints: some }) => some?.map(({ addresses }) => addresses[0]))).toEqual([['10.2.3.4']]);
    await api.client().delete(endpoints, at('web'));
    await clock.settle();
    expect(slices(api)).toEqual([]);
  });

  it('keeps the name of a slice when the ports change, and writes addresses in canonical form', async () => {
    const { api, clock } = await runControllers([mirroring], plain);
    await api.client().create(services, service());
    await api.client().create(endpoints, byHand(['010.01.2.3']));
    await clock.settle();
    const [before] = slices(api);
    expect(before?.endpoints).toMatchObject([{ addresses: ['10.1.2.3'] }]);
    const [subset] = byHand(['10.1.2.3']).subsets ?? [];
    await api.client().patch(endpoints, at('web'), 'merge', { subsets: [{ ...subset, ports: [{ name: 'http', port: 9090 }] }] });
    await clock.settle();
    expect(slices(api)).toMatchObject([{ metadata: { name: before?.metadata?.name }, ports: [{ port: 9090 }] }]);
  });

  it('mirrors an address once, as it was listed last', async () => {
    const { api, clock } = await runControllers([mirroring], plain);
    await api.client().create(services, service());
    await api.client().create(endpoints, byHand(['10.1.2.3', '10.1.2.4', '10.1.2.3'], ['10.1.2.4']));
    await clock.settle();
    expect(slices(api).map(({ endpoints: some }) => some)).toEqual([
      [
        { addresses: ['10.1.2.3'], conditions: { ready: true } },
        { addresses: ['10.1.2.4'], conditions: { ready: false } },
      ],
    ]);
  });

  it('keeps and updates the slices of Endpoints that are being deleted, and creates none', async () => {
    const { api, clock } = await runControllers([mirroring], plain);
    await api.client().create(services, service());
    const held = byHand(['10.1.2.3']);
    await api.client().create(endpoints, { ...held, metadata: { ...held.metadata, finalizers: ['example.com/hold'] } });
    await clock.settle();
    await api.client().delete(endpoints, at('web'));
    await api.client().patch(endpoints, at('web'), 'merge', { subsets: byHand(['10.2.3.4', 'fd00::3']).subsets });
    await clock.settle();
    expect(slices(api).map(({ endpoints: some }) => some?.map(({ addresses }) => addresses[0]))).toEqual([['10.2.3.4']]);
    await api.client().patch(endpoints, at('web'), 'merge', { metadata: { finalizers: null } });
    await clock.settle();
    expect(slices(api)).toEqual([]);
  });

  it('reports no Event when a slice cannot be written', async () => {
    const life = await runControllers([mirroring], plain);
    life.api.failNext({ verb: 'create', resource: endpointSlices }, failure('Forbidden', 'no'));
    await life.api.client().create(services, service());
    await life.api.client().create(endpoints, byHand(['10.1.2.3']));
    await life.clock.advance(60_000);
    expect(life.messages('FailedToUpdateEndpointSlices')).toEqual([]);
    expect(slices(life.api)).toHaveLength(1);
  });

  it('does not mirror Endpoints that are managed or opt out', async () => {
    const { api, clock } = await runControllers([mirroring], plain);
    await api.client().create(services, service({ selector: { app: 'web' } }));
    await api.client().create(endpoints, byHand(['10.1.2.3']));
    await clock.settle();
    expect(slices(api)).toEqual([]);
    await api.client().patch(services, at('web'), 'merge', { spec: { selector: null } });
    await clock.settle();
    expect(slices(api)).toHaveLength(1);
    await api
      .client()
      .patch(endpoints, at('web'), 'merge', { metadata: { labels: { 'endpointslice.kubernetes.io/skip-mirror': 'true' } } });
    await clock.settle();
    expect(slices(api)).toEqual([]);
  });
});

controllerPluginContract(mirroring, [
  {
    title: 'publishes endpoints of two IP families, then of one',
    steps: [
      async (api) => {
        await api.client().create(services, service());
        await api.client().create(endpoints, byHand(['10.1.2.3', 'fd00::3']));
      },
      async (api) => {
        await api.client().patch(endpoints, at('web'), 'merge', { subsets: byHand(['10.2.3.4']).subsets });
      },
    ],
    expectResult: (api) => {
      expect(slices(api).map(({ addressType, endpoints: some }) => [addressType, some?.[0]?.addresses])).toEqual([['IPv4', ['10.2.3.4']]]);
    },
  },
]);
