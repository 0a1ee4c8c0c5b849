import { HealthServer } from '@oarlock/component-server/health-server';
import type { Health } from '@oarlock/spi/role';
import { Counter, Registry } from 'prom-client';
import { afterEach, expect, it } from 'vitest';

let server: HealthServer | undefined;
afterEach(() => server?.stop());

it('reports health, readiness and metrics', async () => {
  let health: Health = { healthy: true };
  const registry = new Registry();
  new Counter({ name: 'calls_total', help: 'Calls.', registers: [registry] }).inc();
  server = new HealthServer({ port: 0, address: '127.0.0.1', checkHealth: () => health, registries: () => [registry] });
  const port = await server.start();
  const get = async (path: string) => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`);
    return [response.status, (await response.text()).trim()];
  };
  expect(await get('/healthz')).toEqual([200, 'ok']);
  expect(await get('/readyz?verbose')).toEqual([503, 'not ready']);
  server.ready();
  expect(await get('/readyz')).toEqual([200, 'ok']);
  expect((await get('/metrics'))[1]).toContain('calls_total 1');
  expect(await get('/other')).toEqual([404, 'not found']);
  health = { healthy: false, reason: 'the controllers have stopped' };
  expect(await get('/healthz')).toEqual([500, 'the controllers have stopped']);
  expect(await get('/readyz')).toEqual([500, 'the controllers have stopped']);
  health = { healthy: true };
  server.drain();
  expect(await get('/readyz')).toEqual([503, 'not ready']);
});
