import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readClusterFile } from '@oarlock/cluster/composition/read-cluster-file';
import { silentLogger } from '@oarlock/primitives/logger';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openStoppedStorage } from '../../src/common/stopped-storage.ts';

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'stopped-storage-'));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

/** Writes a storage plugin whose start waits for its end, as a member of etcd waits for a quorum. */
async function waitingStorage(): Promise<string> {
  const file = join(dir, 'cluster.yaml');
  await writeFile(
    join(dir, 'storage-waiting.mjs'),
    `import { writeFileSync } from 'node:fs';
import { z } from 'zod';
import { Storage } from '@oarlock/spi/storage';
export default Storage.plugin({
  id: 'storage-waiting',
  declares: { durable: true, shared: false },
  config: z.strictObject({}),
  create: (_, { log }) => ({
    start: (signal) =>
      new Promise((_, reject) => {
        signal.addEventListener('abort', () => {
          writeFileSync(${JSON.stringify(join(dir, 'ended'))}, 'ended');
          reject(signal.reason);
        });
        log.warn({}, 'waits for the other members');
      }),
  }),
});
`,
  );
  await writeFile(file, 'apiVersion: oarlock.dev/v1\nkind: Cluster\nspec:\n  roles: [apiserver]\n  storage: ./storage-waiting.mjs\n');
  return file;
}

it('prints what the storage waits for, and ends its start when a signal ends the command', async () => {
  const file = await readClusterFile(await waitingStorage());
  let report: (message: string) => void = () => {};
  const warned = new Promise<string>((resolve) => {
    report = resolve;
  });
  const log = { ...silentLogger, warn: (_: object, message: string) => report(message), child: () => log };
  const opening = openStoppedStorage(file, join(dir, 'data'), { log });
  const rejection = expect(opening).rejects.toThrow(/interrupted by SIGTERM/);
  expect(await Promise.race([warned, opening.then(() => 'opened')])).toBe('waits for the other members');
  const others = process.listeners('SIGTERM').slice(0, -1);
  process.listeners('SIGTERM').at(-1)?.('SIGTERM');
  await rejection;
  expect(await readFile(join(dir, 'ended'), 'utf8')).toBe('ended');
  expect(process.listeners('SIGTERM')).toEqual(others);
});

it('ends a start that lasts too long, with what the storage waits for', async () => {
  const file = await readClusterFile(await waitingStorage());
  let expire: () => void = () => {};
  const clock = {
    after: (ms: number, fire: () => void) => {
      expect(ms).toBe(60_000);
      expire = fire;
      return { cancel() {} };
    },
  };
  const log = { ...silentLogger, warn: () => expire() };
  const opening = openStoppedStorage(file, join(dir, 'data'), { log, timeoutSeconds: 60, clock });
  await expect(opening).rejects.toThrow(`the storage of ${join(dir, 'data')} did not start within 60 s: waits for the other members`);
  expect(await readFile(join(dir, 'ended'), 'utf8')).toBe('ended');
});
