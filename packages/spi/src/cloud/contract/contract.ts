import type { Node, Service } from '@oarlock/api/types/core-v1';
import { beforeEach, describe, expect, it } from 'vitest';
import type { CloudProvider } from '../cloud.ts';

/** Access to the cloud provider under test, provided by the package of the cloud provider. */
export interface CloudFixture {
  readonly cloud: CloudProvider;
  /** Nodes whose cloud instances exist (at least one); the next field is a node whose instance does not exist. */
  readonly known: readonly Node[];
  readonly unknown?: Node;
  /** Stores a Service status where the cloud provider reads Services. */
  storeStatus?(service: Service): Promise<void>;
  dispose(): Promise<void>;
}

const service = (name: string, port = 80, spec: Service['spec'] = {}): Service => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { namespace: 'default', name, uid: `uid-of-${name}` },
  spec: { type: 'LoadBalancer', ports: [{ name: 'p', port, protocol: 'TCP' }], ...spec },
});

/** Declares the tests that every cloud provider must pass. Parts that the provider does not have are skipped. */
export function cloudContract(name: string, open: () => Promise<CloudFixture>): void {
  describe(`cloud/v1 contract: ${name}`, () => {
    let fixture: CloudFixture;
    const { signal } = new AbortController();
    beforeEach(async () => {
      fixture = await open();
      return () => fixture.dispose();
    });

    it('has a name', () => {
      expect(fixture.cloud.name).toMatch(/^[a-z0-9][a-z0-9-]*$/);
    });

    describe('nodes', () => {
      it('have stable, distinct provider ids', async (context) => {
        const { cloud, known, unknown } = fixture;
        if (cloud.nodes === undefined) return context.skip('it knows no nodes');
        const ids = new Set<string>();
        for (const node of known) {
          const instance = await cloud.nodes.instance(node, signal);
          expect(instance?.providerID).toMatch(/^[a-z0-9-]+:\/\/.+/);
          expect(await cloud.nodes.instance(node, signal)).toEqual(instance);
          ids.add(instance?.providerID ?? '');
        }
        expect(ids.size).toBe(known.length);
        if (unknown !== undefined) expect(await cloud.nodes.instance(unknown, signal)).toBeUndefined();
      });
    });

    describe('routes', () => {
      it('exist until they are removed; create and remove are idempotent', async (context) => {
        const { cloud, known } = fixture;
        const { routes } = cloud;
        if (routes === undefined) return context.skip('it has no routes');
        const before = await routes.list(signal);
        const route = { nodeName: known[0]?.metadata?.name ?? '', destinationCIDR: '10.244.77.0/24' };
        await routes.create(route, signal);
        await routes.create(route, signal);
        const [created, ...more] = (await routes.list(signal)).filter(({ destinationCIDR }) => destinationCIDR === route.destinationCIDR);
        expect(created).toMatchObject(route);
        expect(more).toEqual([]);
        if (created === undefined) return;
        await routes.remove(created, signal);
        await routes.remove(created, signal);
        expect(await routes.list(signal)).toEqual(before);
      });
    });

    describe('load balancers', () => {
      const ensure = async (desired: Service) => {
        const status = await fixture.cloud.loadBalancers?.ensure(desired, fixture.known, signal);
        await fixture.storeStatus?.({ ...desired, status: { loadBalancer: status ?? {} } });
        return status;
      };

      it('keep their address', async (context) => {
        if (fixture.cloud.loadBalancers === undefined) return context.skip('it has no load balancers');
        const first = await ensure(service('a'));
        expect((first?.ingress ?? []).length).toBeGreaterThan(0);
        for (const { ip, hostname } of first?.ingress ?? []) expect(ip ?? hostname).toBeTruthy();
        expect(await ensure(service('a'))).toEqual(first);
        expect(await ensure({ ...service('a'), status: { loadBalancer: first ?? {} } })).toEqual(first);
        await ensure(service('b', 81));
        expect(await ensure(service('a'))).toEqual(first);
      });

      it('do not share a port of an address', async (context) => {
        if (fixture.cloud.loadBalancers === undefined) return context.skip('it has no load balancers');
        const addresses = new Set<string>();
        let count = 0;
        for (const name of ['a', 'b', 'c']) {
          const status = await ensure(service(name)).catch(() => undefined); // there may be one address only
          for (const { ip, hostname } of status?.ingress ?? []) {
            addresses.add(ip ?? hostname ?? '');
            count += 1;
          }
        }
        expect(addresses.size).toBe(count);
        expect(count).toBeGreaterThan(0);
      });

      it('are removed idempotently, and their address becomes free', async (context) => {
        const { loadBalancers } = fixture.cloud;
        if (loadBalancers === undefined) return context.skip('it has no load balancers');
        const status = await ensure(service('a'));
        const created = { ...service('a'), status: { loadBalancer: status ?? {} } };
        await loadBalancers.remove(created, signal);
        await fixture.storeStatus?.({ ...created, status: { loadBalancer: {} } });
        await loadBalancers.remove(service('a'), signal);
        await loadBalancers.remove(service('never'), signal);
        expect((await ensure(service('b')))?.ingress?.length).toBeGreaterThan(0);
      });
    });
  });
}
