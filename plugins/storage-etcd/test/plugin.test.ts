import { createServer } from 'node:net';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Storage } from '@oarlock/spi/storage';
import { describe, expect, it } from 'vitest';
import plugin from '../src/plugin.ts';
import { EtcdServer, etcdMissing } from './support/etcd-server.ts';
import { makeTlsFiles } from './support/tls-files.ts';

const missing = etcdMissing();
const faults = (config: unknown) =>
  new PluginHost()
    .add({ plugin, config })
    .check()
    .map(({ code, message, path }) => ({ code, message, path }));

describe('config', () => {
  it('has defaults, and accepts TLS settings', () => {
    expect(plugin.config.parse({})).toMatchObject({ endpoints: ['http://127.0.0.1:2379'], prefix: '/oarlock' });
    expect(
      faults({
        endpoints: ['https://10.0.0.1:2379', 'https://etcd.example:2379'],
        caFile: '/ca.crt',
        certFile: '/a.crt',
        keyFile: '/a.key',
        prefix: '/registry/lab',
      }),
    ).toEqual([]);
  });

  it('has defaults for a managed member', () => {
    expect(plugin.config.parse({ managed: true })).toMatchObject({
      managed: {
        ...{ program: 'etcd', clientPort: 2379, peerPort: 2380, quotaBytes: 2 * 1024 ** 3, defragmentHour: 3 },
        snapshots: { intervalHours: 12, retention: 5 },
      },
    });
    expect(plugin.config.parse({ managed: { snapshots: { retention: 2 } } })).toMatchObject({ managed: { snapshots: { retention: 2 } } });
    expect(plugin.config.parse({ managed: false })).toMatchObject({ managed: false });
  });

  it.each([
    [{ managed: true, endpoints: ['https://10.0.0.1:2379'] }, 'not possible with managed'],
    [{ managed: true, caFile: '/ca.crt' }, 'not possible with managed'],
    [{ managed: { port: 1 } }, 'port'],
    [{ managed: { quotaBytes: 1 } }, '>=16777216'],
    [{ managed: { defragmentHour: 24 } }, '<=23'],
  ])('rejects %j', (settings, message) => {
    expect(
      faults(settings)
        .map((fault) => fault.message)
        .join(),
    ).toContain(message);
  });

  it.each([
    [{ endpoint: 'http://127.0.0.1:2379' }, 'endpoint'],
    [{ endpoints: [] }, '>=1'],
    [{ endpoints: ['127.0.0.1:2379'] }, 'expected http://host:port'],
    [{ endpoints: ['unix:///run/etcd'] }, 'expected http://host:port'],
    [{ endpoints: ['http://root:secret@127.0.0.1:2379'] }, 'expected http://host:port'],
    [{ endpoints: ['http://127.0.0.1:2379/v3'] }, 'expected http://host:port'],
    [{ prefix: 'oarlock' }, 'such as /oarlock'],
    [{ prefix: '/oarlock/' }, 'such as /oarlock'],
    [{ endpoints: ['https://a:1'], certFile: '/a.crt' }, 'certFile and keyFile together'],
    [{ endpoints: ['http://a:1'], caFile: '/ca.crt' }, 'expected https'],
    [{ keepaliveSeconds: 1 }, '>=10'],
  ])('rejects %j', (config, message) => {
    expect(faults(config)).toMatchObject([{ code: 'ConfigInvalid', message: expect.stringContaining(message) }]);
  });
});

describe('probe', () => {
  it('reports why etcd is unavailable', async () => {
    expect(await plugin.probe?.(plugin.config.parse({ endpoints: ['http://127.0.0.1:1', 'https://127.0.0.1:2'] }))).toEqual({
      available: false,
      reason: expect.stringMatching(
        /127\.0\.0\.1:1 is not reachable: dial tcp 127\.0\.0\.1:1: connect: connection refused; .*127\.0\.0\.1:2 is not reachable: .*connect: connection refused/,
      ),
    });
    expect(await plugin.probe?.(plugin.config.parse({ endpoints: ['https://127.0.0.1:1'], caFile: '/nowhere/ca.crt' }))).toEqual({
      available: false,
      reason: expect.stringContaining('/nowhere/ca.crt'),
    });
  });

  it('does not wait for an unresponsive server', async () => {
    const server = createServer(() => {});
    await new Promise<void>((resolve) => {
      server.listen(0, '127.0.0.1', resolve);
    });
    const { port } = server.address() as { port: number };
    expect(await plugin.probe?.(plugin.config.parse({ endpoints: [`https://127.0.0.1:${port}`] }))).toMatchObject({
      available: false,
      reason: expect.stringContaining('no connection within 900 ms'),
    });
    server.close();
  });
});

describe.skipIf(missing !== undefined)(`on a real etcd${missing ? ` (skipped: ${missing})` : ''}`, () => {
  it('is probed, started, measured and stopped', async () => {
    const server = await EtcdServer.start();
    const host = new PluginHost().add({ plugin, config: { endpoints: ['http://127.0.0.1:1', server.endpoint] } });
    await host.start();
    expect(await host.get(Storage).commit([{ key: '/a', value: Buffer.from('1') }], [])).toMatchObject({ ok: true });
    expect(await host.plugins[0]?.metrics.getSingleMetricAsString('oarlock_storage_etcd_calls')).toMatch(
      /oarlock_storage_etcd_calls [2-9]/,
    );
    expect(await host.plugins[0]?.metrics.getSingleMetricAsString('apiserver_storage_size_bytes')).toMatch(
      /^apiserver_storage_size_bytes\{storage_cluster_id="etcd-0"\} \d+$/m,
    );
    await host.stop();
    await server.remove();
  });

  it('connects over TLS only with the right certificate', async () => {
    const tls = await makeTlsFiles();
    const server = await EtcdServer.start({ tls: tls.server });
    const place = (config: object) =>
      new PluginHost().add({ plugin, config: { endpoints: [server.endpoint], requestTimeoutSeconds: 1, ...config } });
    const right = place(tls.client);
    await right.start();
    await right.stop();
    await expect(place(tls.stranger).start()).rejects.toMatchObject({ name: 'WiringError', code: 'StartFailed' });
    await expect(place({ caFile: tls.client.caFile }).start()).rejects.toMatchObject({ code: 'StartFailed' });
    await expect(place({}).start()).rejects.toMatchObject({ code: 'Unavailable', message: expect.stringMatching(/certificate/) });
    await server.remove();
    await tls.remove();
  });
});
