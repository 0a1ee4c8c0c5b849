import { createHash } from 'node:crypto';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { noTracer } from '@oarlock/kernel/tracing';
import { ImagePullMetrics } from '@oarlock/kubelet/metrics/image-pull-metrics';
import { ImageManager } from '@oarlock/kubelet/images/image-manager';
import { abandonedAfterMs } from '@oarlock/oci/images/abandoned-pulls';
import { openImageStore, type OpenImageStore } from '@oarlock/oci/store/open-image-store';
import { silentLogger } from '@oarlock/primitives/logger';
import type { PodSandboxConfig, RuntimeDriver } from '@oarlock/spi/runtime';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { asRuntimeResult } from '../../src/images/image-errors.ts';
import { clockWithoutDelays } from '../support/clock-without-delays.ts';

const digestOf = (bytes: Buffer) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
const layer = Buffer.alloc(100_000, 'x');
/** Bytes of the layer that each response brings before it stalls. */
const sent = 1000;
/** After this time in milliseconds a body without progress fails. */
const stallMs = 60_000;
const config = Buffer.from(
  JSON.stringify({
    architecture: process.arch === 'x64' ? 'amd64' : process.arch,
    os: 'linux',
    rootfs: { type: 'layers', diff_ids: [digestOf(layer)] },
  }),
);
const manifest = Buffer.from(
  JSON.stringify({
    schemaVersion: 2,
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    config: { mediaType: 'application/vnd.oci.image.config.v1+json', digest: digestOf(config), size: config.length },
    layers: [{ mediaType: 'application/vnd.oci.image.layer.v1.tar', digest: digestOf(layer), size: layer.length }],
  }),
);

/** Serves the image; each response with the layer ends after a part of it, while the connection stays. */
function answer({ url = '' }: IncomingMessage, response: ServerResponse, from: number): void {
  const isLayer = url.endsWith(digestOf(layer));
  const bytes = isLayer ? layer : url.endsWith(digestOf(config)) ? config : manifest;
  response.writeHead(from > 0 ? 206 : 200, {
    'content-type': isLayer ? 'application/octet-stream' : 'application/vnd.oci.image.manifest.v1+json',
    'content-length': bytes.length - from,
    ...(from > 0 && { 'content-range': `bytes ${from}-${bytes.length - 1}/${bytes.length}` }),
  });
  if (isLayer) response.write(bytes.subarray(from, from + sent));
  else response.end(bytes);
}

describe('an image whose registry stalls in the middle of a layer', () => {
  const time = new FakeClock();
  // deadlines wait for the test; delays between attempts do not wait
  const clock = clockWithoutDelays(time);
  const server = createServer((request, response) =>
    answer(request, response, Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0)),
  );
  let directory: string;
  let store: OpenImageStore;
  beforeEach(async () => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    directory = await mkdtemp(join(tmpdir(), 'oarlock-stalled-'));
    store = await openImageStore({ directory, clock, log: silentLogger, snapshotter: 'copy', syncFileSystem: async () => {} });
  });
  afterEach(async () => {
    await store.images.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    await rm(directory, { recursive: true, force: true });
  });

  it('is reported with the cause, then backs off, and gives its space back', async () => {
    const { images } = store;
    const before = await images.fsInfo();
    const driver = {
      traits: { images: true },
      imageStatus: (name: string) => Promise.resolve(images.status(name)),
      pullImage: async (reference: string) => {
        const onProgress = ({ completedBytes }: { readonly completedBytes: number }) => {
          if (completedBytes > 0 && completedBytes % sent === 0) void time.advance(stallMs);
        };
        return (await asRuntimeResult(images.pull({ reference, onProgress }))).id;
      },
    } as unknown as RuntimeDriver;
    const objects = { get: () => Promise.resolve(undefined) };
    const metrics = new ImagePullMetrics([]);
    const manager = new ImageManager(driver, { objects, clock, tracer: noTracer, metrics, maxParallelPulls: 1, imagesChanged: () => {} });
    const image = `127.0.0.1:${(server.address() as AddressInfo).port}/app:1`;
    const events: string[] = [];
    const pull = () =>
      manager.ensureImageExists({
        pod: { metadata: { namespace: 'shop', name: 'web', uid: 'u-1' }, spec: { containers: [] } },
        container: { name: 'main', image },
        sandbox: {} as PodSandboxConfig,
        signal: new AbortController().signal,
        spanContext: undefined,
        event: (type, reason, message) => void events.push(`${type} ${reason}: ${message}`),
      });

    const cause = /downloading sha256:\w+ failed after \d+ of 100000 bytes: the server sent less than 61440 bytes within 60000 ms/;
    await expect(pull()).rejects.toMatchObject({ reason: 'ErrImagePull', message: expect.stringMatching(cause) as string });
    expect(events).toEqual([
      `Normal Pulling: Pulling image "${image}"`,
      expect.stringMatching(new RegExp(`^Warning Failed: Failed to pull image "${image}": .*${cause.source}`)),
    ]);
    await expect(pull()).rejects.toMatchObject({
      reason: 'ImagePullBackOff',
      message: expect.stringMatching(new RegExp(`^Back-off pulling image "${image}": ErrImagePull: .*${cause.source}`)) as string,
    });
    expect(events.at(-1)).toBe(`Normal BackOff: Back-off pulling image "${image}"`);
    const partial = () => readdir(join(directory, 'partial'));
    expect(await partial()).toHaveLength(1);
    await time.advance(2 * abandonedAfterMs);
    expect(await partial()).toEqual([]);
    expect(await images.fsInfo()).toEqual(before);
  });
});
