import { spawn, type ChildProcess } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';

import { gunzipSync, gzipSync } from 'node:zlib';
import { readClusterFile } from '@oarlock/cluster/composition/read-cluster-file';
import { openStorage } from '@oarlock/cluster/composition/open-storage';
import { run } from '@oarlock/cluster/run';
import { afterEach, describe, expect, it } from 'vitest';
import { backup } from '../../src/backup/backup.ts';
import { restore } from '../../src/backup/restore.ts';
import { loaderArguments } from '../support/plugins-command.ts';
import { BackupBench, craftedBackup } from '../support/backup-bench.ts';

const bench = BackupBench.use();
const { path, saved, into, fill, stored } = bench;

const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

describe('a backup', () => {
  it('is restored into an empty storage, with keys, at revisions above those of the old cluster', async () => {
    await fill();
    await backup(saved());
    expect((await stat(path('backup'))).mode & 0o777).toBe(0o600);
    expect((await readdir(bench.dir)).filter((name) => name.endsWith('.tmp'))).toEqual([]);
    await restore(into('new'));
    const [before, after] = [await stored('d'), await stored('new')];
    before.values.delete('/registry/masterleases/127.0.0.1');
    expect(after.values).toEqual(before.values);
    expect(after.revision).toBeGreaterThan(before.revision + 1_000_000);
    expect(after.old).toMatchObject({ code: 'Compacted' });
    expect(await readFile(path('new/pki/ca.key'), 'utf8')).toBe('the key of the CA');
    expect((await stat(path('new/pki/ca.key'))).mode & 0o777).toBe(0o600);
    expect((await stat(path('new/pki'))).mode & 0o777).toBe(0o700);
    // and again, from the restored one
    await backup({ ...saved('second'), dataDir: path('new') });
    await restore({ ...into('newer'), input: path('second') });
    expect((await stored('newer')).values).toEqual(before.values);
  });

  it('fails for a data directory without a cluster', async () => {
    await expect(backup(saved())).rejects.toThrow(`no API server has run in ${path('d')}`);
    await expect(backup({ dataDir: path('d'), output: path('backup'), keys: false })).rejects.toThrow('no API server has run');
    expect(await readdir(bench.dir)).toEqual(['cluster.yaml']);
  });

  it('leaves keys out on request', async () => {
    await fill();
    await backup({ ...saved(), keys: false });
    expect(gunzipSync(await readFile(path('backup'))).toString()).not.toContain('pki');
    await restore(into('new'));
    await expect(stat(path('new/pki'))).rejects.toMatchObject({ code: 'ENOENT' });
  });

  it('is not restored over existing data or other keys', async () => {
    await fill();
    await backup(saved());
    await expect(restore(into('d'))).rejects.toThrow('storage-embedded is not empty: restore into an empty storage');
    await mkdir(path('new/pki'), { recursive: true });
    await writeFile(path('new/pki/ca.key'), 'another');
    await expect(restore(into('new'))).rejects.toThrow(/new\/pki\/ca\.key differs from the key in the backup/);
    expect((await stored('new')).entries).toEqual([]);
    await restore(into('new', { keys: false }));
    expect((await stored('new')).entries).toHaveLength(702);
    expect(await readFile(path('new/pki/ca.key'), 'utf8')).toBe('another');
  });

  it('is restored from the start after an interrupted restore', async () => {
    await fill();
    await backup(saved());
    const { driver, close } = await openStorage(await readClusterFile(bench.file), path('new'));
    await driver.commit([{ key: '/oarlock/restore', value: Buffer.from('{}') }], []);
    for (let at = 0; at < 200; at += 1) await driver.commit([{ key: `/half/${at}`, value: Buffer.from('x') }], []);
    await close();
    await restore(into('new'));
    expect([...(await stored('new')).values.keys()].filter((key) => !key.startsWith('/registry/'))).toEqual([]);
  });

  describe('whose restore was interrupted', () => {
    const key = { file: 'pki/ca.key', content: Buffer.from('the key of the CA').toString('base64') };
    /** Interrupts a restore between two objects: the second one is larger than a commit may be. */
    async function interrupt(more: { readonly keys?: boolean } = {}): Promise<void> {
      const large = { key: '/registry/large', value: Buffer.alloc(8 * 1024 * 1024).toString('base64') };
      await writeFile(path('backup'), craftedBackup([{ key: '/registry/a', value: '' }, large, key]));
      await expect(restore(into('new', more))).rejects.toMatchObject({ code: 'TooLarge' });
    }
    const up = async () => run({ file: await readClusterFile(bench.file), dataDir: path('new'), port: 0 });

    it('has its keys before its objects, and does not become a cluster with other keys', async () => {
      await interrupt();
      expect(await readFile(path('new/pki/ca.key'), 'utf8')).toBe('the key of the CA');
      await rm(path('new/pki/ca.key')); // as if the interruption came earlier
      await expect(up()).rejects.toThrow(`${path('new')} contains a part of a backup, because its restore was interrupted: run the same`);
      expect(await readdir(path('new/pki'))).toEqual([]);
      await fill();
      await backup(saved());
      await restore(into('new'));
      expect(await readFile(path('new/pki/ca.key'), 'utf8')).toBe('the key of the CA');
      expect(await readdir(path('new'))).not.toContain('restore-in-progress');
    });

    it('is not started as a cluster with own keys, and not backed up', async () => {
      await interrupt({ keys: false });
      await expect(up()).rejects.toThrow(/the storage contains a part of a backup, because its restore was interrupted: run the same/);
      await expect(backup({ ...saved('second'), dataDir: path('new') })).rejects.toThrow(/the storage contains a part of a backup/);
    });
  });

  it('is rejected without changes if it is damaged, truncated, of another kind or from a newer release', async () => {
    await fill();
    await backup(saved());
    const whole = await readFile(path('backup'));
    const text = gunzipSync(whole).toString();
    const lines = text.trimEnd().split('\n');
    for (const [damage, message] of [
      [whole.subarray(0, whole.length - 20), /cannot be restored/],
      [gzipSync(`${lines.slice(0, -1).join('\n')}\n`), /checksum/],
      [gzipSync(text.replace('c17"', 'c18"')), /checksum does not match/],
      [gzipSync(text.replace('"version":1', '"version":2')), /unknown format version 2/],
      [gzipSync('{}\n{}\n'), /it is not a backup/],
      [Buffer.from('not gzip at all'), /cannot be restored: it is not a backup/],
      // the message does not quote the line, which may be a key
      [gzipSync(`${lines[0]}\nmarker\n${lines.at(-1)}\n`), /^(?!.*marker).*a line is not JSON/s],
    ] as const) {
      await writeFile(path('backup'), damage);
      await expect(restore(into('new'))).rejects.toThrow(message);
    }
    await expect(stat(path('new'))).rejects.toMatchObject({ code: 'ENOENT' });
  });

  it('restores files only into the key directories', async () => {
    await fill();
    await backup(saved());
    const [head = ''] = gunzipSync(await readFile(path('backup')))
      .toString()
      .split('\n');
    for (const name of ['../outside', 'pki/../../outside', '/etc/outside', 'process.json']) {
      const body = `${head}\n${JSON.stringify({ file: name, content: '' })}\n`;
      const end = JSON.stringify({ entries: 0, sha256: createHash('sha256').update(body).digest('hex') });
      await writeFile(path('backup'), gzipSync(`${body}${end}\n`));
      await expect(restore(into('new'))).rejects.toThrow('which is outside the key directories');
    }
  });

  it('leaves the CA of the members of a storage to the storage', async () => {
    await fill();
    await mkdir(path('d/pki/etcd'));
    await writeFile(path('d/pki/etcd/ca.crt'), 'of the former members');
    await backup(saved());
    const text = gunzipSync(await readFile(path('backup'))).toString();
    expect(text).not.toContain('pki/etcd');
    // an earlier release backed it up, and the storage that the restore opens has created another one
    const earlier = { file: 'pki/etcd/ca.crt', content: Buffer.from('of the former members').toString('base64') };
    const body = [...text.trimEnd().split('\n').slice(0, -1), JSON.stringify(earlier), ''].join('\n');
    const entries = (JSON.parse(text.trimEnd().split('\n').at(-1) ?? '') as { readonly entries: number }).entries;
    const end = JSON.stringify({ entries, sha256: createHash('sha256').update(body).digest('hex') });
    await writeFile(path('backup'), gzipSync(`${body}${end}\n`));
    await mkdir(path('new/pki/etcd'), { recursive: true });
    await writeFile(path('new/pki/etcd/ca.crt'), 'of the new members');
    await restore(into('new'));
    expect(await readFile(path('new/pki/etcd/ca.crt'), 'utf8')).toBe('of the new members');
  });

  it('is not written if the storage is empty, and reads the storage of the cluster file of a joined server', async () => {
    await mkdir(path('d/pki'), { recursive: true });
    await expect(backup(saved())).rejects.toThrow(/storage-embedded is empty: start the cluster, or name its cluster.yaml with -f/);
    await expect(stat(path('backup'))).rejects.toMatchObject({ code: 'ENOENT' });
    await writeFile(
      path('d/cluster.yaml'),
      'apiVersion: oarlock.dev/v1\nkind: Cluster\nspec:\n  roles: [apiserver]\n  storage: storage-memory\n',
    );
    await expect(backup({ dataDir: path('d'), output: path('backup'), keys: true })).rejects.toThrow(/storage-memory is not durable/);
  });

  it('requires a durable storage while no cluster runs, and a restore requires one always', async () => {
    await fill();
    await backup(saved());
    await writeFile(
      path('memory.yaml'),
      'apiVersion: oarlock.dev/v1\nkind: Cluster\nspec:\n  roles: [apiserver]\n  storage: storage-memory\n',
    );
    await expect(backup({ ...saved('other'), file: path('memory.yaml') })).rejects.toThrow(/storage-memory is not durable/);
    await expect(restore(into('new', { file: path('memory.yaml') }))).rejects.toThrow(/storage-memory is not durable/);
  });

  it('reads a running cluster with any storage, and is not restored into it', async () => {
    await writeFile(
      path('memory.yaml'),
      'apiVersion: oarlock.dev/v1\nkind: Cluster\nspec:\n  roles: [apiserver]\n  storage: storage-memory\n  server: { port: 0 }\n',
    );
    const port = await freePort();
    const child = spawn(
      process.execPath,
      [
        ...loaderArguments,
        new URL('../../bin/oarlock.js', import.meta.url).pathname,
        'up',
        '-f',
        path('memory.yaml'),
        '--data-dir',
        path('d'),
        '--port',
        String(port),
      ],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    children.push(child);
    await new Promise<void>((resolve, reject) => {
      let output = '';
      child.stdout.on('data', (chunk: Buffer) => {
        output += String(chunk);
        if (output.includes('Stop it with Ctrl-C')) resolve();
      });
      child.once('exit', (code) => reject(new Error(`the cluster ended with ${code}: ${output}`)));
    });
    await backup(saved());
    await expect(restore(into('d'))).rejects.toThrow(/is in use by process/);
    child.kill('SIGTERM');
    await once(child, 'exit');
    await restore(into('new'));
    const { values } = await stored('new');
    expect([...values.keys()]).toContain('/registry/namespaces/default');
    expect(await readFile(path('new/pki/ca.key'), 'utf8')).toContain('PRIVATE KEY');
  });
});
