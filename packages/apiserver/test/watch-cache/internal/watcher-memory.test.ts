import { describe, expect, it } from 'vitest';
import { WatcherMemory, type AccountedFrame, type AccountedWatcher } from '../../../src/watch-cache/internal/watcher-memory.ts';

class FakeWatcher implements AccountedWatcher {
  readonly frames: AccountedFrame[] = [];
  terminated = false;
  readonly lastReadAt: number;
  readonly #memory: WatcherMemory;

  constructor(memory: WatcherMemory, lastReadAt = 0) {
    this.#memory = memory;
    this.lastReadAt = lastReadAt;
  }
  get heldBytes(): number {
    return this.frames.reduce((sum, { bytes }) => sum + bytes, 0);
  }
  take(frame: AccountedFrame): this {
    this.frames.push(frame);
    this.#memory.hold(this, frame);
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
