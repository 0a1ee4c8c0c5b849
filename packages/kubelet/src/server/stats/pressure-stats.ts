import type { PodWorker } from '../../pod/worker/pod-worker.ts';
import type { Pressure, ResourcePressure } from '../../stats/pressure.ts';
import type { MetricSeries, Sample } from './metric-series.ts';

/** The pressure stall information of a pod and of its containers. It is empty without support of the kernel, and with cgroup v1. */
export interface PodPressure {
  readonly ofPod: Pressure;
  ofContainer(id: string): Pressure;
}

const noPressure: PodPressure = { ofPod: {}, ofContainer: () => ({}) };

/** Reads the pressure of a pod from its cgroups. As cAdvisor, finds the cgroup of a container by the id in its name. */
export async function podPressure({ record }: Pick<PodWorker, 'record'>): Promise<PodPressure> {
  const found = await record.node.containerManager.podContainerManager(record.runtime)?.pressure(record.pod);
  if (found === undefined) return noPressure;
  return {
    ofPod: found.own,
    ofContainer: (id) => [...found.children].find(([name]) => name.includes(id))?.[1] ?? {},
  };
}

const metrics: readonly (readonly [resource: keyof Pressure, kind: keyof ResourcePressure, name: string, help: string])[] = (
  [
    ['cpu', 'CPU'],
    ['memory', 'memory'],
    ['io', 'IO'],
  ] as const
).flatMap(([resource, title]) => [
  [
    resource,
    'full',
    `${resource}_stalled`,
    `Total time duration no tasks in the container could make progress due to ${title} congestion.`,
  ],
  [resource, 'some', `${resource}_waiting`, `Total time duration tasks in the container have waited due to ${title} congestion.`],
]);

/** The labels of a cgroup in `/metrics/cadvisor`, and its pressure. */
export interface LabeledPressure extends Pick<Sample, 'labels' | 'at'> {
  readonly pressure: Pressure;
}

/** Adds cAdvisor's metrics of pressure stall information, in seconds. */
export function addPressureMetrics(series: MetricSeries, all: readonly LabeledPressure[]): void {
  for (const [resource, kind, name, help] of metrics)
    series.add(`container_pressure_${name}_seconds_total`, {
      type: 'counter',
      help,
      samples: all.flatMap(({ pressure, ...sample }) => {
        const value = pressure[resource]?.[kind].total;
        return value === undefined ? [] : [{ ...sample, value: value / 1e6 }];
      }),
    });
}
