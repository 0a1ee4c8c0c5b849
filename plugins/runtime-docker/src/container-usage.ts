import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '@oarlock/kernel/clock';
import type { ContainerStats } from '@oarlock/spi/runtime';
import type { EngineClient } from './engine-client.ts';
import type { EngineContainer, EngineStats } from './engine-shapes.ts';

type LayerUsage = Pick<ContainerStats, 'writableLayerBytes' | 'writableLayerInodes'>;

const blockBytes = 512;
const layerFreshMs = 60_000;

/** What containers use. The engine counts a layer's bytes at every question anew, so they are counted here, once a minute. */
export class ContainerUsage {
  readonly #engine: EngineClient;
  readonly #clock: Clock;
  readonly #layers = new Map<string, { readonly since: number; readonly usage: Promise<LayerUsage> }>();

  constructor(engine: EngineClient, clock: Clock) {
    this.#engine = engine;
    this.#clock = clock;
  }

  /** Of one that runs. */
  async of({ Id: id, GraphDriver }: EngineContainer, signal: AbortSignal | undefined): Promise<ContainerStats> {
    const [{ cpu_stats: cpu, memory_stats: memory }, layer] = await Promise.all([
      this.#engine.call<EngineStats>('GET', `/containers/${id}/stats`, { query: { stream: false, 'one-shot': true }, signal }),
      this.#layer(id, GraphDriver.Data?.UpperDir),
    ]);
    const { usage = 0, stats = {} } = memory;
    return {
      id,
      at: this.#clock.now(),
      cpuUsageNanos: cpu.cpu_usage?.total_usage ?? 0,
      // of cgroup v1 and v2
      memoryWorkingSetBytes: Math.max(0, usage - (stats['total_inactive_file'] ?? stats['inactive_file'] ?? 0)),
      memoryRssBytes: stats['total_rss'] ?? stats['anon'] ?? 0,
      ...layer,
    };
  }

  forget(id: string): void {
    this.#layers.delete(id);
  }

  #layer(id: string, directory: string | undefined): Promise<LayerUsage> {
    const known = this.#layers.get(id);
    const now = this.#clock.monotonic();
    if (known && now - known.since < layerFreshMs) return known.usage;
    const usage = directory === undefined ? Promise.resolve({ writableLayerBytes: 0, writableLayerInodes: 0 }) : measure(directory);
    this.#layers.set(id, { since: now, usage });
    return usage;
  }
}

/** Files come and go meanwhile. */
async function measure(directory: string): Promise<LayerUsage> {
  let [writableLayerBytes, writableLayerInodes] = [0, 0];
  const left = [directory];
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    const here = next;
    for (const entry of await readdir(here, { withFileTypes: true }).catch(() => [])) {
      const path = join(here, entry.name);
      const found = await lstat(path).catch(() => undefined);
      if (!found) continue;
      writableLayerBytes += found.blocks * blockBytes;
      writableLayerInodes += 1;
      if (entry.isDirectory()) left.push(path);
    }
  }
  return { writableLayerBytes, writableLayerInodes };
}
