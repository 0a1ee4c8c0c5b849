import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DataDirLock } from '@oarlock/cluster/process/process-state';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { changeAddress, joinServer } from '../src/server-join.ts';

let dir: string;
let stored: string;
const text = `# the second server
apiVersion: oarlock.dev/v1
kind: Cluster
spec:
  server: { address: 10.0.0.2, port: 6443 } # of the old machine
`;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'server-join-'));
  stored = join(dir, 'cluster.yaml');
  await writeFile(stored, text);
  await writeFile(join(dir, 'server.json'), '{}');
});
afterEach(() => rm(dir, { recursive: true, force: true }));

describe('--address of a server that has joined', () => {
  it('replaces the stored address and nothing else', async () => {
    await changeAddress('fd00::2', undefined, dir);
    expect(await readFile(stored, 'utf8')).toBe(text.replace('10.0.0.2', 'fd00::2'));
  });

  it.each(['', '10.0.0', 'server-b'])('rejects %j, which is no address', async (address) => {
    const message = `--address: ${JSON.stringify(address)} is not an IP address`;
    await expect(joinServer({ dataDir: dir, address, detach: false })).rejects.toThrow(message);
    expect(await readFile(stored, 'utf8')).toBe(text);
  });

  it('is rejected with a cluster file that has another one', async () => {
    const file = join(dir, 'own.yaml');
    await writeFile(file, text);
    await expect(joinServer({ dataDir: dir, file, address: '10.0.0.3', detach: false })).rejects.toThrow(
      `--address: ${file} sets server.address to "10.0.0.2": change it there, and leave out the option`,
    );
    expect(await readFile(file, 'utf8')).toBe(text);
    await changeAddress('10.0.0.2', file, dir);
  });

  it('is rejected while the server runs', async () => {
    const lock = await DataDirLock.acquire(dir, 'https://10.0.0.2:6443', ['apiserver']);
    try {
      await expect(changeAddress('10.0.0.3', undefined, dir)).rejects.toThrow(/uses .* with the address "10.0.0.2": stop it first/);
      expect(await readFile(stored, 'utf8')).toBe(text);
    } finally {
      await lock.release();
    }
  });
});
