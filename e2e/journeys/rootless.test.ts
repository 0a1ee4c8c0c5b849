import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { dockerRegistryMissing, startDockerRegistry, type DockerRegistry } from '../fixtures/docker-registry.ts';
import { buildImage, busyboxLayer } from '../fixtures/test-image.ts';
import type { Cluster } from '../harness/cluster.ts';
import { everythingIsNeeded, Machine } from '../harness/machine.ts';
import { netnsMissing, otherMachine } from '../harness/netns.ts';
import { ordinaryUser, userNamespacesMissing } from '../harness/ordinary-user.ts';
import { Daemon } from '../harness/programs.ts';
import { until } from '../harness/until.ts';

interface Pod {
  readonly status: { readonly podIP: string; readonly containerStatuses: readonly { readonly containerID: string }[] };
}
interface Service {
  readonly spec: { readonly ports: readonly { readonly nodePort: number }[] };
  readonly status: { readonly loadBalancer: { readonly ingress?: readonly { readonly ip: string }[] } };
}

/** The router of the node, which is the loopback address of the host. */
const gatewayAddress = '198.51.100.1';

const missing = userNamespacesMissing(process.getuid?.() === 0 ? ordinaryUser : undefined) ?? dockerRegistryMissing();
const labels = { app: 'web' };
const port = 8099;
/** Returns the address of each client: by HTTP, and as the answer to DNS queries for addresses. */
const addressServer = `
const typeA = 1;
require('node:http').createServer((request, response) => response.end(request.socket.remoteAddress)).listen(${port}, '0.0.0.0', () => {
  const socket = require('node:dgram').createSocket('udp4');
  socket.on('message', (query, { address, port }) => {
    const isA = query.readUInt16BE(query.length - 4) === typeA;
    const response = Buffer.from(query);
    response.writeUInt16BE(0x8580, 2);
    response.writeUInt16BE(isA ? 1 : 0, 6);
    const answer = isA ? Buffer.from([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, ...address.split('.').map(Number)]) : Buffer.alloc(0);
    socket.send(Buffer.concat([response, answer]), port, address);
  });
  socket.bind(53, () => console.log('listening'));
});`;
const noOtherMachine = await netnsMissing();

describe.skipIf(missing !== undefined && !everythingIsNeeded)(
  `a node of an ordinary user${missing === undefined ? '' : ` (${missing})`}`,
  () => {
    const machine = Machine.use();
    let registry: DockerRegistry;
    let cluster: Cluster;
    let image: string;
    beforeAll(async () => {
      registry = await startDockerRegistry();
      const config = { Entrypoint: ['/bin/sh', '-c'], Cmd: ['exec httpd -f -p 8080 -h /www'], Env: ['PATH=/usr/bin:/bin:/usr/sbin:/sbin'] };
      await registry.push(buildImage('web', await busyboxLayer(), config), 'web:1');
      const host = registry.host.replace('127.0.0.1', gatewayAddress);
      image = `${host}/web:1`;
      const registries = machine.path('registries');
      await mkdir(join(registries, host), { recursive: true });
      await writeFile(join(registries, host, 'hosts.toml'), `server = "http://${host}"\n`);
      for (const directory of [registries, join(registries, host)]) await chmod(directory, 0o755);
      cluster = await machine.cluster({
        spec: {
          rootless: true,
          storage: 'storage-embedded',
          runtimes: [{ use: 'runtime-oci', config: { registryConfigDirectory: registries } }],
          network: { use: 'network-bridge', config: { confDir: null } },
          policy: 'policy-nftables',
          proxy: 'proxy-nftables',
          dns: 'dns-server',
          cloud: 'cloud-local',
        },
        // the path of a user: relative, as that of --name and the default
        args: ['--data-dir', './data'],
        ...(process.getuid?.() === 0 && { runAs: ordinaryUser }),
      });
    });
    afterAll(() => registry.stop());

    const kubectl = (...args: string[]) => cluster.kubectl.run(args);
    const service = () => cluster.kubectl.json<Service>(['get', 'service', 'web']);
    const pod = async () => (await cluster.kubectl.json<{ items: readonly [Pod] }>(['get', 'pods', '-l', 'app=web'])).items[0];
    const get = async (url: string) => {
      const response = await fetch(url, { headers: { connection: 'close' }, signal: AbortSignal.timeout(1000) }).catch(() => undefined);
      return response?.text();
    };

    it('pulls from the host, and serves pods with addresses to the host by node port and load balancer', async () => {
      await cluster.kubectl.apply({
        apiVersion: 'v1',
        kind: 'List',
        items: [
          {
            apiVersion: 'apps/v1',
            kind: 'Deployment',
            metadata: { name: 'web' },
            spec: {
              selector: { matchLabels: labels },
              template: {
                metadata: { labels },
                spec: {
                  terminationGracePeriodSeconds: 1,
                  containers: [{ name: 'main', image, readinessProbe: { tcpSocket: { port: 8080 }, periodSeconds: 1 } }],
                },
              },
            },
          },
          {
            apiVersion: 'v1',
            kind: 'Service',
            metadata: { name: 'web' },
            spec: { type: 'LoadBalancer', selector: labels, ports: [{ port: 8080 }] },
          },
        ],
      });
      await kubectl('rollout', 'status', 'deployment/web', '--timeout=180s');
      expect((await pod()).status.podIP).toMatch(/^10\.244\./);
      const address = await until('the Service has an address', async () => (await service()).status.loadBalancer.ingress?.[0]?.ip);
      const { nodePort } = (await service()).spec.ports[0] ?? {};
      for (const host of [`127.0.0.1:${nodePort}`, `${address.replace(/^10/, '127')}:8080`])
        await until(`${host} answers`, async () => (await get(`http://${host}/index.html`)) === 'hello\n');
      expect(await kubectl('exec', 'deployment/web', '--', 'nslookup', 'web.default.svc.cluster.local')).toContain(
        'Name:\tweb.default.svc',
      );
    });

    it.skipIf(noOtherMachine !== undefined)('lets pods reach other machines by TCP and UDP, with the address of the host', async () => {
      const other = await otherMachine();
      machine.undo('other machine', () => other.remove());
      const [file, ...args] = other.enter;
      const server = new Daemon(file, [...args, process.execPath, '-e', addressServer]);
      machine.undo('server of the other machine', () => server.stop('SIGKILL'));
      await server.line(/^listening$/);
      const inPod = (script: string) => kubectl('exec', 'deployment/web', '--', 'sh', '-c', script);
      // not `wget -T`, with which busybox-static of Debian 12 crashes
      expect(await inPod(`timeout 60 wget -q -O - http://${other.there}:${port}/`)).toBe(other.here);
      await until('a datagram is answered', async () =>
        (await inPod(`nslookup name.test ${other.there} || true`)).includes(`Address: ${other.here}\n`),
      );
    });

    it('enforces NetworkPolicies', async () => {
      const { nodePort } = (await service()).spec.ports[0] ?? {};
      const url = `http://127.0.0.1:${nodePort}/index.html`;
      const policy = {
        apiVersion: 'networking.k8s.io/v1',
        kind: 'NetworkPolicy',
        metadata: { name: 'deny' },
        spec: { podSelector: {}, policyTypes: ['Ingress'] },
      };
      await cluster.kubectl.apply(policy);
      await until('the policy applies', async () => (await get(url)) === undefined);
      await kubectl('delete', 'networkpolicy', 'deny');
      await until('the policy is removed', async () => (await get(url)) === 'hello\n');
    });

    it('keeps pods and their network through kill -9, and ends with the cluster', async () => {
      const before = await pod();
      const { nodePort } = (await service()).spec.ports[0] ?? {};
      await cluster.kill9();
      await cluster.up();
      await kubectl('wait', '--for=condition=Ready', 'node', '--all', '--timeout=180s');
      await until('the Service answers', async () => (await get(`http://127.0.0.1:${nodePort}/index.html`)) === 'hello\n');
      const { podIP, containerStatuses } = (await pod()).status;
      expect([podIP, containerStatuses[0]?.containerID]).toEqual([before.status.podIP, before.status.containerStatuses[0]?.containerID]);
      await cluster.stop();
    });
  },
);
