import { expect, it } from 'vitest';
import type { Item } from '../../harness/api.ts';
import { untilValue } from '../../harness/until.ts';
import type { TwoNodes } from './two-nodes.ts';

/** DNS names, EndpointSlices and Endpoints. */
export function nameBehaviours(two: TwoNodes): void {
  /** The addresses that a pod resolves. */
  const looksUp = async (name: string, pod?: string): Promise<readonly string[]> => {
    const output = await two.run(`nslookup ${name} 2>/dev/null | sed -n '/^Name:/,$p' | sed -n 's/^Address: *//p' | sort -u`, pod);
    return output === '' ? [] : output.split('\n');
  };
  const finds = (name: string, wanted: readonly string[], pod?: string) =>
    untilValue(
      `${name} is ${wanted.join()}`,
      () => looksUp(name, pod),
      (seen) => seen.join() === [...wanted].sort().join(),
    );
  const slices = (service: string) =>
    `${two.at('discovery.k8s.io/v1/endpointslices')}?labelSelector=kubernetes.io%2Fservice-name%3D${service}`;
  type Slice = Item & {
    addressType: string;
    endpoints: readonly { addresses: readonly string[] }[] | null;
    ports?: readonly { name?: string; port: number }[];
  };

  it('DNS should provide DNS for the cluster; for services; should resolve DNS of partial qualified names for services', async () => {
    const kubernetes = await two.api.get<{ spec: { clusterIP: string } }>('/api/v1/namespaces/default/services/kubernetes');
    const { spec } = await two.service('named');
    for (const node of two.nodes) {
      const pod = `client-${node}`;
      await finds('kubernetes.default.svc.cluster.local.', [kubernetes.spec.clusterIP], pod);
      await finds(`named.${two.namespace}.svc.cluster.local.`, [spec.clusterIP], pod);
      for (const partial of ['named', `named.${two.namespace}`, `named.${two.namespace}.svc`])
        await two.answers(partial, ['server-node-a', 'server-node-b'], { pod });
    }
    const service = `named.${two.namespace}.svc.cluster.local`;
    await two.untilOutput(`nslookup -type=srv _http._tcp.${service}.`, (output) => output.includes(` ${service}`));
    await two.untilOutput(`nslookup ${spec.clusterIP}`, (output) => output.includes(`name = ${service}`));
  });

  it('DNS should provide DNS for pods for Hostname; for pods for Subdomain', async () => {
    await two.service('peers', { clusterIP: 'None', selector: { app: 'peer' } });
    const { status } = await two.server('peer-1', 'node-b', { app: 'peer' }, { hostname: 'first', subdomain: 'peers' });
    await finds(`first.peers.${two.namespace}.svc.cluster.local.`, [status.podIP ?? '']);
    await finds(`peers.${two.namespace}.svc.cluster.local.`, [status.podIP ?? '']);
    expect(await two.run('hostname -f; hostname', 'peer-1')).toBe(`first.peers.${two.namespace}.svc.cluster.local\nfirst`);
  });

  it('DNS should provide DNS for ExternalName services', async () => {
    await two.service('outside', { type: 'ExternalName', externalName: 'foo.example.com', selector: undefined, ports: undefined });
    await two.untilOutput(`nslookup -type=cname outside.${two.namespace}.svc.cluster.local.`, (output) =>
      output.includes('canonical name = foo.example.com'),
    );
  });

  it('DNS should provide /etc/hosts entries for the cluster; should support configurable pod DNS nameservers', async () => {
    expect(await two.run('cat /etc/hosts')).toMatch(/^127\.0\.0\.1\s+localhost$/m);
    await two.server(
      'own-dns',
      'node-b',
      { app: 'own-dns' },
      { dnsPolicy: 'None', dnsConfig: { nameservers: ['1.1.1.1'], searches: ['resolv.conf.local'] } },
    );
    expect(await two.run('cat /etc/resolv.conf', 'own-dns')).toBe('search resolv.conf.local\nnameserver 1.1.1.1');
  });

  it('EndpointSlice should create Endpoints and EndpointSlices for Pods matching a Service; should create and delete them for a Service with a selector', async () => {
    await two.service('sliced');
    const counts = (count: number) =>
      two.api.until<Slice>(
        `${count} endpoints`,
        slices('sliced'),
        (all) => all.flatMap(({ endpoints }) => endpoints ?? []).length === count,
      );
    await counts(2);
    await two.api.until<Item & { subsets?: readonly { addresses: readonly object[] }[] }>(
      'Endpoints of two addresses',
      `${two.at('endpoints')}?fieldSelector=metadata.name%3Dsliced`,
      ([one]) => one?.subsets?.[0]?.addresses.length === 2,
    );
    await two.remove(`${two.at('services')}/sliced`);
    await two.api.until<Slice>('no slices', slices('sliced'), (all) => all.length === 0);
    const gone = async () => (await two.api.call('GET', `${two.at('endpoints')}/sliced`)).status;
    await untilValue('no Endpoints', gone, (status) => status === 404);
  });

  it('EndpointSlice should support a Service with multiple ports specified in multiple EndpointSlices; with multiple endpoint IPs', async () => {
    const addressOf = async (node: string) =>
      (await two.api.get<{ status: { podIP: string } }>(`${two.at('pods')}/server-${node}`)).status.podIP;
    const { spec } = await two.service('by-hand', {
      selector: undefined,
      ports: [
        { name: 'one', port: 80 },
        { name: 'two', port: 81 },
      ],
    });
    const slice = (name: string, port: string, addresses: readonly string[]) =>
      two.create(two.at('discovery.k8s.io/v1/endpointslices'), {
        metadata: { name, labels: { 'kubernetes.io/service-name': 'by-hand' } },
        addressType: 'IPv4',
        ports: [{ name: port, port: 8080, protocol: 'TCP' }],
        endpoints: addresses.map((address) => ({ addresses: [address] })),
      });
    const [a, b] = [await addressOf('node-a'), await addressOf('node-b')];
    await slice('by-hand-one', 'one', [a, b]);
    await slice('by-hand-two', 'two', [b]);
    await two.answers(spec.clusterIP, ['server-node-a', 'server-node-b']);
    await two.answers(spec.clusterIP, ['server-node-b'], { port: 81 });
  });

  it('EndpointSliceMirroring should mirror a custom Endpoints resource through create update and delete', async () => {
    await two.service('mirrored', { selector: undefined });
    const subsets = (ip: string) => [{ addresses: [{ ip }], ports: [{ name: 'http', port: 8080 }] }];
    const shows = (wanted: readonly string[]) =>
      two.api.until<Slice>(
        `mirrored ${wanted.join()}`,
        slices('mirrored'),
        (all) => all.flatMap(({ endpoints }) => (endpoints ?? []).flatMap(({ addresses }) => addresses)).join() === wanted.join(),
      );
    await two.create(two.at('endpoints'), { metadata: { name: 'mirrored' }, subsets: subsets('10.1.2.3') });
    const [created] = await shows(['10.1.2.3']);
    expect(created?.metadata.labels?.['endpointslice.kubernetes.io/managed-by']).toBe('endpointslicemirroring-controller.k8s.io');
    await two.merge(`${two.at('endpoints')}/mirrored`, { subsets: subsets('10.2.3.4') });
    await shows(['10.2.3.4']);
    await two.remove(`${two.at('endpoints')}/mirrored`);
    await shows([]);
  });
}
