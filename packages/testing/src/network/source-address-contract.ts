import { writeFileSync } from 'node:fs';
import type { ServiceProxy } from '@oarlock/spi/proxy';
import { endpoint, servicePort } from '@oarlock/spi/proxy/contract';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { NamespacedHost } from './internal/namespaced-host.ts';
import { ip } from './network-namespace.ts';

const [server, client, outside] = ['10.244.0.5', '10.244.0.6', '198.51.100.7'];
const [toServer, toClient, toOutside] = ['10.244.0.1', '10.244.0.2', '198.51.100.1'];
const cluster = '10.96.0.7';

/** A started proxy that programs the kernel. */
type KernelProxy = ServiceProxy & { clear(): Promise<void> };
export type MakeProxy = (options: { readonly podCIDRs: readonly string[]; readonly masqueradeAll: boolean }) => Promise<KernelProxy>;

/** A service proxy with one Service, and clients in a pod, at the endpoint and outside of the cluster. */
interface SourceAddressFixture {
  apply(more?: Partial<Parameters<typeof servicePort>[1]>, masqueradeAll?: boolean): Promise<void>;
  clear(): Promise<void>;
  /** Returns the source address that the endpoint sees, or the error of the request. */
  request(from: 'client' | 'outside' | 'server', address: string, port: number): Promise<string | undefined>;
}

/**
 * Tests the source address that endpoints see for clients in pods, outside of the cluster and on the node. Runs in a network namespace of
 * the test.
 */
export function sourceAddressContract(make: MakeProxy): void {
  describe('source address at the endpoint', { timeout: 300_000 }, () => {
    const machines: Record<string, NamespacedHost> = {};
    let proxy: KernelProxy;
    beforeAll(async () => {
      ip('link', 'set', 'lo', 'up');
      writeFileSync('/proc/sys/net/ipv4/ip_forward', '1');
      machines['server'] = await NamespacedHost.connect('server', server, toServer);
      machines['client'] = await NamespacedHost.connect('client', client, toClient);
      machines['outside'] = await NamespacedHost.connect('outside', outside, toOutside);
      ip('route', 'add', 'default', 'via', outside);
      await machines['server'].serveClientAddress(server, 8080);
    }, 300_000);
    afterAll(async () => {
      for (const machine of Object.values(machines)) await machine.close();
    });
    const clear = () => proxy.clear();
    afterEach(clear);

    const apply: SourceAddressFixture['apply'] = async (more = {}, masqueradeAll = false) => {
      proxy = await make({ podCIDRs: ['10.244.0.0/16'], masqueradeAll });
      await proxy.apply({
        replace: true,
        removed: [],
        set: [servicePort('d/web:http', { port: 80, clusterIPs: [cluster], endpoints: [endpoint(server, 8080)], ...more })],
      });
    };
    const request: SourceAddressFixture['request'] = async (from, address, port) => machines[from]?.request(address, port);
    const fixture: SourceAddressFixture = { apply, clear, request };
    testMasquerade(fixture);
    testTrafficPolicy(fixture);
  });
}

function testMasquerade({ apply, clear, request }: SourceAddressFixture): void {
  it("is the pod's address", async () => {
    await apply();
    expect(await request('client', cluster, 80)).toBe(client);
  });

  it("is the node's address for every pod with masqueradeAll", async () => {
    await apply({}, true);
    expect(await request('client', cluster, 80)).toBe(toServer);
  });

  it("is the node's address for a client outside of the pod CIDRs", async () => {
    await apply();
    expect(await request('outside', cluster, 80)).toBe(toServer);
  });

  it("is the node's address for a pod that reaches itself through its Service", async () => {
    await apply();
    expect(await request('server', cluster, 80)).toBe(toServer);
  });

  it("is the node's address at a node port, and the client's address with policy Local", async () => {
    await apply({ nodePort: 30_080 });
    expect(await request('outside', toOutside, 30_080)).toBe(toServer);
    await clear();
    await apply({ nodePort: 30_080, externalLocal: true });
    expect(await request('outside', toOutside, 30_080)).toBe(outside);
  });
}

function testTrafficPolicy({ apply, clear, request }: SourceAddressFixture): void {
  it("is the pod's address at an external IP with policy Local, even without an endpoint on this node", async () => {
    const elsewhere = { endpoints: [endpoint(server, 8080, { local: false })], externalIPs: ['192.0.2.9'], externalLocal: true };
    await apply(elsewhere);
    expect(await request('client', '192.0.2.9', 80)).toBe(client);
    expect(await request('outside', '192.0.2.9', 80)).toBe('no answer');
    await clear();
    await apply({ ...elsewhere, internalLocal: true });
    expect(await request('client', cluster, 80)).toBe('no answer');
    expect(await request('client', '192.0.2.9', 80)).toBe(client);
  });

  it('is undefined for clients outside of the load balancer source ranges, whose packets are dropped', async () => {
    await apply({ loadBalancerIPs: ['192.0.2.9'], loadBalancerSourceRanges: [`${client}/32`] });
    expect(await request('client', '192.0.2.9', 80)).toBe(toServer);
    expect(await request('outside', '192.0.2.9', 80)).toBe('no answer');
  });

  it('is undefined without an endpoint: the client gets ECONNREFUSED immediately', async () => {
    await apply({ endpoints: [], nodePort: 30_080 });
    expect(await request('client', cluster, 80)).toBe('ECONNREFUSED');
    expect(await request('outside', toOutside, 30_080)).toBe('ECONNREFUSED');
  });
}
