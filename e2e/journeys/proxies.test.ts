import { beforeAll, describe, expect, it } from 'vitest';
import type { Item } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { Machine } from '../harness/machine.ts';

interface Slice extends Item {
  readonly endpoints?: readonly { readonly conditions?: { readonly ready?: boolean } }[] | null;
}

/** A server on the pod's own address that returns the request it received. */
const program = `require('node:http').createServer((request, response) => {
  const chunks = [];
  request.on('data', (chunk) => chunks.push(chunk));
  request.on('end', () => {
    if (request.url === '/away') response.writeHead(302, { location: '/here' });
    response.end(request.method + ' ' + request.url + ' ' + Buffer.concat(chunks).length);
  });
}).listen(8080, process.env.POD_IP)`;

describe('Proxy version v1', () => {
  const machine = Machine.use();
  let cluster: Cluster;
  const at = '/api/v1/namespaces/default';
  beforeAll(async () => {
    cluster = await machine.cluster({ spec: composition({ storage: 'memory', runtime: 'process', network: 'host' }) });
    await cluster.kubectl.apply([
      {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name: 'web', labels: { app: 'web' } },
        spec: {
          terminationGracePeriodSeconds: 1,
          containers: [
            {
              name: 'main',
              image: 'host',
              command: [process.execPath, '-e', program],
              env: [{ name: 'POD_IP', valueFrom: { fieldRef: { fieldPath: 'status.podIP' } } }],
              ports: [{ containerPort: 8080 }],
              readinessProbe: { httpGet: { path: '/', port: 8080 }, periodSeconds: 1 },
            },
          ],
        },
      },
      {
        apiVersion: 'v1',
        kind: 'Service',
        metadata: { name: 'web' },
        spec: { selector: { app: 'web' }, ports: [{ name: 'http', port: 80, targetPort: 8080 }] },
      },
    ]);
    await cluster.api.untilReady('default', 'web', 1);
    await cluster.api.until<Slice>(
      'an endpoint of the service',
      `/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=${encodeURIComponent('kubernetes.io/service-name=web')}`,
      (slices) => slices.some(({ endpoints }) => endpoints?.some(({ conditions }) => conditions?.ready === true) === true),
    );
  });

  it.each(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])(
    'A set of valid responses are returned for both pod and service ProxyWithPath: %s',
    async (method) => {
      const body = method === 'GET' || method === 'OPTIONS' ? undefined : { some: 'text' };
      const length = body === undefined ? 0 : JSON.stringify(body).length;
      for (const target of ['pods/web:8080', 'pods/http:web:8080', 'services/web:http', 'services/http:web:80'])
        expect(
          await cluster.api.call(method, `${at}/${target}/proxy/some/path?x=1`, {
            ...(body && { body }),
            headers: { accept: 'text/plain' },
          }),
        ).toMatchObject({ status: 200, body: `${method} /some/path?x=1 ${length}` });
    },
  );

  it('A set of valid responses are returned for both pod and service Proxy: redirects are rewritten to the proxy path', async () => {
    for (const target of ['pods/web', 'services/web:http']) {
      const proxy = `${at}/${target}/proxy`;
      expect(await cluster.api.call('GET', proxy)).toMatchObject({ status: 301, headers: { location: `${proxy}/` } });
      expect(await cluster.api.call('GET', `${proxy}/away`)).toMatchObject({ status: 302, headers: { location: `${proxy}/here` } });
    }
  });

  it('Node Proxy: reaches the kubelet', async () => {
    const { items } = await cluster.api.get<{ items: readonly { readonly metadata: { readonly name: string } }[] }>('/api/v1/nodes');
    expect(await cluster.api.call('GET', `/api/v1/nodes/${items[0]?.metadata.name}/proxy/healthz`)).toMatchObject({
      status: 200,
      body: 'ok',
    });
  });

  it('responds 503 for a port without a server', async () => {
    expect(await cluster.api.call('GET', `${at}/services/web:81/proxy/`)).toMatchObject({ status: 503 });
    expect(await cluster.api.call('GET', `${at}/pods/nobody/proxy/`)).toMatchObject({ status: 404 });
  });
});
