import { execFileSync, spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { noTracer } from '@oarlock/kernel/tracing';
import { ImageManager } from '@oarlock/kubelet/images/image-manager';
import { ImagePullMetrics } from '@oarlock/kubelet/metrics/image-pull-metrics';
import { openImageStore, type OpenImageStore } from '@oarlock/oci/store/open-image-store';
import { silentLogger } from '@oarlock/primitives/logger';
import type { PodSandboxConfig, RuntimeDriver } from '@oarlock/spi/runtime';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { tar } from '../../../../e2e/fixtures/tar.ts';
import { asRuntimeResult } from '../../src/images/image-errors.ts';
import { clockWithoutDelays } from '../support/clock-without-delays.ts';

const megabyte = 1024 * 1024;
const architecture = process.arch === 'x64' ? 'amd64' : process.arch;
const digestOf = (bytes: Buffer) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
const json = (value: object) => Buffer.from(JSON.stringify(value));
const imageType = 'application/vnd.oci.image.manifest.v1+json';
const small = tar([{ type: 'file', path: 'file', bytes: Buffer.from('hello') }]);
const large = tar([{ type: 'file', path: 'file', bytes: randomBytes(4 * megabyte) }]);

/** What a registry serves, by the last part of the path. */
type Served = Map<string, Buffer>;

/** An image of one layer with the tag `1`. */
function image(layer: Buffer): Served {
  const config = json({ architecture, os: 'linux', rootfs: { type: 'layers', diff_ids: [digestOf(layer)] } });
  const descriptor = (mediaType: string, bytes: Buffer) => ({ mediaType, digest: digestOf(bytes), size: bytes.length });
  const manifest = json({
    schemaVersion: 2,
    mediaType: imageType,
    config: descriptor('application/vnd.oci.image.config.v1+json', config),
    layers: [descriptor('application/vnd.oci.image.layer.v1.tar', layer)],
  });
  return new Map([['1', manifest], ...[manifest, config, layer].map((bytes) => [digestOf(bytes), bytes] as const)]);
}
function withTag(served: Served, manifest: Buffer): Served {
  return new Map([...served, ['1', manifest]]);
}
const serve =
  (served: Served, send: (bytes: Buffer, url: string) => Buffer = (bytes) => bytes): RequestListener =>
  ({ url = '', method }, response) => {
    const bytes = served.get(url.split('/').at(-1) ?? '');
    if (!bytes) return void response.writeHead(404).end('{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}');
    response.writeHead(200, {
      'content-type': imageType,
      ...(url.includes('/manifests/') && { 'docker-content-digest': digestOf(bytes) }),
    });
    response.end(method === 'HEAD' ? undefined : send(bytes, url));
  };
const ofLayer = (change: (bytes: Buffer) => Buffer) => (bytes: Buffer, url: string) =>
  url.endsWith(digestOf(small)) ? change(bytes) : bytes;
const otherPlatform = json({
  schemaVersion: 2,
  mediaType: 'application/vnd.oci.image.index.v1+json',
  manifests: [{ mediaType: imageType, digest: digestOf(small), size: 1, platform: { os: 'windows', architecture: 'amd64' } }],
});
const truncated = large.subarray(0, megabyte);

interface Failure {
  readonly what: string;
  readonly registry?: RequestListener;
  /** The image, of which HOST is the registry. */
  readonly image?: string;
  readonly policy?: 'Never';
  readonly reason: string;
  readonly cause: RegExp;
  /** Size of the file system of the store in MiB. */
  readonly disk?: number;
}
const failures: readonly Failure[] = [
  { what: 'a missing image', registry: serve(new Map()), reason: 'ErrImagePull', cause: /HOST\/app:1: not found/ },
  {
    what: 'wrong credentials',
    registry: (_, response) => void response.writeHead(401, { 'www-authenticate': 'Basic realm="test"' }).end(),
    reason: 'ErrImagePull',
    cause: /pull access denied, repository does not exist or may require authorization/,
  },
  {
    what: 'an unreachable registry',
    image: '127.0.0.1:1/app:1',
    reason: 'ErrImagePull',
    cause: /dial tcp 127\.0\.0\.1:1: connect: connection refused/,
  },
  {
    what: 'a registry that fails',
    registry: (_, response) => void response.writeHead(503).end(),
    reason: 'ErrImagePull',
    cause: /unexpected status from HEAD request to .*: 503/,
  },
  {
    what: 'a registry with another manifest than its digest',
    registry: ({ method }, response) => {
      response.writeHead(200, { 'docker-content-digest': digestOf(small) }).end(method === 'HEAD' ? undefined : '{"schemaVersion":2}');
    },
    reason: 'ErrImagePull',
    cause: /unexpected digest of the manifest/,
  },
  {
    what: 'a layer with another digest',
    registry: serve(
      image(small),
      ofLayer((bytes) => Buffer.alloc(bytes.length, 'x')),
    ),
    reason: 'ErrImagePull',
    cause: /unexpected digest of content/,
  },
  {
    what: 'a wrong platform',
    registry: serve(withTag(image(small), otherPlatform)),
    reason: 'ErrImagePull',
    cause: /no match for platform in manifest: the image has windows\/amd64, not linux\//,
  },
  {
    what: 'a broken tar',
    registry: serve(image(truncated)),
    reason: 'ErrImagePull',
    cause: /invalid tar archive: unexpected end of the archive/,
  },
  {
    what: 'an interrupted pull',
    registry: serve(
      image(small),
      ofLayer((bytes) => bytes.subarray(0, 10)),
    ),
    reason: 'ErrImagePull',
    cause: /downloading sha256:\w+ failed: the response ended after 10 of \d+ bytes/,
  },
  {
    what: 'a disk that is full in the middle of a layer',
    registry: serve(image(large)),
    disk: 2,
    reason: 'ErrImagePull',
    cause: /no space left on device/,
  },
  { what: 'an invalid name', image: 'HOST/App:1', reason: 'InvalidImageName', cause: /must be lowercase/ },
  {
    what: 'an image that is not present, with the policy Never',
    policy: 'Never',
    reason: 'ErrImageNeverPull',
    cause: /^Container image "HOST\/app:1" is not present with pull policy of Never$/,
  },
];

describe('a pull that fails, as the kubelet reports it', () => {
  // delays between attempts do not wait
  const time = new FakeClock();
  const clock = clockWithoutDelays(time);
  let directory: string;
  let server: Server;
  let store: OpenImageStore | undefined;
  let mounted: boolean;
  beforeEach(async () => {
    mounted = false;
    store = undefined;
    directory = await mkdtemp(join(tmpdir(), 'oarlock-failed-'));
    server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  });
  afterEach(async () => {
    await store?.images.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    if (mounted) execFileSync('umount', ['--lazy', directory]);
    await rm(directory, { recursive: true, force: true });
  });

  it.for(failures)('$what', async ({ registry, image: name = 'HOST/app:1', policy, reason, cause, disk }, { skip }) => {
    const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    if (registry) server.on('request', registry);
    if (disk !== undefined) {
      const { status, stderr } = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${disk}m`, 'tmpfs', directory], { encoding: 'utf8' });
      mounted = status === 0;
      skip(!mounted, `a small file system cannot be mounted: ${stderr}`);
    }
    store = await openImageStore({ directory, clock, log: silentLogger, snapshotter: 'copy', syncFileSystem: async () => {} });
    const { images } = store;
    const driver = {
      traits: { images: true },
      imageStatus: (one: string) => Promise.resolve(images.status(one)),
      pullImage: async (reference: string) => (await asRuntimeResult(images.pull({ reference }))).id,
    } as unknown as RuntimeDriver;
    const objects = { get: () => Promise.resolve(undefined) };
    const manager = new ImageManager(driver, {
      objects,
      clock,
      tracer: noTracer,
      metrics: new ImagePullMetrics([]),
      maxParallelPulls: 1,
      imagesChanged: () => {},
    });
    const events: string[] = [];
    const ensure = () =>
      manager.ensureImageExists({
        pod: { metadata: { namespace: 'shop', name: 'web', uid: 'u-1' }, spec: { containers: [] } },
        container: { name: 'main', image: name.replace('HOST', host), ...(policy && { imagePullPolicy: policy }) },
        sandbox: {} as PodSandboxConfig,
        signal: new AbortController().signal,
        spanContext: undefined,
        event: (type, eventReason, message) => void events.push(`${type} ${eventReason}: ${message}`),
      });
    const words = new RegExp(cause.source.replace('HOST', host.replaceAll('.', '\\.')), cause.flags);
    await expect(ensure()).rejects.toMatchObject({ reason, message: expect.stringMatching(words) as string });
    expect(events.at(-1)).toMatch(/^Warning (Failed|InspectFailed|ErrImageNeverPull): /);
    if (reason === 'ErrImagePull')
      await expect(ensure()).rejects.toMatchObject({
        reason: 'ImagePullBackOff',
        message: expect.stringMatching(new RegExp(`^Back-off pulling image .*: ErrImagePull: .*${words.source}`, cause.flags)) as string,
      });
    // nothing half-extracted stays
    expect(images.list()).toEqual([]);
    for (const folder of ['ingest', 'layers']) expect(await readdir(join(directory, folder))).toEqual([]);
  });
});
