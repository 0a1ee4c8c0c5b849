import { milliValue } from '@oarlock/api/values/quantity';
import { parseTime } from '@oarlock/api/values/time';
import { durationMs } from '@oarlock/api/values/duration';
import { isStatus } from '@oarlock/api/status';
import type { Client } from '@oarlock/spi/client';

/** A metric of one pod in thousandths (milli-units), over a window of `windowMs` that ended at `at` (milliseconds since the epoch). */
export interface PodMetric {
  readonly value: number;
  readonly at: number;
  readonly windowMs: number;
}

/** Identifies a custom metric of one or more objects. */
export interface CustomMetric {
  readonly namespace: string;
  /** Resource of the objects, for example `pods` or `ingresses.networking.k8s.io`. */
  readonly resource: string;
  /** Name of the object; `*` for all objects that `selector` matches. */
  readonly name: string;
  readonly metric: string;
  /** Label selector for objects; '' if `name` is the name of an object. */
  readonly selector: string;
  /** Label selector for metric series; '' for all series. */
  readonly metricSelector: string;
}

/** A client of the aggregated metrics APIs. Its methods throw errors with upstream's messages. */
export interface MetricsClient {
  /** Returns resource metrics from `metrics.k8s.io`, keyed by pod name: the sum of all containers, or the metric of `container`. */
  resource(
    client: Client,
    namespace: string,
    selector: string,
    resource: string,
    container: string | undefined,
  ): Promise<ReadonlyMap<string, PodMetric>>;
  /** Returns a custom metric of the objects from `custom.metrics.k8s.io`, keyed by object name. */
  custom(client: Client, of: CustomMetric): Promise<ReadonlyMap<string, PodMetric>>;
  /** Returns the values of an external metric from `external.metrics.k8s.io`, in thousandths. */
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
const part = encodeURIComponent;
function query(labelSelector: string, metricLabelSelector = ''): string {
  const parameters = Object.entries({ labelSelector, metricLabelSelector }).filter(([, text]) => text !== '');
  return parameters.length === 0 ? '' : `?${parameters.map(([name, text]) => `${name}=${part(text)}`).join('&')}`;
}

const customGroup = '/apis/custom.metrics.k8s.io';
/** Versions of `custom.metrics.k8s.io` in order of preference. Metrics adapters serve one or both. */
const customVersions = ['v1beta2', 'v1beta1'] as const;

/**
 * Requests the newer API version, and the older version if the newer is not found. Both an absent metric and an absent version yield
 * `NotFound`.
 */
async function customValues(client: Client, path: string): Promise<unknown> {
  const [newer, older] = customVersions;
  try {
    return await client.raw('GET', `${customGroup}/${newer}${path}`);
  } catch (error) {
    if (!isStatus(error, 'NotFound')) throw error;
    const { versions = [] } = (await client.raw('GET', customGroup)) as { readonly versions?: readonly { readonly version?: string }[] };
    const has = (wanted: string) => versions.some(({ version }) => version === wanted);
    if (has(newer) || !has(older)) throw error;
    return client.raw('GET', `${customGroup}/${older}${path}`);
  }
}

/**
 * Runs a request to a metrics API.
 * @throws Error with upstream's message, which contains client-go's message if the API itself is not served or not available
 */
async function fetchMetrics<T>(api: 'resource' | 'custom' | 'external', resource: string, request: () => Promise<unknown>): Promise<T> {
  try {
    return (await request()) as T;
  } catch (error) {
    const { message } = error as Error;
    throw new Error(`unable to fetch metrics from ${api} metrics API: ${genericText(error, resource) ?? message}`, { cause: error });
  }
}

/** Returns client-go's message for a response without a Status of the metrics API; undefined if the API responded. */
function genericText(error: unknown, resource: string): string | undefined {
  const isGeneric =
    isStatus(error) &&
    /^(?:the server could not find the requested resource|service unavailable|an error on the server|404 page)/.test(error.message);
  if (!isGeneric) return undefined;
  if (isStatus(error, 'NotFound') && resource.endsWith('.custom.metrics.k8s.io'))
    return 'no custom metrics API (custom.metrics.k8s.io) registered';
  if (isStatus(error, 'NotFound')) return `the server could not find the requested resource (get ${resource})`;
  return isStatus(error, 'ServiceUnavailable') ? `the server is currently unable to handle the request (get ${resource})` : undefined;
}

export const restMetricsClient: MetricsClient = {
  async resource(client, namespace, selector, resource, container) {
    const path = `/apis/metrics.k8s.io/v1beta1/namespaces/${part(namespace)}/pods${query(selector)}`;
    const { items = [] } = await fetchMetrics<PodMetricsList>('resource', 'pods.metrics.k8s.io', () => client.raw('GET', path));
    if (items.length === 0) throw new Error('no metrics returned from resource metrics API');
    const found = new Map<string, PodMetric>();
    for (const { metadata, timestamp, window, containers = [] } of items) {
      const counted = containers.filter(({ name }) => container === undefined || name === container);
      if (container !== undefined && counted.length === 0)
        throw new Error(
          `failed to get container metrics: container ${container} not present in metrics for pod ${namespace}/${metadata.name}`,
        );
      // a pod with an unmeasured container has no metric
      if (counted.length === 0 || counted.some(({ usage }) => usage[resource] === undefined)) continue;
      const value = counted.reduce((sum, { usage }) => sum + milliValue(usage[resource] ?? '0'), 0);
      found.set(metadata.name, {
        value,
        at: parseTime(timestamp ?? '') ?? 0,
        windowMs: window === undefined ? minuteMs : durationMs(window),
      });
    }
    return found;
  },
  async custom(client, { namespace, resource, name, metric, selector, metricSelector }) {
    // metrics of a namespace object have their own path below that namespace
    const about = resource === 'namespaces' ? `${part(name)}/metrics` : `${part(namespace)}/${part(resource)}/${part(name)}`;
    const path = `/namespaces/${about}/${part(metric)}${query(selector, metricSelector)}`;
    const { items = [] } = await fetchMetrics<ValueList>('custom', `${resource}.custom.metrics.k8s.io`, () => customValues(client, path));
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
    const { items = [] } = await fetchMetrics<ValueList>('external', `${metric}.external.metrics.k8s.io`, () => client.raw('GET', path));
    if (items.length === 0) throw new Error('no metrics returned from external metrics API');
    return items.map(({ value }) => milliValue(value));
  },
};
