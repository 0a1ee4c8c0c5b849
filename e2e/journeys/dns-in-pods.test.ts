import { beforeAll, describe, expect, it } from 'vitest';
import type { Cluster } from '../harness/cluster.ts';
import { composition, type ClusterSpec } from '../harness/composition.ts';
import { everythingIsNeeded, Machine } from '../harness/machine.ts';
import { netnsMissing } from '../harness/netns.ts';
import { listPlugins } from '../harness/oarlock.ts';
import { untilValue } from '../harness/until.ts';

const [plugins, noNetns] = await Promise.all([listPlugins(), netnsMissing()]);
const calico = plugins.find(({ id }) => id === 'network-calico');
const reason = noNetns ?? (calico?.available === true ? undefined : (calico?.because ?? 'network-calico is not installed'));

/** A DNS server that a user installs into the cluster: it answers every A query with one address. */
const server = `
const socket = require('node:dgram').createSocket('udp4');
socket.on('message', (query, { port, address }) => {
  const question = query.subarray(12, query.indexOf(0, 12) + 5);
  const head = Buffer.from([query[0], query[1], 0x85, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
  const answer = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4, 192, 0, 2, 53]);
  socket.send(Buffer.concat([head, question, answer]), port, address);
});
socket.bind(53);`;
const ask = (address: string) =>
  `const r = new (require('node:dns').promises.Resolver)(); r.setServers(['${address}']); r.resolve4('any.test').then((all) => console.log(all.join()))`;

const pod = (name: string, command: readonly string[]) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, namespace: 'kube-system', labels: { app: 'dns-test', 'k8s-app': name } },
  spec: { terminationGracePeriodSeconds: 1, containers: [{ name: 'main', image: 'host', command }] },
});

describe.skipIf(reason !== undefined && !everythingIsNeeded)(
  `a DNS server in pods instead of the dns-server plugin${reason === undefined ? '' : ` (${reason})`}`,
  () => {
    const machine = Machine.use();
    let cluster: Cluster;
    let address: string;

    beforeAll(async () => {
      const { dns, ...spec }: ClusterSpec = composition({ storage: 'memory', runtime: 'process', network: 'calico' });
      expect(dns).toBe('dns-server');
      cluster = await machine.cluster({ spec });
      const { spec: api } = await cluster.api.get<{ spec: { clusterIP: string } }>('/api/v1/namespaces/default/services/kubernetes');
      address = api.clusterIP.replace(/\.1$/, '.10');
      await cluster.kubectl.apply([
        pod('kube-dns', [process.execPath, '-e', server]),
        pod('asker', ['sleep', '3600']),
        {
          apiVersion: 'v1',
          kind: 'Service',
          metadata: { name: 'kube-dns', namespace: 'kube-system' },
          spec: { clusterIP: address, selector: { 'k8s-app': 'kube-dns' }, ports: [{ name: 'dns', port: 53, protocol: 'UDP' }] },
        },
      ]);
      await cluster.api.untilReady('kube-system', 'dns-test', 2);
    });

    it('has the address that kubelets write into resolv.conf', async () => {
      const { items } = await cluster.api.get<{ items: readonly { readonly metadata: { readonly name: string } }[] }>('/api/v1/nodes');
      const config = await cluster.api.get<{ kubeletconfig: { clusterDNS: readonly string[] } }>(
        `/api/v1/nodes/${items[0]?.metadata.name}/proxy/configz`,
      );
      expect(config.kubeletconfig.clusterDNS).toEqual([address]);
    });

    it('answers pods through its Service', async () => {
      const exec = ['exec', '-n', 'kube-system', 'asker', '--', process.execPath, '-e', ask(address)];
      await untilValue(
        'a response of the server in a pod',
        async () => (await cluster.kubectl.try(exec)).stdout,
        (output) => output === '192.0.2.53\n',
      );
    });
  },
);
