import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Node } from '@oarlock/api/types/core-v1';
import { silentLogger } from '@oarlock/primitives/logger';
import { ProxyHealthServer } from '@oarlock/service-proxy/health/proxy-health-server';
import { ProxyMetrics } from '@oarlock/service-proxy/proxy-metrics';
import { ServiceHealthServer } from '@oarlock/service-proxy/health/service-health-server';
import { endpoint, servicePort } from '@oarlock/spi/proxy/contract';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { Registry } from 'prom-client';
import { describe, expect, it } from 'vitest';

/** Returns a free port. */
async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
const get = async (url: string) => {
  const response = await fetch(url);
  const body = await response.text();
  return { status: response.status, headers: response.headers, body };
};

describe('health check node port', () => {
  it('reports the number of ready endpoints on this node', async () => {
    let healthy = true;
    const health = new ServiceHealthServer({ healthy: () => healthy, log: silentLogger });
    const port = await freePort();
    const url = `http://127.0.0.1:${port}/`;
    const web = (local: boolean) =>
      servicePort('d/web:http', {
        port: 80,
        clusterIPs: [],
        externalLocal: true,
        healthCheckNodePort: port,
        endpoints: [endpoint('10.244.0.1', 80, { local }), endpoint('10.244.0.2', 80, { local: false })],
      });
    health.set('d/web', [web(true)]);
    await expect.poll(() => get(url).catch(() => undefined)).toMatchObject({ status: 200 });
    const { body, headers } = await get(url);
    expect(JSON.parse(body)).toEqual({ service: { namespace: 'd', name: 'web' }, localEndpoints: 1, serviceProxyHealthy: true });
    expect(headers.get('x-load-balancing-endpoint-weight')).toBe('1');
    healthy = false;
    expect((await get(url)).status).toBe(503);
    healthy = true;
    health.set('d/web', [web(false)]);
    expect((await get(url)).status).toBe(503);
    health.set('d/web', []);
    await expect(get(url)).rejects.toThrow();
    await health.stop();
  });
});

it("kube-proxy's endpoints are served at their own addresses", async () => {
  const registry = new Registry();
  new ProxyMetrics(registry).observeSync(0.1, 5);
  const services: { error: string | undefined; node: Node | undefined } = { error: undefined, node: undefined };
  const [healthz, metrics] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`];
  const server = new ProxyHealthServer({
    services,
    mode: 'nftables',
    registry,
    clock: new FakeClock(),
    healthzBindAddress: healthz,
    metricsBindAddress: metrics,
  });
  await server.start();
  expect(JSON.parse((await get(`http://${healthz}/healthz`)).body)).toMatchObject({ nodeEligible: true });
  services.node = {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: 'n' },
    spec: { taints: [{ key: 'ToBeDeletedByClusterAutoscaler', effect: 'NoSchedule' }] },
  };
  expect((await get(`http://${healthz}/healthz`)).status).toBe(503);
  expect((await get(`http://${healthz}/livez`)).status).toBe(200);
  services.error = 'the kernel rejected the rules';
  expect((await get(`http://${healthz}/livez`)).status).toBe(503);
  expect((await get(`http://${metrics}/metrics`)).body).toContain('kubeproxy_sync_proxy_rules_last_timestamp_seconds 5');
  expect(await get(`http://${metrics}/proxyMode`)).toMatchObject({ status: 200, body: 'nftables' });
  await server.stop();
});
