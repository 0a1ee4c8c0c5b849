import { expect, it } from 'vitest';
import type { Item, PodItem } from '../../harness/api.ts';
import { untilBodyEquals } from '../../harness/http.ts';
import { freePort } from '../../harness/programs.ts';
import { untilValue } from '../../harness/until.ts';
import type { TwoNodes } from './two-nodes.ts';

/** Traffic between pods, from nodes, through the API server, and at host ports. */
export function reachBehaviours(two: TwoNodes): void {
  const servers = async () => (await two.api.get<{ items: readonly PodItem[] }>(`${two.at('pods')}?labelSelector=app%3Dserver`)).items;

  it('Networking Granular Checks: Pods should function for intra-pod communication: http', async () => {
    for (const { metadata, status } of await servers())
      for (const node of two.nodes) await two.answers(status.podIP ?? '', [metadata.name], { pod: `client-${node}`, port: 8080 });
  });

  it('Networking Granular Checks: Pods should function for node-pod communication: http', async () => {
    for (const { metadata, status } of await servers()) await untilBodyEquals(`http://${status.podIP}:8080/hostname`, metadata.name);
  });

  it('Proxy version v1 should proxy through a service and a pod', async () => {
    await two.service('proxied', { selector: { app: 'client' } });
    for (const node of two.nodes) {
      const ofPod = () => two.api.call('GET', `${two.at('pods')}/http:server-${node}:8080/proxy/hostname`);
      await untilValue('an answer of the pod', ofPod, ({ status, body }) => status === 200 && body === `server-${node}\n`);
    }
    const through = () => two.api.call('GET', `${two.at('services')}/http:proxied:http/proxy/hostname`);
    await untilValue('an answer through the Service', through, ({ status, body }) => status === 200 && body.startsWith('client-'));
  });

  it('HostPort validates that there is no conflict between pods with same hostPort but different hostIP and protocol', async () => {
    const address = two.addresses.get('node-a') ?? '';
    const hostPort = await freePort();
    const container = (name: string, protocol: string, hostIP: string, containerPort: number) => ({
      name,
      image: 'oarlock.test/busybox:1',
      imagePullPolicy: 'IfNotPresent',
      command: ['sh', '-c', `mkdir /tmp/w; hostname > /tmp/w/hostname; exec httpd -f -p 8080 -h /tmp/w`],
      ports: [{ containerPort, hostPort, hostIP, protocol }],
      // a running container need not listen yet
      readinessProbe: { tcpSocket: { port: 8080 }, periodSeconds: 1 },
    });
    const pod = (name: string, protocol: string, hostIP: string) =>
      two.create(two.at('pods'), {
        metadata: { name, labels: { app: 'host-port' } },
        spec: {
          nodeName: 'node-a',
          terminationGracePeriodSeconds: 0,
          containers: [container('main', protocol, hostIP, protocol === 'UDP' ? 8081 : 8080)],
        },
      });
    await Promise.all([pod('host-port-1', 'TCP', '127.0.0.1'), pod('host-port-2', 'TCP', address), pod('host-port-3', 'UDP', address)]);
    await Promise.all(['host-port-1', 'host-port-2', 'host-port-3'].map((name) => two.readyPod(name)));
    await untilBodyEquals(`http://127.0.0.1:${hostPort}/hostname`, 'host-port-1');
    await untilBodyEquals(`http://${address}:${hostPort}/hostname`, 'host-port-2');
  });

  it('API Server should provide secure master service; should have Endpoints and EndpointSlices pointing to API Server', async () => {
    const service = await two.api.get<{ spec: { clusterIP: string; ports: readonly { name: string; port: number }[] } }>(
      '/api/v1/namespaces/default/services/kubernetes',
    );
    expect(service.spec.ports).toMatchObject([{ name: 'https', port: 443 }]);
    const slices = await two.api.get<{ items: readonly (Item & { endpoints: readonly { addresses: readonly string[] }[] })[] }>(
      '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dkubernetes',
    );
    const endpoints = await two.api.get<{ subsets: readonly { addresses: readonly { ip: string }[] }[] }>(
      '/api/v1/namespaces/default/endpoints/kubernetes',
    );
    expect(slices.items[0]?.endpoints[0]?.addresses[0]).toBe(endpoints.subsets[0]?.addresses[0]?.ip);
    // also from the node that it does not run on
    for (const node of two.nodes)
      await two.untilOutput(
        `nc -w 10 ${service.spec.clusterIP} 443 < /dev/null && echo open`,
        (output) => output.includes('open'),
        `client-${node}`,
      );
  });
}
