import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { pod, rejectionOf, TestServer } from '../../../support/pipeline-fixture.ts';

let server: TestServer;
beforeEach(async () => {
  server = await TestServer.start();
  await server.create('pods', pod('a', { nodeName: 'n', containers: [{ name: 'c', image: 'i', ports: [{ containerPort: 8080 }] }] }));
  await server.patch(
    'pods',
    'a',
    { status: { phase: 'Running', podIP: '10.244.0.5', podIPs: [{ ip: '10.244.0.5' }] } },
    { subresource: 'status' },
  );
  await server.create('services', {
    kind: 'Service',
    apiVersion: 'v1',
    metadata: { name: 's' },
    ...{ spec: { ports: [{ name: 'web', port: 80, targetPort: 8080 }], selector: { app: 'x' } } },
  });
});
afterEach(() => server.stop());

const slice = (pods: readonly (readonly [string, string | undefined])[]) =>
  server.create('endpointslices.discovery.k8s.io', {
    kind: 'EndpointSlice',
    apiVersion: 'discovery.k8s.io/v1',
    metadata: { name: 's-1', labels: { 'kubernetes.io/service-name': 's' } },
    ...{
      addressType: 'IPv4',
      ports: [{ name: 'web', port: 8080 }],
      endpoints: pods.map(([address, name]) => ({
        addresses: [address],
        ...(name && { targetRef: { kind: 'Pod', name, namespace: 'default' } }),
      })),
    },
  });
const where = (resource: string, name: string) =>
  server.handle('get', resource, { namespace: resource === 'nodes' ? '' : 'default', name, subresource: 'proxy' });

describe('pods/proxy', () => {
  it('resolves the first port of the pod by default', async () => {
    expect(await where('pods', 'a')).toEqual({ kind: 'proxy', scheme: 'http', host: '10.244.0.5', port: 8080 });
    expect(await where('pods', 'https:a:443')).toMatchObject({ scheme: 'https', port: 443 });
    expect((await rejectionOf(where('pods', 'x:a:1'))).status).toMatchObject({ code: 400, message: 'invalid pod request "x:a:1"' });
    expect((await rejectionOf(where('pods', 'b'))).code).toBe(404);
  });
  it('does not resolve to addresses of the server itself', async () => {
    for (const podIP of ['127.0.0.1', '169.254.169.254', '::1', '0.0.0.0', '224.0.0.1']) {
      await server.patch('pods', 'a', { status: { podIP, podIPs: [{ ip: podIP }] } }, { subresource: 'status' });
      expect((await rejectionOf(where('pods', 'a'))).status).toMatchObject({ code: 400, message: 'address not allowed' });
    }
  });
});

describe('services/proxy', () => {
  it('resolves to a ready pod by port number or name', async () => {
    await slice([['10.244.0.5', 'a']]);
    for (const name of ['s:80', 's:web', 'http:s:web'])
      expect(await where('services', name)).toEqual({ kind: 'proxy', scheme: 'http', host: '10.244.0.5', port: 8080 });
  });
  it('is unavailable without ready endpoints', async () => {
    expect((await rejectionOf(where('services', 's:81'))).status).toMatchObject({
      code: 503,
      message: 'no service port 81 found for service "s"',
    });
    expect((await rejectionOf(where('services', 's:web'))).status).toMatchObject({
      code: 503,
      message: 'no endpoints available for service "s"',
    });
    await slice([
      ['10.244.0.9', 'a'],
      ['10.244.0.5', undefined],
    ]);
    expect((await rejectionOf(where('services', 's:web'))).status).toMatchObject({ message: 'no endpoints available for service "s"' });
  });
});

describe('nodes/proxy', () => {
  it('resolves to the kubelet, or to another port of the node', async () => {
    await server.create('nodes', {
      kind: 'Node',
      apiVersion: 'v1',
      metadata: { name: 'n' },
      ...{ status: { addresses: [{ type: 'InternalIP', address: '192.0.2.7' }], daemonEndpoints: { kubeletEndpoint: { Port: 10255 } } } },
    });
    for (const name of ['n', 'n:10255', 'https:n:'])
      expect(await where('nodes', name)).toEqual({
        kind: 'proxy',
        scheme: 'https',
        host: '192.0.2.7',
        port: 10255,
        kubelet: { own: false },
      });
    expect(await where('nodes', 'n:9100')).toEqual({ kind: 'proxy', scheme: 'http', host: '192.0.2.7', port: 9100 });
  });
});

describe('componentstatuses', () => {
  it('The Kubernetes Component Status API: lists the parts of the control plane', async () => {
    const own = new TestServer({
      components: () => [
        { name: 'scheduler', check: () => ({ healthy: true }) },
        { name: 'etcd-0', check: () => Promise.reject(new Error('gone')) },
      ],
    });
    await own.pipeline.start(new AbortController().signal);
    const list = await own.list('componentstatuses');
    expect(list.names).toEqual(['scheduler', 'etcd-0']);
    expect(list.warnings).toEqual(['v1 ComponentStatus is deprecated in v1.19+']);
    expect(await own.get('componentstatuses', 'etcd-0')).toMatchObject({
      kind: 'ComponentStatus',
      conditions: [{ type: 'Healthy', status: 'False', message: 'gone' }],
    });
    expect((await own.list('componentstatuses', { fieldSelector: 'metadata.name=scheduler' })).names).toEqual(['scheduler']);
    expect((await rejectionOf(own.get('componentstatuses', 'x'))).code).toBe(404);
    expect(own.pipeline.servedKinds().find(({ resource }) => resource === 'componentstatuses')?.verbs).toEqual(['get', 'list']);
    await own.stop();
  });
});
