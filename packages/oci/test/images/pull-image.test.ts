import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { BuiltImage } from '../../../../e2e/fixtures/test-image.ts';
import { sha256, testImage } from '../fixtures/layer-tar.ts';
import { close, listen } from '../fixtures/scripted-registry.ts';
import { temporaryStore } from '../fixtures/temporary-store.ts';
import { code, image, lower, upper, PullBench } from '../fixtures/pull-bench.ts';

const bench = PullBench.use();
const isBlob = (url: string | undefined, digest: string) => url?.includes(`/blobs/${digest}`) === true;
const lowerDigest = image.layers[0]?.digest ?? '';

describe('pull', () => {
  it('stores an image with the fields of CRI, and requests only the digest when it is pulled again', async () => {
    const pulled = await bench.store.images.pull({ reference: bench.reference() });
    expect(pulled).toMatchObject({
      id: image.config.digest,
      repoTags: [bench.reference()],
      repoDigests: [`${bench.registry.host}/app@${image.manifest.digest}`],
      sizeBytes: image.config.bytes.length + image.layers.reduce((sum, { bytes }) => sum + bytes.length, 0),
      chainIds: [sha256(lower), sha256(`${sha256(lower)} ${sha256(upper)}`)],
    });
    const root = await bench.store.snapshots.prepare({ key: 'c', image: pulled.id });
    expect(readFileSync(join(root.path ?? '', 'etc/name'), 'utf8')).toBe('upper');
    bench.registry.requests.length = 0;
    expect(await bench.store.images.pull({ reference: bench.reference() })).toEqual(pulled);
    expect(bench.registry.requests).toEqual(['HEAD /v2/app/manifests/1']);
    expect(await bench.store.images.pull({ reference: `${bench.registry.host}/app@${image.manifest.digest}` })).toMatchObject({
      id: pulled.id,
    });
  });

  it('downloads and extracts a layer once for concurrent pulls', async () => {
    bench.registry.add('other:1', testImage('', { layers: [lower], compress: 'none' }));
    await Promise.all([
      bench.store.images.pull({ reference: bench.reference() }),
      bench.store.images.pull({ reference: bench.reference() }),
      bench.store.images.pull({ reference: `${bench.registry.host}/other:1` }),
    ]);
    expect(bench.registry.requests.filter((request) => request.includes(lowerDigest))).toHaveLength(1);
    expect(readdirSync(join(bench.store.directory, 'layers'))).toHaveLength(2);
  });

  it('goes on with a shared layer when the caller that started it aborts', async () => {
    const first = new AbortController();
    let release = () => {};
    const reached = new Promise<void>((resolve) => {
      bench.registry.intercept = (request, response, bytes) => {
        if (!isBlob(request.url, lowerDigest)) return false;
        response.writeHead(200, { 'content-length': bytes?.length });
        response.write(bytes?.subarray(0, 100));
        release = () => response.end(bytes?.subarray(100));
        resolve();
        return true;
      };
    });
    const aborted = bench.store.images.pull({ reference: bench.reference(), signal: first.signal });
    await reached;
    const waiting = new Promise<void>((resolve) => {
      const second = bench.store.images.pull({
        reference: bench.reference(),
        onProgress: ({ digest }) => (digest === lowerDigest ? resolve() : undefined),
      });
      void second.then(() => resolve());
      pulled = second;
    });
    await waiting;
    first.abort(new Error('no longer needed'));
    await expect(aborted).rejects.toThrow('no longer needed');
    release();
    expect(await pulled).toMatchObject({ id: image.config.digest });
  });
  let pulled: Promise<unknown> = Promise.resolve();

  it('reports progress of each layer', async () => {
    const seen: string[] = [];
    await bench.store.images.pull({
      reference: bench.reference(),
      onProgress: ({ digest, status }) => seen.push(`${digest === lowerDigest ? 'lower' : 'upper'} ${status}`),
    });
    for (const status of ['waiting', 'downloading', 'extracting', 'done']) expect(seen).toContain(`lower ${status}`);
  });

  it('continues a truncated download with a range', async () => {
    const ranges: (string | undefined)[] = [];
    let cut = () => {};
    bench.registry.intercept = (request, response, bytes) => {
      if (!isBlob(request.url, lowerDigest)) return false;
      ranges.push(request.headers.range);
      if (ranges.length > 1) return false;
      response.writeHead(200, { 'content-length': bytes?.length });
      response.write(bytes?.subarray(0, 2000));
      cut = () => response.destroy();
      return true;
    };
    await bench.store.images.pull({
      reference: bench.reference(),
      onProgress: ({ digest, completedBytes }) => (digest === lowerDigest && completedBytes === 2000 ? cut() : undefined),
    });
    expect(ranges).toEqual([undefined, 'bytes=2000-']);
  });

  it('continues an interrupted pull after a restart', async () => {
    const controller = new AbortController();
    bench.registry.intercept = (request, response, bytes) => {
      if (!isBlob(request.url, lowerDigest)) return false;
      response.writeHead(200, { 'content-length': bytes?.length });
      response.write(bytes?.subarray(0, 3000));
      return true;
    };
    const aborted = bench.store.images.pull({
      reference: bench.reference(),
      signal: controller.signal,
      onProgress: ({ completedBytes, digest }) => {
        if (digest === lowerDigest && completedBytes === 3000) controller.abort(new Error('stopped'));
      },
    });
    await expect(aborted).rejects.toThrow('stopped');
    bench.expectNothing();
    bench.store = await bench.store.reopen();
    bench.registry.intercept = (request) => {
      if (isBlob(request.url, lowerDigest)) bench.registry.requests.push(`range ${request.headers.range}`);
      return false;
    };
    await bench.store.images.pull({ reference: bench.reference() });
    expect(bench.registry.requests).toContain('range bytes=3000-');
    bench.store = await bench.store.reopen();
    expect(bench.store.images.status(bench.reference())?.id).toBe(image.config.digest);
  });
});

describe('retries and mirrors', () => {
  it('repeats requests after 429 and 5xx, after the delay of Retry-After', async () => {
    let failures = 2;
    bench.registry.intercept = (_, response) => {
      if (failures === 0) return false;
      failures -= 1;
      response.writeHead(failures === 1 ? 429 : 503, { 'retry-after': '7' }).end();
      return true;
    };
    await bench.store.images.pull({ reference: bench.reference() });
    expect(bench.delays).toEqual([7000, 7000]);
  });

  it('gives up after five attempts, and at once when nothing listens', async () => {
    bench.registry.intercept = (_, response) => {
      response.writeHead(500).end();
      return true;
    };
    await expect(bench.store.images.pull({ reference: bench.reference() })).rejects.toEqual(
      code('Unavailable', /unexpected status from HEAD request to .*: 500/),
    );
    expect(bench.registry.requests).toHaveLength(5);
    const { server, host } = await listen(() => {});
    await close(server);
    bench.delays.length = 0;
    await expect(bench.store.images.pull({ reference: `${host}/app:1` })).rejects.toEqual(
      code(
        'Unavailable',
        new RegExp(
          `^failed to pull and unpack image "${host}/app:1": failed to resolve reference .*failed to do request: Head "http.*": dial tcp ${host}: connect: connection refused`,
        ),
      ),
    );
    expect(bench.delays).toEqual([]);
  });

  it('reports which image was not found, in the words of containerd', async () => {
    const missing = `${bench.registry.host}/missing:1`;
    await expect(bench.store.images.pull({ reference: missing })).rejects.toMatchObject({
      code: 'NotFound',
      message: `failed to pull and unpack image "${missing}": failed to resolve reference "${missing}": ${missing}: not found`,
    });
    await expect(bench.store.images.pull({ reference: 'Not A Name' })).rejects.toEqual(code('InvalidReference'));
  });

  it('pulls through the mirrors of hosts.toml in their order', async () => {
    const hosts = join(bench.store.directory, 'hosts');
    await mkdir(join(hosts, 'upstream.example.com'), { recursive: true });
    const { server, host: broken } = await listen((_, response) => response.writeHead(503).end());
    try {
      await writeFile(
        join(hosts, 'upstream.example.com/hosts.toml'),
        `server = "https://upstream.invalid"\n[host."http://${broken}"]\n  capabilities = ["pull", "resolve"]\n[host."http://${bench.registry.host}"]\n  capabilities = ["pull", "resolve"]\n  [host."http://${bench.registry.host}".header]\n    x-token = ["a", "b"]\n`,
      );
      bench.store = await bench.store.reopen({ hostsDirectory: hosts });
      const headers: unknown[] = [];
      bench.registry.intercept = (request) => {
        headers.push(request.headers['x-token']);
        return false;
      };
      expect(await bench.store.images.pull({ reference: 'upstream.example.com/app:1' })).toMatchObject({
        repoTags: ['upstream.example.com/app:1'],
      });
      expect(bench.registry.requests[0]).toBe('GET /v2/app/manifests/1?ns=upstream.example.com');
      expect(headers[0]).toBe('a, b');
      await writeFile(join(hosts, 'upstream.example.com/hosts.toml'), '[host."https://x"]\nskip_verify = "yes"\n');
      await expect(bench.store.images.pull({ reference: 'upstream.example.com/app:1' })).rejects.toEqual(
        code('FailedPrecondition', /hosts\.toml: host\.https:\/\/x\.skip_verify/),
      );
    } finally {
      await close(server);
    }
  });

  it('selects the manifest of the platform from an index', async () => {
    const mediaType = 'application/vnd.oci.image.index.v1+json';
    const bytes = Buffer.from(
      JSON.stringify({
        schemaVersion: 2,
        mediaType,
        manifests: [
          { mediaType: image.manifest.mediaType, digest: sha256('x'), size: 1, platform: { os: 'linux', architecture: 's390x' } },
          {
            mediaType: image.manifest.mediaType,
            digest: image.manifest.digest,
            size: image.manifest.bytes.length,
            platform: { os: 'linux', architecture: 'arm', variant: 'v6' },
          },
        ],
      }),
    );
    const index: BuiltImage = { ...image, manifest: { mediaType, bytes, digest: sha256(bytes) } };
    bench.registry.add('multi:1', index);
    bench.registry.add('multi:manifest', image);
    bench.registry.add('multi:1', index);
    const pulled = await bench.store.images.pull({
      reference: `${bench.registry.host}/multi:1`,
      platform: { os: 'linux', architecture: 'arm', variant: 'v7' },
    });
    expect(pulled).toMatchObject({ manifestDigest: image.manifest.digest, repoDigests: [`${bench.registry.host}/multi@${sha256(bytes)}`] });
    await expect(
      bench.store.images.pull({ reference: `${bench.registry.host}/multi:1`, platform: { os: 'linux', architecture: 'riscv64' } }),
    ).rejects.toEqual(
      code('NotFound', /no match for platform in manifest: the image has linux\/s390x, linux\/arm\/v6, not linux\/riscv64/),
    );
  });
});

describe('store directory', () => {
  it('is used by one process at a time', async () => {
    await expect(temporaryStore({ directory: bench.store.directory })).rejects.toEqual(code('InUse'));
    expect(existsSync(join(bench.store.directory, 'lock'))).toBe(true);
  });
});
