import { once } from 'node:events';
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { connectImages } from '@oarlock/oci/control/image-client';
import { commandsOf, type ImageCommands } from '@oarlock/oci/control/image-commands';
import { imageSocket, ImageServer } from '@oarlock/oci/control/image-server';
import { imageArchive } from '../../../../e2e/fixtures/test-image.ts';
import { layerTar, testImage } from '../fixtures/layer-tar.ts';
import { scriptedRegistry } from '../fixtures/scripted-registry.ts';
import { temporaryStore, type TemporaryStore } from '../fixtures/temporary-store.ts';

const one = testImage('oarlock.test/one:1', { layers: [layerTar([{ path: 'one', bytes: 'one' }])] });
const code = (expected: string, message?: RegExp) =>
  expect.objectContaining({ name: 'OciError', code: expected, ...(message && { message: expect.stringMatching(message) }) });

let store: TemporaryStore;
let directory: string;
let server: ImageServer;
let images: ImageCommands;
beforeEach(async () => {
  store = await temporaryStore();
  directory = await mkdtemp(join(tmpdir(), 'oarlock-socket-'));
  server = new ImageServer(async () => commandsOf(store.images));
  await server.listen(directory);
  const connected = await connectImages(directory);
  if (connected === undefined) throw new Error('the server does not listen');
  images = connected;
});
afterEach(async () => {
  await server.close();
  await store.remove();
  await rm(directory, { recursive: true });
});

describe('commands through the process that has the store open', () => {
  it('load, list and remove images', async () => {
    const [loaded] = await images.load(Readable.from([imageArchive([one])]));
    expect(loaded).toEqual({
      id: one.config.digest,
      manifestDigest: one.manifest.digest,
      repoTags: ['oarlock.test/one:1'],
      repoDigests: [`oarlock.test/one@${one.manifest.digest}`],
      sizeBytes: expect.any(Number),
      notes: [],
    });
    expect(await images.list()).toEqual([loaded]);
    await images.remove('oarlock.test/one:1');
    expect(store.images.list()).toEqual([]);
  });

  it('pull images', async () => {
    const registry = await scriptedRegistry();
    try {
      registry.add('one:1', one);
      const pulled = await images.pull(`${registry.host}/one:1`);
      expect(pulled.repoTags).toEqual([`${registry.host}/one:1`]);
      expect(await images.list()).toEqual([pulled]);
    } finally {
      await registry.stop();
    }
  });

  it('report the errors of the store', async () => {
    await expect(images.remove('oarlock.test/missing:1')).rejects.toEqual(
      code('NotFound', /"oarlock.test\/missing:1" is not in the store/),
    );
    await expect(images.remove('')).rejects.toEqual(code('InvalidReference'));
    await expect(images.pull('Upper Case')).rejects.toEqual(code('InvalidReference', /"Upper Case"/));
  });

  it('reject hostile archives, also before they are sent completely', async () => {
    const endless = Readable.from(
      (function* () {
        yield layerTar([{ path: 'device', type: '3' }]);
        for (;;) yield Buffer.alloc(65_536, 1);
      })(),
    );
    await expect(images.load(endless)).rejects.toEqual(code('InvalidContent', /device/));
    expect(endless.destroyed).toBe(true);
    await expect(images.load(Readable.from([Buffer.alloc(100_000, 7)]))).rejects.toEqual(code('InvalidContent'));
    await expect(images.load(Readable.from([imageArchive([one])]), { name: 'Upper Case' })).rejects.toEqual(code('InvalidReference'));
    expect(await images.list()).toEqual([]);
  });

  it('keep nothing of an archive whose sender fails', async () => {
    const half = imageArchive([one]).subarray(0, 5000);
    const failing = Readable.from(
      (async function* () {
        yield half;
        throw new Error('the file cannot be read');
      })(),
    );
    await expect(images.load(failing)).rejects.toThrow('the file cannot be read');
    expect(await images.list()).toEqual([]);
  });

  it('reject requests that they do not know', async () => {
    const sent = request({ socketPath: join(directory, imageSocket), path: '/other', agent: false }).end();
    const [response] = await once(sent, 'response');
    expect(response.statusCode).toBe(400);
    response.resume();
    await once(response, 'end');
  });
});

describe('the socket', () => {
  it('is for the user of the process only, and replaces that of a process that was killed', async () => {
    expect((await stat(join(directory, imageSocket))).mode & 0o777).toBe(0o600);
    await server.close();
    await writeFile(join(directory, imageSocket), '');
    server = new ImageServer(async () => commandsOf(store.images));
    await server.listen(directory);
    expect(await (await connectImages(directory))?.list()).toEqual([]);
  });

  it('is absent without a process', async () => {
    await server.close();
    expect(await connectImages(directory)).toBeUndefined();
    expect(await connectImages(join(directory, 'x'.repeat(120)))).toBeUndefined();
  });
});
