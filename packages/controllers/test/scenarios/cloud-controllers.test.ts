import { nodes, services } from '@oarlock/api/resources';
import type { Node, Service } from '@oarlock/api/types/core-v1';
import cloudNode from '@oarlock/controllers/cloud/cloud-node-controller';
import route from '@oarlock/controllers/cloud/route-controller';
import serviceLoadBalancer from '@oarlock/controllers/cloud/service-load-balancer-controller';
import { Cloud, type CloudInstance, type CloudProvider, type CloudRoute } from '@oarlock/spi/cloud';
import { controllerPluginContract, type RecordedEvent } from '@oarlock/testing/controller-contract';
import type { MemoryApi } from '@oarlock/testing/memory-api';
import { describe, expect } from 'vitest';

const at = (name: string) => ({ namespace: 'd', name });
const cleanup = 'service.kubernetes.io/load-balancer-cleanup';
const balanced = (name: string, spec: Service['spec'] = {}): Service => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { namespace: 'd', name },
  spec: { type: 'LoadBalancer', ports: [{ port: 80 }], ...spec },
});
const node = (name: string, { ready = 'True', ...more }: { ready?: string; taints?: readonly string[]; podCIDR?: string } = {}): Node => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name },
  spec: {
    ...(more.taints && { taints: more.taints.map((key) => ({ key, effect: 'NoSchedule' })) }),
    ...(more.podCIDR !== undefined && { podCIDR: more.podCIDR, podCIDRs: [more.podCIDR] }),
  },
  status: { conditions: [{ type: 'Ready', status: ready }], addresses: [{ type: 'Hostname', address: name }] },
});
const patch = (api: MemoryApi, name: string, change: object) => api.client().patch(services, at(name), 'merge', change);

/** A cloud in memory that survives restarts of the controllers. */
class MemoryCloud implements CloudProvider {
  readonly name = 'memory';
  readonly balancers = new Map<string, string>();
  readonly machines = new Map<string, CloudInstance>();
  list: CloudRoute[] = [];
  readonly loadBalancers = {
    class: 'example.com/mine',
    ensure: async (service: Service, behind: readonly Node[]) => {
      this.balancers.set(
        service.metadata?.name ?? '',
        behind
          .map(({ metadata }) => metadata?.name)
          .sort()
          .join(),
      );
      return { ingress: [{ ip: '192.0.2.1' }] };
    },
    remove: async ({ metadata }: Service) => void this.balancers.delete(metadata?.name ?? ''),
  };
  readonly nodes = { instance: async ({ metadata }: Node) => this.machines.get(metadata?.name ?? '') };
  readonly routes = {
    list: async () => this.list,
    create: async (wanted: Omit<CloudRoute, 'name'>) => {
      if (!this.list.some(({ destinationCIDR }) => destinationCIDR === wanted.destinationCIDR))
        this.list = [...this.list, { name: `to-${wanted.nodeName}`, ...wanted }];
    },
    remove: async ({ name }: CloudRoute) => void (this.list = this.list.filter((each) => each.name !== name)),
  };
}

const cloud = new MemoryCloud();
const recordedEvents: RecordedEvent[] = [];
const provided = {
  recordedEvents,
  provide: (host: { provide(slot: typeof Cloud, value: CloudProvider): unknown }) => void host.provide(Cloud, cloud),
};
const begin =
  (...machines: readonly [string, Partial<CloudInstance>][]) =>
  () => {
    cloud.balancers.clear();
    cloud.machines.clear();
    cloud.list = [];
    recordedEvents.length = 0;
    for (const [name, machine] of machines)
      cloud.machines.set(name, {
        providerID: `memory://${name}`,
        addresses: [{ type: 'InternalIP', address: '10.0.0.9' }],
        shutdown: false,
        ...machine,
      });
  };
const ips = (api: MemoryApi, name: string) => api.object(services, at(name))?.status?.loadBalancer?.ingress?.map(({ ip }) => ip);
const hasEvent = (reason: string) => recordedEvents.some((event) => event.reason === reason);

describe('ServiceLoadBalancerController', () => {
  controllerPluginContract(
    serviceLoadBalancer,
    [
      {
        title: 'are created for ready nodes and reported in the status; Services of another class are ignored',
        steps: [
          begin(),
          (api) => {
            api.seed(nodes, node('a'), node('b'), node('silent', { ready: 'Unknown' }));
            api.seed(
              services,
              balanced('web'),
              balanced('mine', { loadBalancerClass: 'example.com/mine' }),
              balanced('theirs', { loadBalancerClass: 'example.com/b' }),
              {
                ...balanced('inner'),
                spec: { type: 'ClusterIP' },
              },
            );
          },
          (api) =>
            void api.seed(
              nodes,
              { ...node('c'), metadata: { name: 'c', labels: { 'node.kubernetes.io/exclude-from-external-load-balancers': '' } } },
              node('d'),
            ),
        ],
        expectResult(api) {
          expect(ips(api, 'web')).toEqual(['192.0.2.1']);
          expect(ips(api, 'mine')).toEqual(['192.0.2.1']);
          expect(ips(api, 'theirs')).toBeUndefined();
          expect(api.object(services, at('web'))?.metadata?.finalizers).toEqual([cleanup]);
          expect([...cloud.balancers].sort()).toEqual([
            ['mine', 'a,b,d'],
            ['web', 'a,b,d'],
          ]);
          expect(hasEvent('EnsuringLoadBalancer') && hasEvent('EnsuredLoadBalancer')).toBe(true);
        },
      },
      {
        title: 'are deleted before their Service, and when the Service changes its type',
        steps: [
          begin(),
          (api) => void api.seed(services, balanced('gone'), balanced('changed')),
          (api) => void api.seed(nodes, node('a')),
          async (api) => void (await api.client().delete(services, at('gone'))),
          async (api) => void (await patch(api, 'changed', { spec: { type: 'ClusterIP' } })),
        ],
        expectResult(api) {
          expect(api.object(services, at('gone'))).toBeUndefined();
          expect(api.object(services, at('changed'))?.metadata?.finalizers ?? []).toEqual([]);
          expect(ips(api, 'changed')).toBeUndefined();
          expect([...cloud.balancers]).toEqual([]);
        },
      },
    ],
    provided,
  );
});

describe('CloudNodeController', () => {
  const uninitialized = 'node.cloudprovider.kubernetes.io/uninitialized';
  const labels = (api: MemoryApi) => api.object(nodes, { name: 'a' })?.metadata?.labels ?? {};
  controllerPluginContract(
    cloudNode,
    [
      {
        title: 'initializes new nodes with the data of the cloud',
        steps: [
          begin(['a', { instanceType: 'large', zone: 'z1', region: 'r1' }]),
          (api) => void api.seed(nodes, node('a', { taints: [uninitialized, 'mine'] }), node('later', { taints: [uninitialized] })),
        ],
        expectResult(api) {
          const { spec, status } = api.object(nodes, { name: 'a' }) ?? {};
          expect(spec).toMatchObject({ providerID: 'memory://a', taints: [{ key: 'mine' }] });
          expect(status?.addresses).toEqual([
            { type: 'InternalIP', address: '10.0.0.9' },
            { type: 'Hostname', address: 'a' },
          ]);
          expect(labels(api)).toMatchObject({
            'node.kubernetes.io/instance-type': 'large',
            'topology.kubernetes.io/zone': 'z1',
            'topology.kubernetes.io/region': 'r1',
          });
          // the cloud may register the instance later
          expect(api.object(nodes, { name: 'later' })?.spec?.taints).toMatchObject([{ key: uninitialized }]);
        },
      },
      {
        title: 'deletes unready nodes without an instance and taints those with one that is shut down',
        steps: [
          begin(['down', { shutdown: true }], ['up', {}]),
          (api) =>
            void api.seed(
              nodes,
              node('gone', { ready: 'Unknown' }),
              node('speaks'),
              node('down', { ready: 'Unknown' }),
              node('up', { ready: 'Unknown' }),
            ),
        ],
        expectResult(api) {
          expect(
            api
              .objects(nodes)
              .map(({ metadata }) => metadata?.name)
              .sort(),
          ).toEqual(['down', 'speaks', 'up']);
          expect(api.object(nodes, { name: 'down' })?.spec?.taints).toMatchObject([
            { key: 'node.cloudprovider.kubernetes.io/shutdown', effect: 'NoSchedule' },
          ]);
          expect(api.object(nodes, { name: 'up' })?.spec?.taints ?? []).toEqual([]);
        },
      },
      {
        title: 'removes the shutdown taint when the node is ready again',
        steps: [begin(['a', {}]), (api) => void api.seed(nodes, node('a', { taints: ['node.cloudprovider.kubernetes.io/shutdown'] }))],
        expectResult: (api) => expect(api.object(nodes, { name: 'a' })?.spec?.taints ?? []).toEqual([]),
      },
    ],
    provided,
  );
});

describe('RouteController', () => {
  controllerPluginContract(
    route,
    [
      {
        title: 'creates routes to the pod CIDRs of each node and deletes all others',
        steps: [
          begin(),
          () => {
            cloud.list = [
              { name: 'old', nodeName: 'gone', destinationCIDR: '10.244.9.0/24' },
              { name: 'others', nodeName: 'x', destinationCIDR: '192.0.2.0/24' },
            ];
          },
          (api) => void api.seed(nodes, node('a', { podCIDR: '10.244.1.0/24' }), node('b')),
        ],
        expectResult(api) {
          expect(cloud.list.map(({ name }) => name).sort()).toEqual(['others', 'to-a']);
          const condition = (name: string) =>
            api.object(nodes, { name })?.status?.conditions?.find(({ type }) => type === 'NetworkUnavailable');
          expect(condition('a')).toMatchObject({ status: 'False', reason: 'RouteCreated' });
          expect(condition('b')).toMatchObject({ status: 'True', reason: 'NoRouteCreated' });
        },
      },
    ],
    provided,
  );
});
