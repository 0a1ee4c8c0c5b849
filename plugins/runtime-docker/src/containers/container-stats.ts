import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '@oarlock/primitives/clock';
import type { ContainerStats } from '@oarlock/spi/runtime';
import type { EngineClient } from '../engine/engine-client.ts';
import type { EngineContainer, EngineStats } from '../engine/engine-types.ts';

type LayerUsage = Pick<ContainerStats, 'writableLayerBytes' | 'writableLayerInodes'>;

/** The unit of `st_blocks` in bytes. */
const blockBytes = 512;
const layerUsageTtlMs = 60_000;

/**
 * Reads the resource usage of containers. The Docker engine would measure the writable layers on each request, so this class measures them itself,
 * at most once a minute.
 */
export class ContainerStatsReader {
  readonly #engine: EngineClient;
  readonly #clock: Clock;
  readonly #layers = new Map<string, { readonly since: number; readonly usage: Promise<LayerUsage> }>();

  constructor(engine: EngineClient, clock: Clock) {
    this.#engine = engine;
    this.#clock = clock;
  }

  /** Returns the usage of a running container. */
  async read({ Id: id, GraphDriver }: EngineContainer, signal: AbortSignal | undefined): Promise<ContainerStats> {
    const [{ cpu_stats: cpu, memory_stats: memory }, layer] = await Promise.all([
      this.#engine.call<EngineStats>('GET', `/containers/${id}/stats`, { query: { stream: false, 'one-shot': true }, signal }),
      this.#layer(id, GraphDriver.Data?.UpperDir),
    ]);
    const { usage = 0, stats = {} } = memory;
    return {
      id,
      at: this.#clock.now(),
      cpuUsageNanos: cpu.cpu_usage?.total_usage ?? 0,
      // the field names of cgroup v1 and v2
      memoryWorkingSetBytes: Math.max(0, usage - (stats['total_inactive_file'] ?? stats['inactive_file'] ?? 0)),
      memoryRssBytes: stats['total_rss'] ?? stats['anon'] ?? 0,
      ...layer,
    };
  }

  forget(id: string): void {
    this.#layers.delete(id);
  }

  #layer(id: string, directory: string | undefined): Promise<LayerUsage> {
    const cached = this.#layers.get(id);
    const now = this.#clock.monotonic();
    if (cached && now - cached.since < layerUsageTtlMs) return cached.usage;
    const usage = directory === undefined ? Promise.resolve({ writableLayerBytes: 0, writableLayerInodes: 0 }) : measure(directory);
    this.#layers.set(id, { since: now, usage });
    return usage;
  }
}

/** Returns the total size of the files below a directory. Skips files that disappear during the walk. */
async function measure(directory: string): Promise<LayerUsage> {
  let [writableLayerBytes, writableLayerInodes] = [0, 0];
  const pending = [directory];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const parent = next;
    for (const entry of await readdir(parent, { withFileTypes: true }).catch(() => [])) {
      const path = join(parent, entry.name);
      const stats = await lstat(path).catch(() => undefined);
      if (!stats) continue;
      writableLayerBytes += stats.blocks * blockBytes;
      writableLayerInodes += 1;
      if (entry.isDirectory()) pending.push(path);
    }
  }
  return { writableLayerBytes, writableLayerInodes };
}
