import { spawn, type ChildProcess } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { readClusterFile } from '@oarlock/cluster/composition/read-cluster-file';
import { openStorage } from '@oarlock/cluster/composition/open-storage';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { backup } from '../../src/backup/backup.ts';
import { restore } from '../../src/backup/restore.ts';

let dir: string;
let file: string;
const children: ChildProcess[] = [];
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'backup-'));
  file = join(dir, 'cluster.yaml');
  await writeFile(file, 'apiVersion: oarlock.dev/v1\nkind: Cluster\nmetadata: { name: kept }\nspec:\n  roles: [apiserver]\n');
});
afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  await rm(dir, { recursive: true, force: true });
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
const path = (name: string) => join(dir, name);
const saved = (name = 'backup') => ({ dataDir: path('d'), output: path(name), file, keys: true });
const into = (name: string, more: { readonly keys?: boolean; readonly file?: string } = {}) => ({
  dataDir: path(name),
  input: path('backup'),
  file,
  keys: true,
  ...more,
});

/** Creates a data directory with keys and stored entries. */
async function fill(): Promise<void> {
  const { driver, close } = await openStorage(await readClusterFile(file), path('d'));
  for (let at = 0; at < 700; at += 1)
    await driver.commit([{ key: `/registry/configmaps/default/c${at}`, value: Buffer.from(`{"n":${at}}`) }], []);
  await driver.commit([{ key: '/registry/secrets/default/😀', value: Buffer.from([0, 255, 10, 13]) }], []);
  await driver.commit([{ key: '/registry/masterleases/127.0.0.1', value: Buffer.from('{}'), ttlSeconds: 15 }], []);
  await driver.commit([{ key: '/registry/events/default/e', value: Buffer.from('{}'), ttlSeconds: 3600 }], []);
  await close();
  await mkdir(path('d/pki/issued'), { recursive: true });
  await writeFile(path('d/pki/ca.key'), 'the key of the CA');
  await writeFile(path('d/pki/issued/a.json'), '{}');
}

async function stored(name: string) {
  const { driver, close } = await openStorage(await readClusterFile(file), path(name));
  const page = await driver.range({ prefix: '' });
  const old = await driver.get('/a', { revision: 703 }).catch((error: unknown) => error);
  await close();
  return { ...page, old, values: new Map(page.entries.map(({ key, value }) => [key, Buffer.from(value).toString('hex')])) };
}

describe('a backup', { timeout: 300_000 }, () => {
  it('is restored into an empty storage, with keys, at revisions above those of the old cluster', async () => {
    await fill();
    await backup(saved());
    expect((await stat(path('backup'))).mode & 0o777).toBe(0o600);
    expect((await readdir(dir)).filter((name) => name.endsWith('.tmp'))).toEqual([]);
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
    expect(await readdir(dir)).toEqual(['cluster.yaml']);
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
    const { driver, close } = await openStorage(await readClusterFile(file), path('new'));
    await driver.commit([{ key: '/oarlock/restore', value: Buffer.from('{}') }], []);
    for (let at = 0; at < 200; at += 1) await driver.commit([{ key: `/half/${at}`, value: Buffer.from('x') }], []);
    await close();
    await restore(into('new'));
    expect([...(await stored('new')).values.keys()].filter((key) => !key.startsWith('/registry/'))).toEqual([]);
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
      [Buffer.from('not gzip at all'), /cannot be restored/],
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
        '--conditions=@oarlock/source',
        '--import',
        import.meta.resolve('@oxc-node/core/register'),
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
