import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { describe, expect, it } from 'vitest';
import { runningServer } from '../../src/servers/running-server.ts';
import type { ListedServer } from '../../src/servers/server-registry.ts';

/** Returns the URL of a port of this machine, and ends what listens on it. */
async function listening(): Promise<{ readonly url: string; readonly close: () => Promise<void> }> {
  const server = createServer((socket) => socket.end());
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const close = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
    });
  return { url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`, close };
}
const listed = (url: string, ready: boolean): ListedServer => ({
  ...{ name: 'server-a', url, ready, version: 'v1.36.0', startedAt: '2026-01-01T00:00:00Z', keysGeneration: 1 },
  ...{ trustedCAs: [], frontProxyCAs: [] },
});
const running = (name: string, server: ListedServer) => runningServer(name, { list: async () => [server] });

describe('the name of a joining server', () => {
  it('is taken while a server of this name runs', async () => {
    const { url, close } = await listening();
    expect(await running('server-a', listed(url, true))).toMatchObject({ url });
    expect(await running('server-b', listed(url, true))).toBeUndefined();
    await close();
  });

  it('is free when the server has ended, also before its lease has expired', async () => {
    const { url, close } = await listening();
    expect(await running('server-a', listed(url, false))).toBeUndefined();
    await close();
    expect(await running('server-a', listed(url, true))).toBeUndefined();
  });
});
