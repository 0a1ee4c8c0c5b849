import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { sleepWith, systemClock, type Clock } from '@oarlock/primitives/clock';
import type { BuiltImage } from '../../../../e2e/fixtures/test-image.ts';
import { layerTar, sha256, testImage } from '../fixtures/layer-tar.ts';
import { close, listen, scriptedRegistry, type ScriptedRegistry } from '../fixtures/scripted-registry.ts';
import { temporaryStore, type TemporaryStore } from '../fixtures/temporary-store.ts';

const lower = layerTar([
  { path: 'etc/', type: '5' },
  { path: 'etc/name', bytes: 'lower'.repeat(1000) },
]);
const upper = layerTar([{ path: 'etc/name', bytes: 'upper' }]);
const image = testImage('', { layers: [lower, upper], compress: 'none' });
const code = (expected: string, message?: RegExp) =>
  expect.objectContaining({ name: 'OciError', code: expected, ...(message && { message: expect.stringMatching(message) }) });
const basic = (user: string, password: string) => `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;

let registry: ScriptedRegistry;
let store: TemporaryStore;
/** A clock whose delays end at once, so that retries do not wait; it records the delays. */
let delays: number[];
const hastyClock: Clock = {
  ...systemClock,
  sleep: (ms, signal) => {
    delays.push(ms);
    return sleepWith(systemClock, 0, signal);
  },
};

beforeAll(async () => {
  registry = await scriptedRegistry();
});
afterAll(() => registry.stop());
beforeEach(async () => {
  delays = [];
  registry.requests.length = 0;
  registry.intercept = () => false;
  registry.add('app:1', image);
  store = await temporaryStore({ clock: hastyClock });
});
afterEach(() => store.remove());

const reference = () => `${registry.host}/app:1`;
const isBlob = (url: string | undefined, digest: string) => url?.includes(`/blobs/${digest}`) === true;
const lowerDigest = image.layers[0]?.digest ?? '';

/** Nothing of a failed pull may look like an image or a layer. */
function expectNothing(): void {
  expect(store.images.list()).toEqual([]);
  expect(readdirSync(join(store.directory, 'ingest'))).toEqual([]);
}

describe('pull', () => {
  it('stores an image with the fields of CRI, and requests only the digest when it is pulled again', async () => {
    const pulled = await store.images.pull({ reference: reference() });
    expect(pulled).toMatchObject({
      id: image.config.digest,
      repoTags: [reference()],
      repoDigests: [`${registry.host}/app@${image.manifest.digest}`],
      sizeBytes: image.config.bytes.length + image.layers.reduce((sum, { bytes }) => sum + bytes.length, 0),
      chainIds: [sha256(lower), sha256(`${sha256(lower)} ${sha256(upper)}`)],
    });
    const root = await store.snapshots.prepare({ key: 'c', image: pulled.id });
    expect(readFileSync(join(root.path ?? '', 'etc/name'), 'utf8')).toBe('upper');
    registry.requests.length = 0;
    expect(await store.images.pull({ reference: reference() })).toEqual(pulled);
    expect(registry.requests).toEqual(['HEAD /v2/app/manifests/1']);
    expect(await store.images.pull({ reference: `${registry.host}/app@${image.manifest.digest}` })).toMatchObject({ id: pulled.id });
  });

  it('downloads and extracts a layer once for concurrent pulls', async () => {
    registry.add('other:1', testImage('', { layers: [lower], compress: 'none' }));
    await Promise.all([
      store.images.pull({ reference: reference() }),
      store.images.pull({ reference: reference() }),
      store.images.pull({ reference: `${registry.host}/other:1` }),
    ]);
    expect(registry.requests.filter((request) => request.includes(lowerDigest))).toHaveLength(1);
    expect(readdirSync(join(store.directory, 'layers'))).toHaveLength(2);
  });

  it('goes on with a shared layer when the caller that started it aborts', async () => {
    const first = new AbortController();
    let release = () => {};
    const reached = new Promise<void>((resolve) => {
      registry.intercept = (request, response, bytes) => {
        if (!isBlob(request.url, lowerDigest)) return false;
        response.writeHead(200, { 'content-length': bytes?.length });
        response.write(bytes?.subarray(0, 100));
        release = () => response.end(bytes?.subarray(100));
        resolve();
        return true;
      };
    });
    const aborted = store.images.pull({ reference: reference(), signal: first.signal });
    await reached;
    const waiting = new Promise<void>((resolve) => {
      const second = store.images.pull({
        reference: reference(),
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
    await store.images.pull({
      reference: reference(),
      onProgress: ({ digest, status }) => seen.push(`${digest === lowerDigest ? 'lower' : 'upper'} ${status}`),
    });
    for (const status of ['waiting', 'downloading', 'extracting', 'done']) expect(seen).toContain(`lower ${status}`);
  });

  it('continues a truncated download with a range', async () => {
    const ranges: (string | undefined)[] = [];
    let cut = () => {};
    registry.intercept = (request, response, bytes) => {
      if (!isBlob(request.url, lowerDigest)) return false;
      ranges.push(request.headers.range);
      if (ranges.length > 1) return false;
      response.writeHead(200, { 'content-length': bytes?.length });
      response.write(bytes?.subarray(0, 2000));
      cut = () => response.destroy();
      return true;
    };
    await store.images.pull({
      reference: reference(),
      onProgress: ({ digest, completedBytes }) => (digest === lowerDigest && completedBytes === 2000 ? cut() : undefined),
    });
    expect(ranges).toEqual([undefined, 'bytes=2000-']);
  });

  it('continues an interrupted pull after a restart', async () => {
    const controller = new AbortController();
    registry.intercept = (request, response, bytes) => {
      if (!isBlob(request.url, lowerDigest)) return false;
      response.writeHead(200, { 'content-length': bytes?.length });
      response.write(bytes?.subarray(0, 3000));
      return true;
    };
    const aborted = store.images.pull({
      reference: reference(),
      signal: controller.signal,
      onProgress: ({ completedBytes, digest }) => {
        if (digest === lowerDigest && completedBytes === 3000) controller.abort(new Error('stopped'));
      },
    });
    await expect(aborted).rejects.toThrow('stopped');
    expectNothing();
    store = await store.reopen();
    registry.intercept = (request) => {
      if (isBlob(request.url, lowerDigest)) registry.requests.push(`range ${request.headers.range}`);
      return false;
    };
    await store.images.pull({ reference: reference() });
    expect(registry.requests).toContain('range bytes=3000-');
    store = await store.reopen();
    expect(store.images.status(reference())?.id).toBe(image.config.digest);
  });
});

describe('a lying registry', () => {
  const serve = (body: (bytes: Buffer) => Buffer, headers: Record<string, string> = {}) => {
    registry.intercept = (request, response, bytes) => {
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
    await expect(store.images.pull({ reference: reference() })).rejects.toEqual(code(expected));
    expectNothing();
    registry.intercept = () => false;
    expect(await store.images.pull({ reference: reference() })).toMatchObject({ id: image.config.digest });
  });

  it('that sends another manifest than its digest is rejected', async () => {
    registry.intercept = (request, response) => {
      if (!request.url?.includes('/manifests/')) return false;
      response.writeHead(200, { 'docker-content-digest': image.manifest.digest }).end('{"schemaVersion":2}');
      return true;
    };
    await expect(store.images.pull({ reference: reference() })).rejects.toEqual(
      code('InvalidContent', /unexpected digest of the manifest/),
    );
    await expect(store.images.pull({ reference: `${registry.host}/app@${image.manifest.digest}` })).rejects.toEqual(code('InvalidContent'));
  });

  it('that sends an endless manifest is cut off', async () => {
    registry.intercept = (_, response) => {
      response.writeHead(200);
      const write = () => {
        while (!response.destroyed && response.write(Buffer.alloc(256 * 1024, ' ')));
      };
      response.on('drain', write).on('error', () => {});
      write();
      return true;
    };
    await expect(store.images.pull({ reference: reference() })).rejects.toEqual(code('TooLarge'));
  });

  it('with a layer that is no archive, or whose diff id is wrong, is rejected', async () => {
    registry.add('bad:1', testImage('', { layers: [Buffer.from('not an archive')], compress: 'none' }));
    registry.add('bad:2', testImage('', { layers: [lower], diffIds: [sha256('other')] }));
    registry.add('bad:3', testImage('', { layers: [lower], diffIds: [] }));
    for (const tag of [1, 2, 3]) {
      await expect(store.images.pull({ reference: `${registry.host}/bad:${tag}` })).rejects.toEqual(code('InvalidContent'));
      expectNothing();
    }
    expect((await store.images.gc()).removedBlobs).toBeGreaterThan(0);
    expect(readdirSync(join(store.directory, 'blobs/sha256'))).toEqual([]);
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
    registry.intercept = (request, response) => {
      if (!request.url?.includes('/manifests/')) return false;
      response.writeHead(200).end(JSON.stringify(manifest));
      return true;
    };
    await expect(store.images.pull({ reference: reference() })).rejects.toEqual(code(expected));
    expectNothing();
  });
});

describe('authorization', () => {
  const requireToken = (tokenHost: string, { header = 'Bearer good' } = {}) => {
    registry.intercept = (request, response) => {
      if (request.headers.authorization === header) return false;
      response
        .writeHead(401, { 'www-authenticate': `Bearer realm="http://${tokenHost}/token",service="reg",scope="repository:app:pull"` })
        .end('{}');
      return true;
    };
  };

  it('uses Basic credentials after a challenge only', async () => {
    const seen: (string | undefined)[] = [];
    registry.intercept = (request, response) => {
      seen.push(request.headers.authorization);
      if (request.headers.authorization === basic('user', 'secret')) return false;
      response.writeHead(401, { 'www-authenticate': 'Basic realm="test"' }).end();
      return true;
    };
    await expect(store.images.pull({ reference: reference() })).rejects.toEqual(code('Unauthorized', /pull access denied/));
    await expect(store.images.pull({ reference: reference(), credentials: { username: 'user', password: 'wrong' } })).rejects.toEqual(
      code('Unauthorized'),
    );
    seen.length = 0;
    await store.images.pull({
      reference: reference(),
      credentials: { username: 'user', password: 'secret', serverAddress: `https://${registry.host}/v1/` },
    });
    expect(seen[0]).toBeUndefined();
    expect(new Set(seen.slice(1))).toEqual(new Set([basic('user', 'secret')]));
    await expect(
      store.images.pull({
        reference: reference(),
        credentials: { username: 'user', password: 'secret', serverAddress: 'other.example.com' },
      }),
    ).rejects.toEqual(code('Unauthorized'));
  });

  it('gets a token with the credentials, and exchanges an identity token', async () => {
    const asked: string[] = [];
    const { server, host } = await listen((request, response) => {
      let body = '';
      request.on('data', (chunk: Buffer) => (body += chunk.toString()));
      request.on('end', () => {
        asked.push(`${request.method} ${request.url} ${request.headers.authorization ?? ''} ${body}`);
        response.end(JSON.stringify({ token: 'good', expires_in: 300 }));
      });
    });
    try {
      requireToken(host);
      await store.images.pull({ reference: reference(), credentials: { auth: Buffer.from('user:secret').toString('base64') } });
      expect(asked).toEqual([`GET /token?service=reg&scope=repository%3Aapp%3Apull&account=user ${basic('user', 'secret')} `]);
      asked.length = 0;
      await store.images.pull({ reference: reference(), credentials: { identityToken: 'refresh' } });
      expect(asked[0]).toMatch(/^POST \/token {2}grant_type=refresh_token&refresh_token=refresh&service=reg&scope=/);
      await store.images.pull({ reference: reference(), credentials: { registryToken: 'good' } });
      expect(asked).toHaveLength(1);
    } finally {
      await close(server);
    }
  });

  it('ends a loop of 401 answers', async () => {
    const { server, host } = await listen((_, response) => response.end(JSON.stringify({ token: 'bad' })));
    try {
      requireToken(host);
      await expect(store.images.pull({ reference: reference(), credentials: { username: 'a', password: 'b' } })).rejects.toEqual(
        code('Unauthorized'),
      );
      expect(registry.requests).toHaveLength(2);
    } finally {
      await close(server);
    }
  });

  it('never sends credentials to the host of a redirect', async () => {
    const received: unknown[] = [];
    const { server, host } = await listen((request, response) => {
      received.push(request.headers.authorization);
      response.end(image.layers.find(({ digest }) => request.url?.includes(digest))?.bytes ?? image.config.bytes);
    });
    try {
      registry.intercept = (request, response) => {
        if (request.headers.authorization !== basic('user', 'secret'))
          response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end();
        else if (request.url?.includes('/blobs/') === true)
          response.writeHead(307, { location: `http://evil:pass@${host}${request.url}` }).end();
        else return false;
        return true;
      };
      await store.images.pull({ reference: reference(), credentials: { username: 'user', password: 'secret' } });
      expect(received).toEqual([undefined, undefined, undefined]);
    } finally {
      await close(server);
    }
  });

  it.each(['Basic realm="x"', 'Bearer realm="REALM",service="s"'])(
    'sends no credentials to the host of a redirect that requests them: %s',
    async (challenge) => {
      const received: unknown[] = [];
      const { server, host } = await listen((request, response) => {
        received.push([request.url?.split('?')[0]?.split('/')[1], request.headers.authorization]);
        if (request.url?.startsWith('/token') === true) response.end('{"token":"anonymous"}');
        else if (request.headers.authorization === undefined)
          response.writeHead(401, { 'www-authenticate': challenge.replace('REALM', `http://${host}/token`) }).end();
        else response.end(image.layers.find(({ digest }) => request.url?.includes(digest))?.bytes ?? image.config.bytes);
      });
      try {
        registry.intercept = (request, response) => {
          if (request.headers.authorization !== basic('user', 'secret'))
            response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end();
          else if (request.url?.includes('/blobs/') === true) response.writeHead(307, { location: `http://${host}${request.url}` }).end();
          else return false;
          return true;
        };
        const pulled = store.images.pull({ reference: reference(), credentials: { username: 'user', password: 'secret' } });
        if (challenge.startsWith('Basic')) await expect(pulled).rejects.toMatchObject({ code: 'Unauthorized' });
        else await pulled;
        const credentials = new Set(received.map((each) => JSON.stringify(each)));
        expect(credentials).toEqual(
          new Set(challenge.startsWith('Basic') ? ['["v2",null]'] : ['["v2",null]', '["token",null]', '["v2","Bearer anonymous"]']),
        );
      } finally {
        await close(server);
      }
    },
  );

  it('takes credentials from config.json and a credential helper', async () => {
    registry.intercept = (request, response) => {
      if (request.headers.authorization === basic('user', 'secret')) return false;
      response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end();
      return true;
    };
    const folder = join(store.directory, 'config');
    await mkdir(folder);
    const dockerConfig = join(folder, 'config.json');
    await writeFile(dockerConfig, JSON.stringify({ auths: { [registry.host]: { auth: Buffer.from('user:secret').toString('base64') } } }));
    store = await store.reopen({ dockerConfig, helperPath: `${folder}:/usr/bin:/bin` });
    await store.images.pull({ reference: reference() });
    await store.images.remove(image.config.digest);
    await writeFile(dockerConfig, JSON.stringify({ credHelpers: { [registry.host]: 'test' } }));
    await writeFile(
      join(folder, 'docker-credential-test'),
      `#!/bin/sh\nread -r server\n[ "$1 $server" = "get ${registry.host}" ] && echo '{"Username":"user","Secret":"secret"}'\n`,
      { mode: 0o755 },
    );
    await store.images.pull({ reference: reference() });
    await writeFile(dockerConfig, '{"auths": {"secret-in-a-broken-file');
    await expect(store.images.pull({ reference: reference() })).rejects.toEqual(code('FailedPrecondition', /it is not JSON$/));
  });
});

describe('retries and mirrors', () => {
  it('repeats requests after 429 and 5xx, after the delay of Retry-After', async () => {
    let failures = 2;
    registry.intercept = (_, response) => {
      if (failures === 0) return false;
      failures -= 1;
      response.writeHead(failures === 1 ? 429 : 503, { 'retry-after': '7' }).end();
      return true;
    };
    await store.images.pull({ reference: reference() });
    expect(delays).toEqual([7000, 7000]);
  });

  it('gives up after five attempts, and at once when nothing listens', async () => {
    registry.intercept = (_, response) => {
      response.writeHead(500).end();
      return true;
    };
    await expect(store.images.pull({ reference: reference() })).rejects.toEqual(
      code('Unavailable', /unexpected status from HEAD request to .*: 500/),
    );
    expect(registry.requests).toHaveLength(5);
    const { server, host } = await listen(() => {});
    await close(server);
    delays.length = 0;
    await expect(store.images.pull({ reference: `${host}/app:1` })).rejects.toEqual(
      code(
        'Unavailable',
        new RegExp(
          `^failed to pull and unpack image "${host}/app:1": failed to resolve reference .*failed to do request: Head "http.*": dial tcp ${host}: connect: connection refused`,
        ),
      ),
    );
    expect(delays).toEqual([]);
  });

  it('reports which image was not found, in the words of containerd', async () => {
    const missing = `${registry.host}/missing:1`;
    await expect(store.images.pull({ reference: missing })).rejects.toMatchObject({
      code: 'NotFound',
      message: `failed to pull and unpack image "${missing}": failed to resolve reference "${missing}": ${missing}: not found`,
    });
    await expect(store.images.pull({ reference: 'Not A Name' })).rejects.toEqual(code('InvalidReference'));
  });

  it('pulls through the mirrors of hosts.toml in their order', async () => {
    const hosts = join(store.directory, 'hosts');
    await mkdir(join(hosts, 'upstream.example.com'), { recursive: true });
    const { server, host: broken } = await listen((_, response) => response.writeHead(503).end());
    try {
      await writeFile(
        join(hosts, 'upstream.example.com/hosts.toml'),
        `server = "https://upstream.invalid"\n[host."http://${broken}"]\n  capabilities = ["pull", "resolve"]\n[host."http://${registry.host}"]\n  capabilities = ["pull", "resolve"]\n  [host."http://${registry.host}".header]\n    x-token = ["a", "b"]\n`,
      );
      store = await store.reopen({ hostsDirectory: hosts });
      const headers: unknown[] = [];
      registry.intercept = (request) => {
        headers.push(request.headers['x-token']);
        return false;
      };
      expect(await store.images.pull({ reference: 'upstream.example.com/app:1' })).toMatchObject({
        repoTags: ['upstream.example.com/app:1'],
      });
      expect(registry.requests[0]).toBe('GET /v2/app/manifests/1?ns=upstream.example.com');
      expect(headers[0]).toBe('a, b');
      await writeFile(join(hosts, 'upstream.example.com/hosts.toml'), '[host."https://x"]\nskip_verify = "yes"\n');
      await expect(store.images.pull({ reference: 'upstream.example.com/app:1' })).rejects.toEqual(
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
    registry.add('multi:1', index);
    registry.add('multi:manifest', image);
    registry.add('multi:1', index);
    const pulled = await store.images.pull({
      reference: `${registry.host}/multi:1`,
      platform: { os: 'linux', architecture: 'arm', variant: 'v7' },
    });
    expect(pulled).toMatchObject({ manifestDigest: image.manifest.digest, repoDigests: [`${registry.host}/multi@${sha256(bytes)}`] });
    await expect(
      store.images.pull({ reference: `${registry.host}/multi:1`, platform: { os: 'linux', architecture: 'riscv64' } }),
    ).rejects.toEqual(
      code('NotFound', /no match for platform in manifest: the image has linux\/s390x, linux\/arm\/v6, not linux\/riscv64/),
    );
  });
});

describe('store directory', () => {
  it('is used by one process at a time', async () => {
    await expect(temporaryStore({ directory: store.directory })).rejects.toEqual(code('InUse'));
    expect(existsSync(join(store.directory, 'lock'))).toBe(true);
  });
});
