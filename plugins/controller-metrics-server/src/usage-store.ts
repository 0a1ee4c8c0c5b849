import type { Sample, Scrape } from './kubelet-metrics.ts';

/** The usage within a time window: the average CPU usage in cores, and the memory at the end in bytes. */
export interface Usage {
  readonly cores: number;
  readonly memoryBytes: number;
  /** The end of the window, in milliseconds since the epoch. */
  readonly at: number;
  readonly windowMs: number;
}

interface Pair {
  readonly last: Sample;
  readonly usage?: Usage;
}

const maxAgeMs = 10_000;

/** Returns the last two samples, from which the usage is computed. If the container has restarted between them, the window begins at the restart. */
function next(before: Pair | undefined, sample: Sample): Pair {
  const last = before?.last;
  if (last !== undefined && sample.at <= last.at) return before ?? { last: sample };
  const restarted = last === undefined || sample.startedAt > last.at || sample.cpuSeconds < last.cpuSeconds;
  if (!restarted) {
    const windowMs = sample.at - last.at;
    const cores = ((sample.cpuSeconds - last.cpuSeconds) * 1000) / windowMs;
    return { last: sample, usage: { cores, memoryBytes: sample.memoryBytes, at: sample.at, windowMs } };
  }
  // a new container is measured from its start, if the window is long enough
  const windowMs = sample.at - sample.startedAt;
  if (sample.startedAt === 0 || windowMs < maxAgeMs) return { last: sample };
  return last !== undefined || windowMs < 60_000
    ? { last: sample, usage: { cores: (sample.cpuSeconds * 1000) / windowMs, memoryBytes: sample.memoryBytes, at: sample.at, windowMs } }
    : { last: sample };
}

interface KubeletUsage {
  node: Pair | undefined;
  pods: Map<string, Map<string, Pair>>;
}

/** Stores the last two samples of each node and container, keyed by the kubelet that reported them. */
export class UsageStore {
  readonly #byKubelet = new Map<string, KubeletUsage>();
  readonly #kubeletOf = new Map<string, string>();

  /** Stores the scrape of a kubelet, and removes pods that the scrape no longer contains. */
  put(place: string, { node, pods }: Scrape): void {
    const before = this.#byKubelet.get(place);
    const now: KubeletUsage = { node: node && next(before?.node, node), pods: new Map() };
    for (const [key, containers] of pods) {
      const known = before?.pods.get(key);
      now.pods.set(key, new Map([...containers].map(([name, sample]) => [name, next(known?.get(name), sample)])));
      this.#kubeletOf.set(key, place);
    }
    for (const key of before?.pods.keys() ?? []) if (!now.pods.has(key) && this.#kubeletOf.get(key) === place) this.#kubeletOf.delete(key);
    this.#byKubelet.set(place, now);
  }

  forget(place: string): void {
    for (const key of this.#byKubelet.get(place)?.pods.keys() ?? []) if (this.#kubeletOf.get(key) === place) this.#kubeletOf.delete(key);
    this.#byKubelet.delete(place);
  }

  node(place: string): Usage | undefined {
    return this.#byKubelet.get(place)?.node?.usage;
  }

  /** Returns the usage of each container of the pod `namespace/name`; undefined until the usage of all containers is known. */
  pod(key: string): ReadonlyMap<string, Usage> | undefined {
    const containers = this.#byKubelet.get(this.#kubeletOf.get(key) ?? '')?.pods.get(key);
    if (containers === undefined) return undefined;
    const usages = new Map<string, Usage>();
    for (const [name, { usage }] of containers) {
      if (usage === undefined) return undefined;
      usages.set(name, usage);
    }
    return usages;
  }
}
