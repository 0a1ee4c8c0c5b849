import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { writeAtomically } from '../../../src/volumes/internal/atomic-writer.ts';
import { ProjectedDriver, type ObjectVolumeSources } from '../../../src/volumes/internal/api-object-volumes.ts';

const pod = { metadata: { name: 'p', namespace: 'default', uid: 'u' }, spec: { containers: [{ name: 'c' }] } };
const tokens = (count: number) =>
  Array.from({ length: count }, (_, index) => ({ serviceAccountToken: { path: `deep/${index}/token`, expirationSeconds: 600 } }));

describe('an API object volume of a terminating pod', () => {
  let directory: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'oarlock-object-volumes-'));
  });
  afterEach(() => rm(directory, { recursive: true }));

  const driver = (token: () => Promise<string>, now: () => number) =>
    new ProjectedDriver({ tokens: { token }, clock: { now } } as unknown as ObjectVolumeSources);
  const request = (count: number) => ({
    pod,
    volume: { name: 'v', projected: { sources: tokens(count) } },
    path: join(directory, 'v'),
    readOnly: false,
  });

  it('is not written if its content arrives after the mount was aborted', async () => {
    let provideToken = (_token: string) => {};
    const content = new Promise<string>((resolve) => {
      provideToken = resolve;
    });
    const over = new AbortController();
    const mounted = driver(() => content, Date.now).mount(request(1), { signal: over.signal });
    over.abort(new Error('the pod goes'));
    provideToken('abc');
    await expect(mounted).rejects.toThrow('the pod goes');
    expect(existsSync(join(directory, 'v'))).toBe(false);
  });

  it('is removed after a running write', async () => {
    let startWrite = () => {};
    const writeStarted = new Promise<void>((resolve) => {
      startWrite = resolve;
    });
    const volumes = driver(
      () => Promise.resolve('abc'),
      () => {
        startWrite();
        return 0;
      },
    );
    const mounted = volumes.mount(request(40), {});
    await writeStarted;
    const path = join(directory, 'v');
    await volumes.unmount({ path });
    await expect(mounted).resolves.toEqual({ hostPath: path });
    expect(existsSync(path)).toBe(false);
  });
});

describe('writeAtomically', () => {
  let directory: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'oarlock-atomic-'));
    await mkdir(join(directory, 'outside', 'keys'), { recursive: true });
    await writeFile(join(directory, 'outside', 'keys', 'ca.key'), 'key');
  });
  afterEach(() => rm(directory, { recursive: true }));
  const write = (text: string) =>
    writeAtomically(join(directory, 'volume'), { payload: new Map([['file', { data: Buffer.from(text), mode: 0o644 }]]), now: Date.now() });

  it.each(['../outside/keys', '../../../../../../..', '..', '.', 'own', '..2026_01_01_00_00_00.1'])(
    'removes nothing outside of the volume if a pod has pointed ..data to %s',
    async (link) => {
      await write('one');
      const volume = join(directory, 'volume');
      await mkdir(join(volume, 'own'));
      await symlink('../outside/keys', join(volume, '..2026_01_01_00_00_00.1'));
      await rm(join(volume, '..data'));
      await symlink(link, join(volume, '..data'));
      expect(await write('two')).toBe(true);
      expect(await readFile(join(volume, 'file'), 'utf8')).toBe('two');
      expect(await readFile(join(directory, 'outside', 'keys', 'ca.key'), 'utf8')).toBe('key');
    },
  );

  it('replaces a directory in the place of ..data', async () => {
    await mkdir(join(directory, 'volume', '..data'), { recursive: true });
    expect(await write('one')).toBe(true);
    expect(await readFile(join(directory, 'volume', 'file'), 'utf8')).toBe('one');
    expect(await write('one')).toBe(false);
  });
});
