import { createReadStream } from 'node:fs';
import { mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DataDirLock } from '@oarlock/cluster/process/process-state';
import { ImageServer } from '@oarlock/oci/control/image-server';
import type { ImageCommands } from '@oarlock/oci/control/image-commands';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { buildImage, imageArchive } from '../../../../../e2e/fixtures/test-image.ts';
import { tar } from '../../../../../e2e/fixtures/tar.ts';
import { describeError } from '../../../src/common/command-error.ts';
import { withImages } from '../../../src/nodes/images/image-access.ts';
import { list, load, pull, remove } from '../../../src/nodes/images/images.ts';

const name = 'oarlock.test/hello:1';
const image = buildImage(name, tar([{ type: 'file', path: 'hello', bytes: Buffer.from('hello') }]), {});

let root: string;
let dataDir: string;
let printed: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'oarlock-images-'));
  dataDir = join(root, 'data');
  await mkdir(dataDir);
  printed = '';
  vi.spyOn(process.stdout, 'write').mockImplementation((text, done?: unknown) => {
    printed += String(text);
    if (typeof done === 'function') done();
    return true;
  });
});
afterEach(async () => {
  vi.restoreAllMocks();
  await rm(root, { recursive: true });
});

/** Returns the message and exit code with which a command ends. */
async function failure(command: Promise<void>): Promise<{ readonly message: string; readonly exitCode: number }> {
  return command.then(
    () => ({ message: 'succeeded', exitCode: 0 }),
    (error: unknown) => describeError(error),
  );
}
async function listed(): Promise<readonly object[]> {
  printed = '';
  await list({ dataDir, output: 'json' });
  return (JSON.parse(printed) as { readonly images: readonly object[] }).images;
}

describe('oarlock image without a running cluster', () => {
  it('loads the images of an archive, lists and removes them', async () => {
    const file = join(root, 'images.tar');
    await writeFile(file, imageArchive([image]));
    await load(file, { dataDir });
    expect(printed).toBe(`Loaded ${name} (${image.manifest.digest}, 0.0 MiB)\n`);
    expect(await listed()).toEqual([
      { names: [name], digest: image.manifest.digest, id: image.config.digest, sizeBytes: expect.any(Number), notes: [] },
    ]);
    printed = '';
    await list({ dataDir, output: 'text' });
    expect(printed).toMatch(/^NAME +DIGEST +SIZE\noarlock\.test\/hello:1 +sha256:[0-9a-f]{64} +0\.0 MiB\n$/);
    await remove(name, { dataDir });
    expect(await listed()).toEqual([]);
    expect((await stat(join(dataDir, 'plugins', 'runtime-oci'))).mode & 0o777).toBe(0o700);
  });

  it('reports the name or file that is wrong, and changes nothing', async () => {
    const file = join(root, 'hostile.tar');
    await writeFile(file, tar([{ type: 'file', path: 'index.json', bytes: Buffer.from('{"manifests": 1}') }]));
    expect(await failure(load(file, { dataDir }))).toMatchObject({ exitCode: 1 });
    expect(await failure(load(join(root, 'missing.tar'), { dataDir }))).toEqual({
      exitCode: 2,
      message: expect.stringMatching(/missing\.tar cannot be read: no such file/),
    });
    expect(await failure(load(root, { dataDir }))).toEqual({ exitCode: 2, message: `${root} is a directory; pack an OCI layout with tar` });
    expect(await failure(pull('Upper Case', { dataDir }))).toEqual({ exitCode: 2, message: expect.stringContaining('"Upper Case"') });
    expect(await failure(remove(name, { dataDir }))).toEqual({ exitCode: 1, message: `the image "${name}" is not in the store` });
    expect(await failure(list({ dataDir: join(root, 'other'), output: 'text' }))).toEqual({
      exitCode: 1,
      message: expect.stringContaining(`no cluster has run in ${join(root, 'other')}`),
    });
    expect(await listed()).toEqual([]);
  });

  it('reports another command that has the store open', async () => {
    await withImages(dataDir, async () => {
      expect(await failure(list({ dataDir, output: 'text' }))).toEqual({
        exitCode: 1,
        message: expect.stringContaining(`is in use by the process ${process.pid}`),
      });
    });
  });
});

describe('oarlock image with a running cluster', () => {
  it('uses the process that has the store open', async () => {
    const calls: string[] = [];
    const commands: ImageCommands = {
      list: async () => [],
      pull: (reference) => Promise.reject(new Error(`no network for ${reference}`)),
      load: async (archive) => {
        for await (const chunk of archive) calls.push(`load ${(chunk as Buffer).length > 0}`);
        return [];
      },
      remove: async (removed) => void calls.push(`remove ${removed}`),
    };
    const directory = join(dataDir, 'plugins', 'runtime-oci');
    await mkdir(directory, { recursive: true });
    const server = new ImageServer(async () => commands);
    await server.listen(directory);
    try {
      expect(await listed()).toEqual([]);
      const file = join(root, 'small.tar');
      await writeFile(file, 'small');
      await load(file, { dataDir });
      const stdin = createReadStream(file);
      vi.spyOn(process, 'stdin', 'get').mockReturnValue(stdin as unknown as typeof process.stdin);
      await load('-', { dataDir });
      await remove(name, { dataDir });
      expect(calls).toEqual(['load true', 'load true', `remove ${name}`]);
      expect(await failure(pull(name, { dataDir }))).toEqual({ exitCode: 1, message: `no network for ${name}` });
    } finally {
      await server.close();
    }
  });

  it('reports a process without runtime-oci, whose store it does not open', async () => {
    const lock = await DataDirLock.acquire(dataDir, 'https://127.0.0.1:1', ['apiserver']);
    try {
      const { message, exitCode } = await failure(list({ dataDir, output: 'text' }));
      expect([message, exitCode]).toEqual([`process ${process.pid} of ${dataDir} does not run runtime-oci, or is starting or stopping`, 1]);
    } finally {
      await lock.release();
    }
  });
});
