import { storageContract, type StorageFixture } from '@oarlock/spi/storage/contract';
import { afterAll } from 'vitest';
import { EtcdStorage, type EtcdStorageOptions } from '../../src/etcd-storage.ts';
import { etcdMissing, type EtcdServer } from './etcd-server.ts';

const lagBytes = 4 * 1024 * 1024;

/** Runs the contract on one etcd; each test has its own prefix. */
export function etcdContract(
  name: string,
  runs: number,
  start: () => Promise<{ server: EtcdServer; options?: Partial<EtcdStorageOptions>; remove?: () => Promise<void> }>,
): void {
  const unavailable = etcdMissing();
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
      driver,
      lagBytes,
      cost: () => driver.stats.calls,
      reopen: async () => {
        await server.kill();
        await server.run();
        return connect();
      },
      dispose: async () => {
        for (const each of drivers) await each.stop();
      },
    };
  };
  storageContract(name, open, { runs, ...(unavailable !== undefined && { unavailable }) });
  afterAll(async () => {
    const { server, remove } = (await running) ?? {};
    await server?.remove();
    await remove?.();
  });
}
