import { milliValue } from '@oarlock/api/quantity';
import { parseTime } from '@oarlock/api/time';
import { durationMs } from '@oarlock/api/duration';
import type { Client } from '@oarlock/spi/client';

/** What one pod uses, in thousandths, over a window that ended at `at` (milliseconds). */
export interface PodMetric {
  readonly value: number;
  readonly at: number;
  readonly windowMs: number;
}

/** Where numbers come from: the aggregated APIs of the cluster. Each throws `StatusError` when its API is not there. */
export interface MetricsSource {
  /** Of `metrics.k8s.io`, by pod. With `container` of that container alone. */
  resource(
    client: Client,
    namespace: string,
    selector: string,
    resource: string,
    container: string | undefined,
  ): Promise<ReadonlyMap<string, PodMetric>>;
  /** Of `custom.metrics.k8s.io`, by the names of the objects; `*` for all pods that the selector matches. */
  custom(
    client: Client,
    namespace: string,
    resource: string,
    name: string,
    metric: string,
    selector: string,
  ): Promise<ReadonlyMap<string, PodMetric>>;
  /** Of `external.metrics.k8s.io`. */
  external(client: Client, namespace: string, metric: string, selector: string): Promise<readonly number[]>;
}

interface PodMetricsList {
  readonly items?: readonly {
    readonly metadata: { readonly name: string };
    readonly timestamp?: string;
    readonly window?: string;
    readonly containers?: readonly { readonly name: string; readonly usage: Readonly<Record<string, string>> }[];
  }[];
}
interface ValueList {
  readonly items?: readonly {
    readonly describedObject?: { readonly name: string };
    readonly timestamp?: string;
    readonly windowSeconds?: number;
    readonly value: string;
  }[];
}

const minuteMs = 60_000;
const query = (selector: string) => (selector === '' ? '' : `?labelSelector=${encodeURIComponent(selector)}`);
const part = encodeURIComponent;

export const aggregatedMetrics: MetricsSource = {
  async resource(client, namespace, selector, resource, container) {
    const path = `/apis/metrics.k8s.io/v1beta1/namespaces/${part(namespace)}/pods${query(selector)}`;
    const { items = [] } = (await client.raw('GET', path)) as PodMetricsList;
    const found = new Map<string, PodMetric>();
    for (const { metadata, timestamp, window, containers = [] } of items) {
      const counted = containers.filter(({ name }) => container === undefined || name === container);
      // a pod of which one container is not measured yet is not measured
      if (counted.length === 0 || counted.some(({ usage }) => usage[resource] === undefined)) continue;
      const value = counted.reduce((sum, { usage }) => sum + milliValue(usage[resource] ?? '0'), 0);
      found.set(metadata.name, {
        value,
        at: parseTime(timestamp ?? '') ?? 0,
        windowMs: window === undefined ? minuteMs : durationMs(window),
      });
    }
    if (found.size === 0) throw new Error(`no metrics returned from resource metrics API`);
    return found;
  },
  async custom(client, namespace, resource, name, metric, selector) {
    const path = `/apis/custom.metrics.k8s.io/v1beta2/namespaces/${part(namespace)}/${part(resource)}/${part(name)}/${part(metric)}${query(selector)}`;
    const { items = [] } = (await client.raw('GET', path)) as ValueList;
    if (items.length === 0) throw new Error('no metrics returned from custom metrics API');
    return new Map(
      items.map(({ describedObject, timestamp, windowSeconds, value }) => [
        describedObject?.name ?? name,
        { value: milliValue(value), at: parseTime(timestamp ?? '') ?? 0, windowMs: (windowSeconds ?? 60) * 1000 },
      ]),
    );
  },
  async external(client, namespace, metric, selector) {
    const path = `/apis/external.metrics.k8s.io/v1beta1/namespaces/${part(namespace)}/${part(metric)}${query(selector)}`;
    const { items = [] } = (await client.raw('GET', path)) as ValueList;
    if (items.length === 0) throw new Error('no metrics returned from external metrics API');
    return items.map(({ value }) => milliValue(value));
  },
};
