import { storageContract, type StorageFixture } from '@oarlock/spi/storage.contract';
import { afterAll } from 'vitest';
import { EtcdStorage, type EtcdStorageOptions } from '../src/etcd-storage.ts';
import { EtcdServer, etcdMissing } from './etcd-server.ts';
import { makeTlsFiles } from './tls-files.ts';

const unavailable = etcdMissing();
const lagBytes = 4 * 1024 * 1024;

/** One etcd for a whole suite; each test has a prefix of its own in it. */
function suite(name: string, runs: number, start: () => Promise<{ server: EtcdServer; options?: Partial<EtcdStorageOptions>; remove?: () => Promise<void> }>): void {
  let running: ReturnType<typeof start> | undefined;
  let fixtures = 0;
  const open = async (): Promise<StorageFixture> => {
    running ??= start();
    const { server, options } = await running;
    fixtures += 1;
    const drivers: EtcdStorage[] = [];
    const connect = async (): Promise<EtcdStorage> => {
      const driver = new EtcdStorage({ endpoints: [server.endpoint], prefix: `/test-${fixtures}`, watchBytes: lagBytes, ...options });
      drivers.push(driver);
      await driver.start();
      return driver;
    };
    const driver = await connect();
    return {
      driver, lagBytes,
      cost: () => driver.stats.calls,
      reopen: async () => {
        await server.kill();
        await server.run();
        return connect();
      },
      dispose: async () => { for (const each of drivers) await each.stop(); },
    };
  };
  storageContract(name, open, { runs, ...(unavailable !== undefined && { unavailable }) });
  afterAll(async () => {
    const { server, remove } = await running ?? {};
    await server?.remove();
    await remove?.();
  });
}

suite('storage-etcd', 20, async () => ({ server: await EtcdServer.start() }));

suite('storage-etcd over TLS with client certificates', 5, async () => {
  const tls = await makeTlsFiles();
  return { server: await EtcdServer.start({ tls: tls.server }), options: tls.client, remove: tls.remove };
});
