/** The resource metrics of a node or container at one time: the cumulative CPU time since the start in seconds, and the memory in bytes. */
export interface Sample {
  readonly cpuSeconds: number;
  readonly memoryBytes: number;
  /** The time of the sample, in milliseconds since the epoch. */
  readonly at: number;
  /** The start time of the container, with which the CPU counter restarts. Milliseconds since the epoch; 0 if unknown. */
  readonly startedAt: number;
}
/** The metrics that one kubelet reports: samples of the node, and of containers keyed by `namespace/pod` and container name. */
export interface Scrape {
  readonly node: Sample | undefined;
  readonly pods: ReadonlyMap<string, ReadonlyMap<string, Sample>>;
}

interface PartialSample {
  cpuSeconds?: number;
  memoryBytes?: number;
  at: number;
  startedAt: number;
}

const line = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?[ \t]+(\S+)(?:[ \t]+(-?\d+))?$/;
const label = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;
const fields: Readonly<Record<string, 'cpuSeconds' | 'memoryBytes' | 'startedAt'>> = {
  node_cpu_usage_seconds_total: 'cpuSeconds',
  node_memory_working_set_bytes: 'memoryBytes',
  container_cpu_usage_seconds_total: 'cpuSeconds',
  container_memory_working_set_bytes: 'memoryBytes',
  container_start_time_seconds: 'startedAt',
};

const completeSample = ({ cpuSeconds, memoryBytes, at, startedAt }: PartialSample): Sample | undefined =>
  cpuSeconds === undefined || memoryBytes === undefined ? undefined : { cpuSeconds, memoryBytes, at, startedAt };

/** Parses a kubelet's `/metrics/resource` (KEP-727) in the Prometheus text format. Samples without a timestamp get `now`. Ignores other metrics. */
export function parseResourceMetrics(text: string, now: number): Scrape {
  const node: PartialSample = { at: now, startedAt: 0 };
  const pods = new Map<string, Map<string, PartialSample>>();
  for (const each of text.split('\n')) {
    const [, name = '', labels = '', value = '', time] = line.exec(each) ?? [];
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
    const number = Number(value);
    if (field === undefined || !Number.isFinite(number)) continue;
    let into = node;
    if (name.startsWith('container_')) {
      const {
        namespace = '',
        pod = '',
        container = '',
      } = Object.fromEntries([...labels.matchAll(label)].map(([, key = '', text = '']) => [key, text]));
      const key = `${namespace}/${pod}`;
      let containers = pods.get(key);
      if (containers === undefined) pods.set(key, (containers = new Map()));
      into = containers.get(container) ?? { at: now, startedAt: 0 };
      containers.set(container, into);
    }
    into[field] = field === 'startedAt' ? number * 1000 : number;
    if (field === 'cpuSeconds' && time !== undefined) into.at = Number(time);
  }
  return { node: completeSample(node), pods: finishedPods(pods) };
}

interface Summary {
  readonly node?: { readonly cpu?: Cpu; readonly memory?: Memory; readonly startTime?: string };
  readonly pods?: readonly {
    readonly podRef: { readonly name: string; readonly namespace: string };
    readonly containers?: readonly { readonly name: string; readonly startTime?: string; readonly cpu?: Cpu; readonly memory?: Memory }[];
  }[];
}
interface Cpu {
  readonly time?: string;
  readonly usageCoreNanoSeconds?: number;
}
interface Memory {
  readonly workingSetBytes?: number;
}

const sampleOf = (
  cpu: Cpu = {},
  {
    memory = {},
    startTime = '',
    now,
  }: { readonly memory?: Memory | undefined; readonly startTime?: string | undefined; readonly now: number },
): Sample | undefined =>
  cpu.usageCoreNanoSeconds === undefined || memory.workingSetBytes === undefined
    ? undefined
    : {
        cpuSeconds: cpu.usageCoreNanoSeconds / 1e9,
        memoryBytes: memory.workingSetBytes,
        at: Date.parse(cpu.time ?? '') || now,
        startedAt: Date.parse(startTime) || 0,
      };

/** Parses the `/stats/summary` of a kubelet that does not serve `/metrics/resource`. */
export function parseSummary({ node, pods = [] }: Summary, now: number): Scrape {
  const found = new Map<string, ReadonlyMap<string, Sample>>();
  for (const { podRef, containers = [] } of pods) {
    const samples = containers.flatMap(({ name, cpu, memory, startTime }) => {
      const sample = sampleOf(cpu, { memory, startTime, now });
      return sample === undefined ? [] : [[name, sample] as const];
    });
    // a pod counts as measured only if all of its containers are
    if (samples.length > 0 && samples.length === containers.length) found.set(`${podRef.namespace}/${podRef.name}`, new Map(samples));
  }
  return { node: node && sampleOf(node.cpu, { memory: node.memory, startTime: node.startTime, now }), pods: found };
}

function finishedPods(pods: ReadonlyMap<string, ReadonlyMap<string, PartialSample>>): Scrape['pods'] {
  const found = new Map<string, ReadonlyMap<string, Sample>>();
  for (const [key, containers] of pods) {
    const samples = new Map<string, Sample>();
    for (const [name, building] of containers) {
      const sample = completeSample(building);
      if (sample !== undefined) samples.set(name, sample);
    }
    if (samples.size === containers.size) found.set(key, samples);
  }
  return found;
}
