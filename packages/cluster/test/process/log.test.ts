import { mkdtemp, readdir, readFile, readlink, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deepFreeze } from '@oarlock/api/object';
import { StatusError } from '@oarlock/api/status';
import { describe, expect, it, vi } from 'vitest';
import { openLog } from '../../src/process/log.ts';

it('logs errors with frozen properties and their causes', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'log-'));
  const file = join(directory, 'oarlock.log');
  const { log, close } = openLog(file, 'info');
  const cause = new StatusError(
    deepFreeze({ apiVersion: 'v1', kind: 'Status', metadata: {}, status: 'Failure', message: 'too old', reason: 'Expired', code: 410 }),
  );
  log.info({ err: cause }, 'one');
  log.info({ err: new Error('could not look', { cause }) }, 'two');
  const lines = await vi.waitFor(async () => {
    const all = (await readFile(file, 'utf8')).trim().split('\n');
    if (all.length < 2) throw new Error('not written yet');
    return all.map((line) => JSON.parse(line) as { readonly err: { readonly message: string } });
  });
  await close();
  expect(lines.map(({ err }) => err.message)).toEqual(['too old', 'could not look: too old']);
  await rm(directory, { recursive: true });
});

it('redacts cryptographic keys, and not the keys of objects', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'log-'));
  const file = join(directory, 'oarlock.log');
  const { log, close } = openLog(file, 'info');
  const keys = [
    'default/web',
    'node-1',
    'kube-system/system:leader',
    '/registry/secrets/default/a',
    'a'.repeat(64),
    'dGhlIGtleSBvZiBBRVM/+w==',
    '-----BEGIN PRIVATE KEY-----',
  ];
  for (const key of keys) log.info({ key }, 'a key');
  const lines = await vi.waitFor(async () => {
    const all = (await readFile(file, 'utf8')).trim().split('\n');
    if (all.length < keys.length) throw new Error('not written yet');
    return all.map((line) => (JSON.parse(line) as { readonly key: string }).key);
  });
  await close();
  expect(lines).toEqual([
    'default/web',
    'node-1',
    'kube-system/system:leader',
    '/registry/secrets/default/a',
    ...Array<string>(3).fill('<redacted>'),
  ]);
  await rm(directory, { recursive: true });
});

it('reports a file that cannot be written, without ending the process', async () => {
  const { log, check, close } = openLog('/dev/full', 'info');
  expect(check()).toEqual({ healthy: true });
  log.info({}, 'one');
  await vi.waitFor(() => expect(check()).toMatchObject({ healthy: false, reason: expect.stringContaining('ENOSPC') as string }), 20_000);
  await expect(close()).resolves.toBeUndefined();
});

describe('the end of a log', () => {
  it('writes all lines', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'log-'));
    const file = join(directory, 'oarlock.log');
    const { log, close } = openLog(file, 'info');
    for (let index = 0; index < 1000; index += 1) log.info({ index }, 'a line');
    await close();
    expect((await readFile(file, 'utf8')).trim().split('\n')).toHaveLength(1000);
    await rm(directory, { recursive: true });
  });

  it('does not wait for a disk that is full, also when no write has failed before', async () => {
    const { log, close } = openLog('/dev/full', 'info');
    const openFiles = async () =>
      Promise.all((await readdir('/proc/self/fd')).map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => '')));
    await vi.waitFor(async () => expect(await openFiles()).toContain('/dev/full'));
    log.info({}, 'one');
    log.info({}, 'two');
    await close();
  });
});
