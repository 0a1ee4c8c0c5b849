import { describe, expect, it } from 'vitest';
import { FakeClock } from '@oarlock/testing/fake-clock';
import type { EncodedObject } from '../../../src/endpoints/request/response.ts';
import { WatcherMemory, type AccountedFrame, type AccountedWatcher } from '../../../src/watch-cache/internal/watcher-memory.ts';
import { SharedWatchFrame } from '../../../src/watch-cache/watch-cache-event.ts';
import { Watcher } from '../../../src/watch-cache/watcher.ts';

class FakeWatcher implements AccountedWatcher {
  readonly frames: AccountedFrame[] = [];
  terminated = false;
  readonly lastReadAt: number;
  readonly #memory: WatcherMemory;

  constructor(memory: WatcherMemory, lastReadAt = 0) {
    this.#memory = memory;
    this.lastReadAt = lastReadAt;
    memory.add(this);
  }
  get heldBytes(): number {
    return this.frames.reduce((sum, { bytes }) => sum + bytes, 0);
  }
  take(frame: AccountedFrame): this {
    this.frames.push(frame);
    this.#memory.hold(frame);
    return this;
  }
  terminate(): void {
    this.terminated = true;
    for (const frame of this.frames.splice(0)) this.#memory.release(frame);
    this.#memory.remove(this);
  }
}

const frame = (bytes: number) => {
  const created = {
    bytes,
    holders: 0,
    released: 0,
    releaseEncodings() {
      created.released++;
    },
  };
  return created;
};

describe('WatcherMemory', () => {
  it('counts a frame once however many watchers hold it', () => {
    const memory = new WatcherMemory(1_000);
    const shared = frame(600);
    const watchers = [1, 2, 3].map(() => new FakeWatcher(memory).take(shared));
    memory.enforce(0);
    expect(memory.bytes).toBe(600);
    expect(watchers.some(({ terminated }) => terminated)).toBe(false);
    watchers[0]?.terminate();
    expect([memory.bytes, shared.released]).toEqual([600, 0]);
    for (const watcher of watchers.slice(1)) watcher.terminate();
    expect([memory.bytes, shared.released]).toEqual([0, 1]);
  });

  it('terminates the watchers with the most bytes for the longest time', () => {
    const memory = new WatcherMemory(1_000);
    const stalled = new FakeWatcher(memory, 0).take(frame(400));
    const recent = new FakeWatcher(memory, 9_000).take(frame(500));
    const small = new FakeWatcher(memory, 0).take(frame(10));
    memory.enforce(10_000);
    expect([stalled, recent, small].map(({ terminated }) => terminated)).toEqual([false, false, false]);
    recent.take(frame(200));
    memory.enforce(10_000);
    expect([stalled, recent, small].map(({ terminated }) => terminated)).toEqual([true, false, false]);
    expect(memory.bytes).toBe(710);
  });

  it('terminates further watchers until the bound holds, although they share frames', () => {
    const memory = new WatcherMemory(1_000);
    const [first, second] = [frame(800), frame(800)];
    const watchers = [1, 2, 3].map(() => new FakeWatcher(memory).take(first).take(second));
    memory.enforce(0);
    expect(watchers.every(({ terminated }) => terminated)).toBe(true);
    expect(memory.bytes).toBe(0);
  });
});

/** Records which watchers are registered. */
class RecordingMemory extends WatcherMemory {
  readonly registered = new Set<AccountedWatcher>();
  override add(watcher: AccountedWatcher): void {
    super.add(watcher);
    this.registered.add(watcher);
  }
  override remove(watcher: AccountedWatcher): void {
    super.remove(watcher);
    this.registered.delete(watcher);
  }
}

describe('a Watcher in WatcherMemory', () => {
  const bookmark = () => new SharedWatchFrame('BOOKMARK', {} as EncodedObject, undefined);
  const watch = (signal?: AbortSignal, initial: readonly SharedWatchFrame[] = []) => {
    const memory = new RecordingMemory(1_000_000);
    const clock = new FakeClock();
    const watcher = new Watcher({
      selection: { namespace: '', key: undefined, indexed: undefined, matches: undefined },
      indexOf: undefined,
      viewer: undefined,
      after: 0,
      initial: initial[Symbol.iterator](),
      bookmark,
      clock,
      random: () => 0,
      timeoutMs: 60_000,
      signal,
      memory,
      onEnd: () => {},
    });
    return { memory, clock, watcher };
  };
  const isReleased = ({ registered, bytes }: RecordingMemory) => registered.size === 0 && bytes === 0;

  it('is removed when it ends after the reader has taken all frames', async () => {
    const { memory, watcher } = watch(undefined, [bookmark()]);
    await watcher.next();
    const next = watcher.next();
    expect(memory.registered.has(watcher)).toBe(true);
    watcher.end();
    expect(await next).toEqual({ done: true, value: undefined });
    expect(isReleased(memory)).toBe(true);
  });

  it.each<[string, (watcher: Watcher) => unknown]>([
    ['the reader stops', (watcher) => watcher.return()],
    ['it fails', (watcher) => watcher.fail(new Error('lost'))],
    ['it is terminated', (watcher) => watcher.terminate()],
  ])('is removed when %s, whatever it holds', async (_, stop) => {
    const { memory, watcher } = watch(undefined, [bookmark(), bookmark()]);
    await watcher.next();
    expect(memory.bytes).toBeGreaterThan(0);
    await stop(watcher);
    expect(isReleased(memory)).toBe(true);
  });

  it('is removed when its client disconnects, whatever it holds', async () => {
    const client = new AbortController();
    const { memory, watcher } = watch(client.signal, [bookmark()]);
    await watcher.next();
    client.abort();
    expect(isReleased(memory)).toBe(true);
  });

  it('that ends by its timeout stays until the reader has taken its frames', async () => {
    const { memory, clock, watcher } = watch(undefined, [bookmark()]);
    await clock.advance(60_000);
    expect(watcher.ended).toBe(true);
    expect(memory.registered.has(watcher)).toBe(true);
    for (let result = await watcher.next(); result.done !== true; result = await watcher.next());
    expect(isReleased(memory)).toBe(true);
  });
});
