import { beforeAll, describe, expect, it } from 'vitest';
import { busyboxImage } from '../fixtures/test-image.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { everythingIsNeeded, Machine } from '../harness/machine.ts';
import { componentMissing } from '../harness/component-availability.ts';
import { untilValue } from '../harness/until.ts';

const reason = await componentMissing.containerd();

const pod = (name: string, more: object = {}) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, labels: { app: 'dns' } },
  spec: { terminationGracePeriodSeconds: 0, containers: [{ name: 'main', image: busyboxImage, command: ['sleep', '3600'] }], ...more },
});
const service = (name: string, spec: object) => ({ apiVersion: 'v1', kind: 'Service', metadata: { name }, spec });

describe.skipIf(reason !== undefined && !everythingIsNeeded)(
  `cluster DNS names, resolved in pods${reason === undefined ? '' : ` (${reason})`}`,
  () => {
    const machine = Machine.use();
    let cluster: Cluster;
    const inPod = async (...command: readonly string[]) => (await cluster.kubectl.try(['exec', 'asker', '--', ...command])).stdout;
    const untilOutputMatches = (wanted: RegExp, ...command: readonly string[]) =>
      untilValue(
        `${command.join(' ')} says ${wanted}`,
        () => inPod(...command),
        (output) => wanted.test(output),
      );
    /** Returns the addresses that nslookup prints after the server's own. */
    const addresses = async (name: string) =>
      [
        ...(await inPod('nslookup', name))
          .split(/Name:/)
          .slice(1)
          .join()
          .matchAll(/Address(?: \d+)?: ([\d.]+)/g),
      ].map(([, address]) => address);
    const known = (name: string, count: number) =>
      untilValue(
        `${name} is known`,
        () => addresses(name),
        (all) => all.length === count,
      );

    beforeAll(async () => {
      const containerd = await machine.containerd();
      cluster = await machine.cluster({ spec: composition({ storage: 'memory', runtime: 'containerd', network: 'bridge', containerd }) });
      await cluster.kubectl.apply([
        pod('asker'),
        pod('db-0', { hostname: 'db-0', subdomain: 'db' }),
        service('web', { selector: { app: 'dns' }, ports: [{ name: 'http', port: 80 }] }),
        service('db', { clusterIP: 'None', selector: { app: 'dns' }, ports: [{ name: 'sql', port: 5432 }] }),
        service('out', { type: 'ExternalName', externalName: 'web.default.svc.cluster.local' }),
      ]);
      await cluster.api.untilReady('default', 'dns', 2);
    });

    it('[sig-network] DNS should provide DNS for the cluster [Conformance]', async () => {
      expect(await inPod('cat', '/etc/resolv.conf')).toMatch(/search default\.svc\.cluster\.local svc\.cluster\.local cluster\.local/);
      const { spec } = await cluster.api.get<{ spec: { clusterIP: string } }>('/api/v1/namespaces/default/services/kubernetes');
      expect(await known('kubernetes.default.svc.cluster.local', 1)).toEqual([spec.clusterIP]);
    });

    it('[sig-network] DNS should provide DNS for services [Conformance]', async () => {
      const { spec } = await cluster.api.get<{ spec: { clusterIP: string } }>('/api/v1/namespaces/default/services/web');
      expect(await known('web', 1)).toEqual([spec.clusterIP]);
      expect(await known('db', 2)).toHaveLength(2);
      await untilOutputMatches(/ web\.default\.svc\.cluster\.local/, 'nslookup', '-type=srv', '_http._tcp.web.default.svc.cluster.local');
    });

    it('[sig-network] DNS should provide DNS for pods for Subdomain [Conformance]', async () => {
      const { status } = await cluster.api.get<{ status: { podIP: string } }>('/api/v1/namespaces/default/pods/db-0');
      expect(await known('db-0.db.default.svc.cluster.local', 1)).toEqual([status.podIP]);
      expect(await known(`${status.podIP.replaceAll('.', '-')}.default.pod.cluster.local`, 1)).toEqual([status.podIP]);
      await untilOutputMatches(/db-0\.db\.default\.svc\.cluster\.local/, 'nslookup', status.podIP);
    });

    it('[sig-network] DNS should provide DNS for ExternalName services [Conformance]', async () => {
      const { spec } = await cluster.api.get<{ spec: { clusterIP: string } }>('/api/v1/namespaces/default/services/web');
      expect(await known('out.default.svc.cluster.local', 1)).toEqual([spec.clusterIP]);
      await cluster.kubectl.run(['patch', 'service', 'out', '-p', '{"spec":{"externalName":"kubernetes.default.svc.cluster.local"}}']);
      const { spec: other } = await cluster.api.get<{ spec: { clusterIP: string } }>('/api/v1/namespaces/default/services/kubernetes');
      await untilValue(
        'the name resolves to the new target',
        () => addresses('out.default.svc.cluster.local'),
        (all) => all.join() === other.clusterIP,
      );
    });

    it('is found through the Service kube-dns, which kubectl cluster-info prints', async () => {
      const get = ['get', 'endpointslices', '-n', 'kube-system', '-l', 'kubernetes.io/service-name=kube-dns', '-o', 'name'];
      await untilValue(
        'an EndpointSlice of kube-dns',
        () => cluster.kubectl.run(get),
        (output) => output.startsWith('endpointslice.discovery.k8s.io/kube-dns-'),
      );
    });
  },
);
