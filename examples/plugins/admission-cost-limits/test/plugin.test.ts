import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { deployments } from '@oarlock/api/resources';
import { deployment } from '@oarlock/testing/objects';
import { startCluster } from '@oarlock/testing/start-cluster';
import { testAdmission } from '@oarlock/testing/test-admission';
import { afterEach, beforeEach, expect, it } from 'vitest';
import plugin from '../src/plugin.ts';

let server: Server;
let asked: string[];
let broken: boolean;
let config: { readonly url: string; readonly budgets: Readonly<Record<string, number>> };
beforeEach(async () => {
  asked = [];
  broken = false;
  server = createServer(({ url = '' }, response) => {
    asked.push(url);
    const monthly = { '/prices/small': 10, '/prices/large': 100 }[url];
    if (broken) response.writeHead(500).end();
    else if (monthly === undefined) response.writeHead(404).end();
    else response.end(JSON.stringify({ monthly }));
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  config = { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, budgets: { blue: 50 } };
});
afterEach(() => {
  server.closeAllConnections();
  server.close();
});
const blue = (replicas: number, annotations = {}) => deployment({ labels: { team: 'blue' }, replicas, annotations });

it('rejects a Deployment that exceeds the budget', async () => {
  await using test = await testAdmission(plugin, config);
  expect((await test.create(blue(5))).annotations).toEqual({ cost: '50' });
  expect((await test.create(blue(6))).message).toMatch(/it would cost 60 a month, and blue may spend 50$/);
  expect((await test.create(blue(1, { 'price-class': 'large' }))).message).toMatch(/it would cost 100/);
  expect((await test.create(deployment())).message).toMatch(/has to name a team/);
  expect((await test.create(blue(1, { 'price-class': 'huge' }))).status?.code).toBe(400);
});

it('calls the service once per price, also for concurrent requests', async () => {
  await using test = await testAdmission(plugin, config);
  await Promise.all([test.create(blue(1)), test.create(blue(2)), test.create(blue(3))]);
  expect(asked).toEqual(['/prices/small']);
  await test.clock.advance(61_000);
  await test.create(blue(1));
  expect(asked).toHaveLength(2);
});

it('fails while the service is unavailable, and calls it again', async () => {
  await using test = await testAdmission(plugin, config);
  broken = true;
  await expect(test.create(blue(1))).rejects.toThrow('the price service answered 500');
  broken = false;
  expect((await test.create(blue(1))).allowed).toBe(true);
});

it('works in a cluster, where failurePolicy Ignore admits objects without a price', async () => {
  await using cluster = await startCluster({ plugins: [{ plugin, config, failurePolicy: 'Ignore' }], roles: ['apiserver'] });
  await expect(cluster.client.create(deployments, blue(6))).rejects.toThrow(/may spend 50/);
  broken = true;
  const dear = deployment({ name: 'dear', labels: { team: 'blue' }, annotations: { 'price-class': 'large' } });
  expect((await cluster.client.create(deployments, dear)).metadata?.uid).toBeDefined();
});
