import { Resolver } from 'node:dns/promises';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Item } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { Machine } from '../harness/machine.ts';
import { processesBelow } from '../harness/programs.ts';
import { root } from '../harness/oarlock.ts';
import { until } from '../harness/until.ts';
import { Caller, clientCertificate } from './support/callers.ts';
import { listeningSockets, type ListeningSocket } from './support/listening-sockets.ts';

/** A whole composition that needs no programs of the host: every plugin that listens in it is part of it. */
const machine = Machine.use();
let cluster: Cluster;
let anonymous: Caller;
let norma: Caller;

type Service = Item & {
  readonly spec: {
    readonly clusterIP: string;
    readonly healthCheckNodePort?: number;
    readonly ports: readonly { readonly port: number; readonly nodePort?: number }[];
  };
  readonly status: { readonly loadBalancer?: { readonly ingress?: readonly { readonly ip: string }[] } };
};
const servicePath = '/api/v1/namespaces/default/services/web';
const dnsServicePath = '/api/v1/namespaces/kube-system/services/kube-dns';
const dnsSlicePath = '/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices/kube-dns-node-a';

beforeAll(async () => {
  const spec = composition({ storage: 'embedded', runtime: 'process', network: 'host' });
  cluster = await machine.cluster({
    spec: {
      ...spec,
      runtimes: ['runtime-process', { use: 'runtime-oci', config: { required: false } }],
      volumes: ['volume-csi'],
      dns: { use: 'dns-server', config: { address: '127.0.0.1' } },
      cloud: 'cloud-local',
      paths: ['console'],
      controllers: ['controller-metrics-server'],
    },
  });
  anonymous = new Caller(cluster, {});
  norma = new Caller(cluster, await clientCertificate(cluster, 'norma'));
  const { api } = cluster;
  await api.json('POST', '/api/v1/namespaces/default/persistentvolumeclaims', {
    body: {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: { name: 'c' },
      spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Mi' } } },
    },
  });
  const containers = [{ name: 'c', image: 'host', command: ['sleep', '1000'], volumeMounts: [{ name: 'v', mountPath: '/v' }] }];
  const volumes = [{ name: 'v', persistentVolumeClaim: { claimName: 'c' } }];
  await api.json('POST', '/api/v1/namespaces/default/pods', {
    body: {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'p', labels: { app: 'web' } },
      spec: { containers, volumes, terminationGracePeriodSeconds: 0 },
    },
  });
  await api.json('POST', '/api/v1/namespaces/default/services', {
    body: {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'web' },
      spec: { type: 'LoadBalancer', selector: { app: 'web' }, externalTrafficPolicy: 'Local', ports: [{ port: 80 }] },
    },
  });
  await api.until('the pod is ready', api.pods('default'), (pods: readonly (Item & { readonly status?: { readonly phase?: string } })[]) =>
    pods.some(({ status }) => status?.phase === 'Running'),
  );
  const resolver = new Resolver({ timeout: 1000, tries: 1 });
  await until('the DNS Service answers', async () => {
    resolver.setServers([(await api.get<Service>(dnsServicePath)).spec.clusterIP]);
    return (await resolver.resolve4('kubernetes.default.svc.cluster.local')).length === 1;
  });
});
afterAll(() => {
  anonymous.close();
  norma.close();
});

/** Requests a path of a listener whose certificate has another name. */
async function statusWithoutCredentials(port: number, path: string): Promise<number | undefined> {
  const sent = request({ host: '127.0.0.1', port, path, rejectUnauthorized: false, agent: false }).end();
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  response.resume();
  return response.statusCode;
}

const withoutData = ({ address, ...rest }: ListeningSocket): ListeningSocket => ({
  ...rest,
  address: address.replace(`${cluster.dataDir}/`, ''),
});
const key = ({ protocol, address, port }: ListeningSocket) => `${protocol} ${address} ${port}`;

/** The listeners by their names in docs/security.md. */
async function expected(): Promise<ReadonlyMap<string, string>> {
  const { spec, status } = await cluster.api.get<Service>(servicePath);
  const [{ port = 0, nodePort = 0 } = { port: 0 }] = spec.ports;
  type Endpoints = Item & { readonly status: { readonly daemonEndpoints: { readonly kubeletEndpoint: { readonly Port: number } } } };
  const kubelet = (await cluster.api.get<Endpoints>('/api/v1/nodes/node-a')).status.daemonEndpoints.kubeletEndpoint.Port;
  type ApiService = Item & { readonly spec: { readonly service: { readonly port: number } } };
  const metrics = await cluster.api.get<ApiService>('/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io');
  const kubernetes = await cluster.api.get<Service>('/api/v1/namespaces/default/services/kubernetes');
  const dns = (await cluster.api.get<Service>(dnsServicePath)).spec.clusterIP;
  type Slice = Item & { readonly ports: readonly { readonly port: number }[] };
  const dnsPort = (await cluster.api.get<Slice>(dnsSlicePath)).ports[0]?.port;
  return new Map([
    ...['udp', 'tcp'].flatMap((protocol) => [
      [`${protocol} 127.0.0.1 ${dnsPort}`, 'DNS'] as const,
      [`${protocol} ${dns} 53`, 'Services'] as const,
    ]),
    [`tcp 127.0.0.1 ${cluster.port}`, 'API server'],
    [`tcp 127.0.0.1 ${kubelet}`, 'kubelet'],
    [`tcp 127.0.0.1 ${metrics.spec.service.port}`, 'metrics API'],
    [`tcp ${kubernetes.spec.clusterIP} 443`, 'Services'],
    [`tcp ${spec.clusterIP} ${port}`, 'Services'],
    [`tcp ${status.loadBalancer?.ingress?.[0]?.ip} ${port}`, 'Services'],
    [`tcp 127.0.0.1 ${nodePort}`, 'Services'],
    [`tcp :: ${spec.healthCheckNodePort}`, 'health checks of load balancers'],
    ['unix @oarlock/loopback/0 0', 'claims of ports and addresses'],
    ['unix plugins/runtime-process/supervisor.sock 600', 'supervisor of processes'],
    ['unix plugins/runtime-oci/images.sock 600', 'images'],
    ['unix plugins/volume-csi/driver-0/csi.sock 600', 'CSI driver'],
  ]);
}

describe('the sockets on which a cluster listens', () => {
  it('are those in docs/security.md, and each is closed to others as described there', async () => {
    const listeners = await expected();
    const sockets = (await listeningSockets(await processesBelow(cluster.dir))).map(withoutData);
    expect(sockets.map(key).sort()).toEqual([...listeners.keys()].sort());
    const text = await readFile(join(root, 'docs', 'security.md'), 'utf8');
    const section = text.slice(text.indexOf('\n## Listeners\n'), text.indexOf('\n## TLS\n'));
    const documented = new Set([...section.matchAll(/^\| ([^|`]+?) \|/gm)].map(([, name]) => name));
    expect([...new Set(listeners.values())].filter((name) => !documented.has(name))).toEqual([]);
  });

  it('answer callers without credentials with 401', async () => {
    const ports = [...(await expected())].flatMap(([socket, name]) =>
      ['kubelet', 'metrics API'].includes(name) ? socket.split(' ')[2] : [],
    );
    expect(ports).toHaveLength(2);
    const paths = [
      '/',
      '/healthz',
      '/metrics',
      '/pods',
      '/configz',
      '/debug/pprof/',
      '/checkpoint/a/b/c',
      '/apis/metrics.k8s.io/v1beta1/nodes',
    ];
    for (const port of ports)
      for (const path of paths) expect([port, path, await statusWithoutCredentials(Number(port), path)]).toEqual([port, path, 401]);
  });
});

describe('the paths that an API server lists', () => {
  const open = /^\/(healthz|livez|readyz|version|console\/|oarlock\/v1\/ca)$/;
  const authenticated = /^\/(api|apis|openapi)(\/|$)/;
  const privileged =
    /^\/((healthz|livez|readyz)\/.+|\.well-known\/openid-configuration|openid\/v1\/jwks|debug\/api_priority_and_fairness\/.+|flagz|statusz|metrics|metrics\/slis|oarlock\/v1\/(authorization|backup|composition|join|plugins|scheduling|spans|traces))$/;

  it('are known, and answer callers without credentials and without rights accordingly', async () => {
    const { paths } = await cluster.api.get<{ readonly paths: readonly string[] }>('/');
    expect(paths.filter((path) => ![open, authenticated, privileged].some((known) => known.test(path)))).toEqual([]);
    expect(await Promise.all([anonymous, norma].map(async (caller) => (await caller.call('GET', '/')).status))).toEqual([401, 403]);
    for (const path of paths) {
      const isOpen = open.test(path);
      const [without, withoutRights] = [await anonymous.call('GET', path), await norma.call('GET', path)];
      expect([path, without.status, withoutRights.status]).toEqual([
        path,
        isOpen ? 200 : 401,
        isOpen || authenticated.test(path) ? 200 : 403,
      ]);
    }
  });

  it('are joined by those of the console, which serves a page without data', async () => {
    const statusOf = async (method: string, path: string) => `${method} ${path} ${(await anonymous.call(method, path)).status}`;
    const requests = [
      ['GET', '/console/'],
      ['POST', '/console/'],
      ['GET', '/console/links'],
      ['POST', '/console/links'],
      ['GET', '/console/session'],
      ['POST', '/console/session'],
      ['GET', '/console/x'],
    ] as const;
    expect(await Promise.all(requests.map(([method, path]) => statusOf(method, path)))).toEqual([
      'GET /console/ 200',
      'POST /console/ 405',
      'GET /console/links 404',
      'POST /console/links 403',
      'GET /console/session 403',
      'POST /console/session 403',
      'GET /console/x 404',
    ]);
  });
});
