import type { NodeUsage } from '../../stats/node-usage.ts';
import type { Kubelet } from '../../kubelet/kubelet.ts';
import type { Histogram } from '../../probes/histogram.ts';
import { machinePressure } from '../../stats/pressure.ts';
import { MetricSeries, type Sample } from './metric-series.ts';
import { addPressureMetrics, podPressure } from './pressure-stats.ts';
import { takeStatsSnapshot, type PodSnapshot, type StatsSnapshot } from './stats-summary.ts';

const titleOf = (kind: string) => `${kind.slice(0, 1).toUpperCase()}${kind.slice(1)}`;
const seconds = (nanos: number) => nanos / 1e9;
const podLabels = ({ worker: { record } }: PodSnapshot) => ({ namespace: record.namespace, pod: record.name });

function* ofContainers(
  pods: readonly PodSnapshot[],
  value: (one: PodSnapshot['containers'][number]) => Omit<Sample, 'labels'>,
): Generator<Sample> {
  for (const pod of pods)
    for (const container of pod.containers) yield { labels: { container: container.name, ...podLabels(pod) }, ...value(container) };
}

/** Returns the response body of `/metrics/resource`, which metrics-server scrapes. */
export async function resourceMetrics(kubelet: Kubelet, signal: AbortSignal): Promise<string> {
  const series = new MetricSeries();
  let found: StatsSnapshot | undefined;
  try {
    found = await takeStatsSnapshot(kubelet, signal);
  } catch (error) {
    signal.throwIfAborted();
    kubelet.context.log.warn({ err: error }, 'reading usage failed');
  }
  if (found) {
    addContainerUsage(series, found);
    if (found.node) addNodeUsage(series, found.node, found.at);
    addPodUsage(series, found);
  }
  series.add('resource_scrape_error', {
    type: 'gauge',
    help: '1 if there was an error while getting container metrics, 0 otherwise',
    samples: [{ value: found ? 0 : 1 }],
  });
  return series.text;
}

function addContainerUsage(series: MetricSeries, { pods }: StatsSnapshot): void {
  series.add('container_cpu_usage_seconds_total', {
    type: 'counter',
    help: 'Cumulative cpu time consumed by the container in core-seconds',
    samples: ofContainers(pods, ({ stats }) => ({ value: seconds(stats.cpuUsageNanos), at: stats.at })),
  });
  series.add('container_memory_working_set_bytes', {
    type: 'gauge',
    help: 'Current working set of the container in bytes',
    samples: ofContainers(pods, ({ stats }) => ({ value: stats.memoryWorkingSetBytes, at: stats.at })),
  });
  series.add('container_start_time_seconds', {
    type: 'gauge',
    help: 'Start time of the container since unix epoch in seconds',
    samples: ofContainers(pods, ({ startedAt }) => ({ value: startedAt / 1000 })),
  });
}

function addNodeUsage(series: MetricSeries, node: NodeUsage, at: number): void {
  series.add('node_cpu_usage_seconds_total', {
    type: 'counter',
    help: 'Cumulative cpu time consumed by the node in core-seconds',
    samples: [{ value: seconds(node.cpuNanos), at }],
  });
  series.add('node_memory_working_set_bytes', {
    type: 'gauge',
    help: 'Current working set of the node in bytes',
    samples: [{ value: node.memoryTotal - node.memoryAvailable, at }],
  });
  series.add('node_swap_usage_bytes', {
    type: 'gauge',
    help: 'Current swap usage of the node in bytes',
    samples: [{ value: node.swapUsage, at }],
  });
}

function addPodUsage(series: MetricSeries, { pods }: StatsSnapshot): void {
  const sums = pods.map((pod) => ({
    labels: podLabels(pod),
    at: pod.containers[0]?.stats.at,
    cpu: pod.containers.reduce((sum, { stats }) => sum + stats.cpuUsageNanos, 0),
    memory: pod.containers.reduce((sum, { stats }) => sum + stats.memoryWorkingSetBytes, 0),
  }));
  series.add('pod_cpu_usage_seconds_total', {
    type: 'counter',
    help: 'Cumulative cpu time consumed by the pod in core-seconds',
    samples: sums.map(({ labels, cpu, at: when }) => ({ labels, value: seconds(cpu), at: when })),
  });
  series.add('pod_memory_working_set_bytes', {
    type: 'gauge',
    help: 'Current working set of the pod in bytes',
    samples: sums.map(({ labels, memory, at: when }) => ({ labels, value: memory, at: when })),
  });
}

/** Prepends the sample of the root cgroup, if there is one. cAdvisor labels it `id="/"`. */
const withRootCgroup = (samples: readonly Sample[], root: Sample | undefined): readonly Sample[] =>
  root === undefined ? samples : [{ ...root, labels: rootCgroup }, ...samples];
const rootCgroup = { container: '', id: '/', image: '', name: '', namespace: '', pod: '' };

/** Returns the response body of `/metrics/cadvisor`: the resource usage of the node and its containers, under cAdvisor's metric names. */
export async function containerMetrics(kubelet: Kubelet, signal: AbortSignal): Promise<string> {
  const { node, pods } = await takeStatsSnapshot(kubelet, signal);
  const series = new MetricSeries();
  const labelsOf = (pod: PodSnapshot, container: PodSnapshot['containers'][number]) => ({
    container: container.name,
    id: `/kubepods/pod${pod.worker.record.uid}/${container.stats.id}`,
    image: container.image,
    name: container.stats.id,
    ...podLabels(pod),
  });
  const each = (value: (one: PodSnapshot['containers'][number]) => Omit<Sample, 'labels'>): Sample[] =>
    pods.flatMap((pod) => pod.containers.map((container) => ({ labels: labelsOf(pod, container), ...value(container) })));
  series.add('container_cpu_usage_seconds_total', {
    type: 'counter',
    help: 'Cumulative cpu time consumed in seconds.',
    samples: withRootCgroup(
      each(({ stats }) => ({ value: seconds(stats.cpuUsageNanos), at: stats.at })),
      node && { value: seconds(node.cpuNanos), at: node.at },
    ).map(({ labels, ...sample }) => ({ labels: { ...labels, cpu: 'total' }, ...sample })),
  });
  series.add('container_memory_working_set_bytes', {
    type: 'gauge',
    help: 'Current working set in bytes.',
    samples: withRootCgroup(
      each(({ stats }) => ({ value: stats.memoryWorkingSetBytes, at: stats.at })),
      node && { value: node.memoryTotal - node.memoryAvailable, at: node.at },
    ),
  });
  series.add('container_memory_rss', {
    type: 'gauge',
    help: 'Size of RSS in bytes.',
    samples: each(({ stats }) => ({ value: stats.memoryRssBytes, at: stats.at })),
  });
  series.add('container_fs_usage_bytes', {
    type: 'gauge',
    help: 'Number of bytes that are consumed by the container on this filesystem.',
    samples: each(({ stats }) => ({ value: stats.writableLayerBytes, at: stats.at })),
  });
  series.add('container_start_time_seconds', {
    type: 'gauge',
    help: 'Start time of the container since unix epoch in seconds.',
    samples: each(({ startedAt }) => ({ value: startedAt / 1000 })),
  });
  series.add('container_last_seen', {
    type: 'gauge',
    help: 'Last time a container was seen by the exporter',
    samples: each(({ stats }) => ({ value: Math.floor(stats.at / 1000), at: stats.at })),
  });
  const pressures = await Promise.all(
    pods.map(async (pod) => {
      const { ofContainer } = await podPressure(pod.worker);
      return pod.containers.map((container) => ({
        labels: labelsOf(pod, container),
        at: container.stats.at,
        pressure: ofContainer(container.stats.id),
      }));
    }),
  );
  const machine = node && { labels: rootCgroup, at: node.at, pressure: await machinePressure() };
  addPressureMetrics(series, [...(machine ? [machine] : []), ...pressures.flat()]);
  const [agent] = kubelet.agents.values();
  if (node && agent) {
    series.add('machine_memory_bytes', {
      type: 'gauge',
      help: 'Amount of memory installed on the machine.',
      samples: [{ value: node.memoryTotal }],
    });
    series.add('machine_cpu_cores', {
      type: 'gauge',
      help: 'Number of logical CPU cores.',
      samples: [{ value: Number(agent.context.capacity['cpu']?.toString() ?? 0) }],
    });
  }
  return series.text;
}

/** Returns the response body of `/metrics/probes`: the results and durations of probes. */
export function probeMetrics(kubelet: Kubelet): string {
  const series = new MetricSeries();
  const samples: Sample[] = [];
  const durations: { readonly labels: Readonly<Record<string, string>>; readonly values: Histogram }[] = [];
  for (const agent of kubelet.agents.values())
    for (const { record } of agent.pods.workers) {
      const { namespace, name: pod } = record;
      for (const { container, kind, values } of record.probes?.durations() ?? [])
        durations.push({ labels: { container, namespace, pod, probe_type: titleOf(kind) }, values });
      for (const { container, kind, result, count } of record.probes?.resultCounts() ?? [])
        samples.push({
          labels: {
            container,
            namespace,
            pod,
            pod_uid: record.uid,
            probe_type: titleOf(kind),
            result,
          },
          value: count,
        });
    }
  series.add('prober_probe_total', {
    type: 'counter',
    help: 'Cumulative number of a liveness, readiness or startup probe for a container by result.',
    samples,
  });
  series.addDistributions('prober_probe_duration_seconds', 'Duration in seconds for a probe response.', durations);
  return series.text;
}
