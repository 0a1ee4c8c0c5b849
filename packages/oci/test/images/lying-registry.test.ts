import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { sha256, testImage } from '../fixtures/layer-tar.ts';
import { code, image, lower, PullBench } from '../fixtures/pull-bench.ts';

const bench = PullBench.use();
const isBlob = (url: string | undefined, digest: string) => url?.includes(`/blobs/${digest}`) === true;
const lowerDigest = image.layers[0]?.digest ?? '';

describe('a lying registry', () => {
  const serve = (body: (bytes: Buffer) => Buffer, headers: Record<string, string> = {}) => {
    bench.registry.intercept = (request, response, bytes) => {
      if (!isBlob(request.url, lowerDigest) || !bytes) return false;
      response.writeHead(200, headers).end(body(bytes));
      return true;
    };
  };

  it.each<[string, (bytes: Buffer) => Buffer, string]>([
    ['other bytes of the same size', (bytes) => Buffer.alloc(bytes.length, 'x'), 'InvalidContent'],
    ['more bytes than the manifest says', (bytes) => Buffer.concat([bytes, Buffer.from('more')]), 'InvalidContent'],
    ['fewer bytes, again and again', (bytes) => bytes.subarray(0, 10), 'Unavailable'],
  ])('that sends %s fails the pull and leaves nothing', async (_, body, expected) => {
    serve(body);
    await expect(bench.store.images.pull({ reference: bench.reference() })).rejects.toEqual(code(expected));
    bench.expectNothing();
    bench.registry.intercept = () => false;
    expect(await bench.store.images.pull({ reference: bench.reference() })).toMatchObject({ id: image.config.digest });
  });

  it('that sends another manifest than its digest is rejected', async () => {
    bench.registry.intercept = (request, response) => {
      if (!request.url?.includes('/manifests/')) return false;
      response.writeHead(200, { 'docker-content-digest': image.manifest.digest }).end('{"schemaVersion":2}');
      return true;
    };
    await expect(bench.store.images.pull({ reference: bench.reference() })).rejects.toEqual(
      code('InvalidContent', /unexpected digest of the manifest/),
    );
    await expect(bench.store.images.pull({ reference: `${bench.registry.host}/app@${image.manifest.digest}` })).rejects.toEqual(
      code('InvalidContent'),
    );
  });

  it('that sends an endless manifest is cut off', async () => {
    bench.registry.intercept = (_, response) => {
      response.writeHead(200);
      const write = () => {
        while (!response.destroyed && response.write(Buffer.alloc(256 * 1024, ' ')));
      };
      response.on('drain', write).on('error', () => {});
      write();
      return true;
    };
    await expect(bench.store.images.pull({ reference: bench.reference() })).rejects.toEqual(code('TooLarge'));
  });

  it('with a layer that is no archive, or whose diff id is wrong, is rejected', async () => {
    bench.registry.add('bad:1', testImage('', { layers: [Buffer.from('not an archive')], compress: 'none' }));
    bench.registry.add('bad:2', testImage('', { layers: [lower], diffIds: [sha256('other')] }));
    bench.registry.add('bad:3', testImage('', { layers: [lower], diffIds: [] }));
    for (const tag of [1, 2, 3]) {
      await expect(bench.store.images.pull({ reference: `${bench.registry.host}/bad:${tag}` })).rejects.toEqual(code('InvalidContent'));
      bench.expectNothing();
    }
    expect((await bench.store.images.gc()).removedBlobs).toBeGreaterThan(0);
    expect(readdirSync(join(bench.store.directory, 'blobs/sha256'))).toEqual([]);
  });

  it.each<[string, (manifest: Record<string, unknown>) => void, string]>([
    ['schema version 1', (manifest) => (manifest['schemaVersion'] = 1), 'Unsupported'],
    [
      'a foreign layer',
      (manifest) =>
        (manifest['layers'] = [
          { mediaType: 'application/vnd.docker.image.rootfs.foreign.diff.tar.gzip', digest: lowerDigest, size: 1, urls: ['http://x'] },
        ]),
      'Unsupported',
    ],
    [
      '128 layers',
      (manifest) =>
        (manifest['layers'] = Array.from({ length: 128 }, () => ({ mediaType: image.layers[0]?.mediaType, digest: lowerDigest, size: 1 }))),
      'TooLarge',
    ],
    [
      'a negative size',
      (manifest) => (manifest['layers'] = [{ mediaType: image.layers[0]?.mediaType, digest: lowerDigest, size: -1 }]),
      'InvalidContent',
    ],
    [
      'an artifact',
      (manifest) => (manifest['config'] = { mediaType: 'application/vnd.example', digest: lowerDigest, size: 1 }),
      'Unsupported',
    ],
    [
      'an index without this platform',
      (manifest) => {
        delete manifest['config'];
        delete manifest['layers'];
        manifest['manifests'] = [
          { mediaType: image.manifest.mediaType, digest: lowerDigest, size: 1, platform: { os: 'windows', architecture: 'amd64' } },
        ];
      },
      'NotFound',
    ],
  ])('with a manifest of %s is rejected', async (_, change, expected) => {
    const manifest = JSON.parse(image.manifest.bytes.toString()) as Record<string, unknown>;
    delete manifest['mediaType'];
    change(manifest);
    bench.registry.intercept = (request, response) => {
      if (!request.url?.includes('/manifests/')) return false;
      response.writeHead(200).end(JSON.stringify(manifest));
      return true;
    };
    await expect(bench.store.images.pull({ reference: bench.reference() })).rejects.toEqual(code(expected));
    bench.expectNothing();
  });
});
