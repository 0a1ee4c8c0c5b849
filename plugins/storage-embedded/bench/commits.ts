/**
 * Measures durable commits by the number of writers and objects, the time of a start, and the longest block of the event loop. Argument:
 * [directory]. Run: npm run bench -- embedded
 */
import { mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { EmbeddedStorage } from '../src/embedded-storage.ts';

const base = await mkdtemp(join(process.argv[2] ?? tmpdir(), 'oarlock-bench-'));
const value = Buffer.alloc(2_500, 'x');
const key = (at: number) => `/registry/pods/namespace-${at % 100}/pod-${String(at).padStart(7, '0')}`;
const show = (what: string, text: string) => console.log(`${what.padEnd(64)} ${text}`);
const rate = (count: number, ms: number) => `${Math.round((count / ms) * 1000).toLocaleString('en')}/s`.padStart(12);
const ms = (nanoseconds: number) => `${(nanoseconds / 1e6).toFixed(1)} ms`;

async function timed(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work();
  return performance.now() - began;
}

/** Runs commits of several sequential writers; returns the latencies of all. */
async function write(storage: EmbeddedStorage, writers: number, count: number, at: (index: number) => number) {
  const latencies: number[] = [];
  let next = 0;
  const took = await timed(() =>
    Promise.all(
      Array.from({ length: writers }, async () => {
        while (next < count) {
          const index = next++;
          latencies.push(await timed(() => storage.commit([{ key: key(at(index)), value }], [])));
        }
      }),
    ),
  );
  latencies.sort((a, b) => a - b);
  return { took, p50: latencies[latencies.length >> 1] ?? 0, p99: latencies[Math.floor(latencies.length * 0.99)] ?? 0 };
}

try {
  const file = await open(join(base, 'probe'), 'w');
  const probe = await timed(async () => {
    for (let at = 0; at < 300; at += 1) {
      await file.write(value);
      await file.datasync();
    }
  });
  await file.close();
  show('append and fdatasync of 2.5 KB, one after the other', rate(300, probe));

  const directory = join(base, 'store');
  const start = async () => {
    const storage = new EmbeddedStorage({ directory });
    const took = await timed(() => storage.start());
    return { storage, took };
  };
  const first = await start();
  show('start in an empty directory', `${first.took.toFixed(1)} ms`.padStart(12));
  const { storage } = first;
  let objects = 0;
  for (const goal of [1_000, 10_000, 100_000]) {
    const base = objects;
    const created = await write(storage, 64, goal - base, (index) => base + index);
    objects = goal;
    const label = `${goal.toLocaleString('en')} objects`;
    show(
      `${label}: creates by 64 writers`,
      `${rate(goal - base, created.took)}  p50 ${created.p50.toFixed(2)} ms  p99 ${created.p99.toFixed(2)} ms`,
    );
    for (const writers of [1, 16, 64]) {
      const count = writers === 1 ? 3_000 : 20_000;
      const delay = monitorEventLoopDelay({ resolution: 1 });
      delay.enable();
      const updated = await write(storage, writers, count, (index) => (index * 7919) % goal);
      delay.disable();
      show(
        `${label}: updates by ${writers} writers`,
        `${rate(count, updated.took)}  p50 ${updated.p50.toFixed(2)} ms  p99 ${updated.p99.toFixed(2)} ms  loop held at most ${ms(delay.max)}`,
      );
    }
    if (goal === 10_000) {
      const { batches, commits } = storage.stats;
      show('commits to a write of the disk, so far', (commits / batches).toFixed(1).padStart(12));
    }
  }
  const before = storage.stats;
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const during = await write(storage, 64, 100_000, (index) => (index * 7919) % objects);
  delay.disable();
  show(
    `updates while ${storage.stats.snapshots - before.snapshots} snapshots of ${Math.round(storage.stats.snapshotBytes / 1e6)} MB are made`,
    `${rate(100_000, during.took)}  p50 ${during.p50.toFixed(2)} ms  p99 ${during.p99.toFixed(2)} ms  loop held at most ${ms(delay.max)}`,
  );
  const compacting = monitorEventLoopDelay({ resolution: 1 });
  compacting.enable();
  const took = await timed(() => storage.compact(storage.stats.revision));
  compacting.disable();
  show(`compaction of ${before.history.toLocaleString('en')} changes`, `${took.toFixed(0)} ms, loop held at most ${ms(compacting.max)}`);
  await storage.stop();

  const again = await start();
  show(
    `start with ${again.storage.stats.keys.toLocaleString('en')} objects, ${Math.round((again.storage.stats.snapshotBytes + again.storage.stats.logBytes) / 1e6)} MB`,
    `${again.took.toFixed(0)} ms`.padStart(12),
  );
  globalThis.gc?.();
  show('resident memory', `${Math.round(process.memoryUsage().rss / 1e6)} MB`.padStart(12));
  await again.storage.stop();
} finally {
  await rm(base, { recursive: true, force: true });
}
