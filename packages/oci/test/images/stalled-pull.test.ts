import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { deferred } from '@oarlock/primitives/concurrency/deferred';
import type { Clock } from '@oarlock/primitives/clock';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { abandonedAfterMs } from '@oarlock/oci/images/abandoned-pulls';
import { layerTar, testImage } from '../fixtures/layer-tar.ts';
import { scriptedRegistry, type ScriptedRegistry } from '../fixtures/scripted-registry.ts';
import { temporaryStore, type TemporaryStore } from '../fixtures/temporary-store.ts';

const image = testImage('', { layers: [layerTar([{ path: 'file', bytes: 'x'.repeat(20_000) }])], compress: 'none' });
const [layer] = image.layers;
const digest = layer?.digest ?? '';
const size = layer?.bytes.length ?? 0;
/** Bytes that the registry sends before it stalls. */
const sent = 3000;
/** After this time in milliseconds a body without progress fails. */
const stallMs = 60_000;

describe('the pull of a layer that stalls', () => {
  let registry: ScriptedRegistry;
  let store: TemporaryStore;
  let time: FakeClock;
  let ranges: (string | undefined)[];
  beforeAll(async () => {
    registry = await scriptedRegistry();
    registry.add('app:1', image);
  });
  afterAll(() => registry.stop());
  beforeEach(async () => {
    time = new FakeClock();
    ranges = [];
    // deadlines wait for the test; delays between attempts do not wait
    const clock: Clock = {
      now: () => time.now(),
      monotonic: () => time.monotonic(),
      after: (ms, fire) => time.after(ms, fire),
      sleep: () => Promise.resolve(),
    };
    store = await temporaryStore({ clock });
  });
  afterEach(() => store.remove());

  /** Lets the registry stall during the next `times` requests for the layer, each time after one more part. */
  function stall(times: number): void {
    registry.intercept = (request, response, bytes) => {
      if (request.url?.includes(`/blobs/${digest}`) !== true || bytes === undefined) return false;
      ranges.push(request.headers.range);
      if (ranges.length > times) return false;
      const from = (ranges.length - 1) * sent;
      response.writeHead(from > 0 ? 206 : 200, {
        'content-length': bytes.length - from,
        ...(from > 0 && { 'content-range': `bytes ${from}-${bytes.length - 1}/${bytes.length}` }),
      });
      response.write(bytes.subarray(from, from + sent));
      return true;
    };
  }
  /** Pulls, and calls `onStall` whenever the last byte before a stall has arrived. */
  const pull = (onStall: () => void, signal?: AbortSignal) =>
    store.images.pull({
      reference: `${registry.host}/app:1`,
      ...(signal && { signal }),
      onProgress: (progress) => {
        if (progress.digest === digest && ranges.length > 0 && progress.completedBytes === ranges.length * sent) onStall();
      },
    });
  const partial = () => readdirSync(join(store.directory, 'partial')).map((name) => statSync(join(store.directory, 'partial', name)).size);
  const passDeadline = () => void time.advance(stallMs);

  it('continues at the byte after the deadline', async () => {
    stall(2);
    expect(await pull(passDeadline)).toMatchObject({ id: image.config.digest });
    expect(ranges).toEqual([undefined, `bytes=${sent}-`, `bytes=${2 * sent}-`]);
  });

  it('fails after several attempts with the cause, keeps the bytes for the next pull, and gives them back to garbage collection', async () => {
    stall(Number.POSITIVE_INFINITY);
    const error = await pull(passDeadline).then(
      () => undefined,
      (failure: unknown) => failure,
    );
    const bytes = ranges.length * sent;
    expect(ranges.length).toBeGreaterThan(1);
    expect(error).toMatchObject({ code: 'Unavailable' });
    expect(String(error)).toContain(
      `downloading ${digest} failed after ${bytes} of ${size} bytes: the server sent less than 61440 bytes within 60000 ms`,
    );
    expect({ images: store.images.list(), partial: partial() }).toEqual({ images: [], partial: [bytes] });
    expect((await store.images.gc()).freedBytes).toBeGreaterThanOrEqual(bytes);
    expect(partial()).toEqual([]);
  });

  it('gives its bytes back if it is not repeated', async () => {
    stall(Number.POSITIVE_INFINITY);
    await expect(pull(passDeadline)).rejects.toMatchObject({ code: 'Unavailable' });
    const bytes = partial();
    expect(bytes).not.toEqual([]);
    await time.advance(abandonedAfterMs);
    expect(partial()).toEqual(bytes);
    await time.advance(abandonedAfterMs);
    expect(partial()).toEqual([]);
  });

  it('gives its bytes back after repeated pulls without progress, also after a restart', async () => {
    stall(1);
    const stop = new AbortController();
    await expect(pull(() => stop.abort(new Error('canceled')), stop.signal)).rejects.toThrow('canceled');
    expect(partial()).toEqual([sent]);
    store = await store.reopen();
    registry.intercept = (request, response) =>
      request.url?.includes(`/blobs/${digest}`) === true && response.writeHead(403).end() !== undefined;
    await time.advance(abandonedAfterMs);
    await expect(pull(() => {})).rejects.toMatchObject({ name: 'OciError' });
    expect(partial()).toEqual([sent]);
    await time.advance(abandonedAfterMs);
    expect(partial()).toEqual([]);
  });

  it('is canceled at once', async () => {
    stall(Number.POSITIVE_INFINITY);
    const controller = new AbortController();
    await expect(pull(() => controller.abort(new Error('canceled')), controller.signal)).rejects.toThrow('canceled');
    expect({ images: store.images.list(), requests: ranges.length }).toEqual({ images: [], requests: 1 });
    await store.images.gc();
    expect(partial()).toEqual([]);
  });

  describe('of a registry that names the layers of another one', () => {
    let other: ScriptedRegistry;
    beforeAll(async () => {
      other = await scriptedRegistry();
      other.add('app:1', image);
    });
    afterAll(() => other.stop());

    it('does not delay the pull of the other one, nor change its bytes', async () => {
      const arrived = deferred();
      const controller = new AbortController();
      registry.intercept = (request, response, bytes) => {
        if (request.url?.includes(`/blobs/${digest}`) !== true || bytes === undefined) return false;
        ranges.push(request.headers.range);
        response.writeHead(200, { 'content-length': bytes.length });
        response.write(Buffer.alloc(sent, 'wrong'));
        return true;
      };
      const stalled = pull(arrived.resolve, controller.signal).catch((error: unknown) => error);
      await arrived.promise;
      other.requests.length = 0;
      expect(await store.images.pull({ reference: `${other.host}/app:1` })).toMatchObject({ id: image.config.digest });
      expect(other.requests).toContain(`GET /v2/app/blobs/${digest}`);
      controller.abort(new Error('canceled'));
      await stalled;
    });

    it('leaves the places for downloads to it', async () => {
      const arrived = deferred();
      const controllers = Array.from({ length: 8 }, () => new AbortController());
      let waiting = 0;
      const images = controllers.map((_, index) =>
        testImage('', { layers: [layerTar([{ path: 'file', bytes: `${index}`.repeat(20_000) }])], compress: 'none' }),
      );
      registry.intercept = (request, _response, bytes) => {
        const isLayer = images.some(({ layers }) => request.url?.includes(`/blobs/${layers[0]?.digest}`));
        if (isLayer) arrived.resolve();
        return isLayer && bytes !== undefined;
      };
      const stalled = images.map((each, index) => {
        registry.add(`many-${index}:1`, each);
        const { signal } = controllers[index] ?? new AbortController();
        const onProgress = () => void (waiting += 1);
        return store.images.pull({ reference: `${registry.host}/many-${index}:1`, signal, onProgress }).catch((error: unknown) => error);
      });
      await arrived.promise;
      await expect.poll(() => waiting).toBeGreaterThanOrEqual(images.length);
      expect(await store.images.pull({ reference: `${other.host}/app:1` })).toMatchObject({ id: image.config.digest });
      for (const controller of controllers) controller.abort(new Error('canceled'));
      await Promise.all(stalled);
    });
  });
});
