import { errorText } from '@oarlock/primitives/error-text';
import { parseFieldSelector, type FieldSelector } from '@oarlock/api/selectors/field-selector';
import { parseLabelSelector, type Selector } from '@oarlock/api/selectors/label-selector';
import type { KubeObject } from '@oarlock/api/object';
import { badRequest, failure, notFound } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/values/time';
import type { Node, Pod } from '@oarlock/api/types/core-v1';
import type { Lister } from '@oarlock/spi/client';
import type { Usage } from './usage-store.ts';

export const group = 'metrics.k8s.io';
export const version = 'v1beta1';
export const root = `/apis/${group}/${version}`;
const apiVersion = `${group}/${version}`;

/** Reads the usage of nodes and of pods' containers. The usage is undefined if it is not known. */
export interface UsageReader {
  ofNode(node: Node): Usage | undefined;
  ofPod(pod: Pod): ReadonlyMap<string, Usage> | undefined;
}
export interface MetricsApiOptions {
  readonly nodes: Lister<Node>;
  readonly pods: Lister<Pod>;
  readonly usages: UsageReader;
  readonly now: () => number;
}

const discovery = {
  kind: 'APIResourceList',
  apiVersion: 'v1',
  groupVersion: apiVersion,
  resources: [
    { name: 'nodes', singularName: '', namespaced: false, kind: 'NodeMetrics', verbs: ['get', 'list'] },
    { name: 'pods', singularName: '', namespaced: true, kind: 'PodMetrics', verbs: ['get', 'list'] },
  ],
};
const groupDocument = {
  kind: 'APIGroup',
  apiVersion: 'v1',
  name: group,
  versions: [{ groupVersion: apiVersion, version }],
  preferredVersion: { groupVersion: apiVersion, version },
};

/** Formats resource quantities as metrics-server does: CPU in nanocores, memory in whole KiB. */
const usageResources = (cores: number, memoryBytes: number) => ({
  cpu: cores < 5e-10 ? '0' : `${Math.round(cores * 1e9)}n`,
  memory: `${Math.floor(memoryBytes / 1024)}Ki`,
});
const windowOf = (ms: number): string => `${Math.round(ms) / 1000}s`;

interface Selectors {
  readonly labels: Selector;
  readonly fields: FieldSelector;
}

/** Serves the API group `metrics.k8s.io/v1beta1`, which is read-only. The API server has already authorized the requests. */
export class MetricsApi {
  readonly #parts: MetricsApiOptions;

  constructor(parts: MetricsApiOptions) {
    this.#parts = parts;
  }

  /** Returns the response of a request. @throws StatusError MethodNotAllowed or NotFound if the request cannot be served */
  handle(method: string, url: URL): object {
    const path = url.pathname.replace(/\/$/, '');
    if (method !== 'GET' && method !== 'HEAD')
      throw failure('MethodNotAllowed', 'the server does not allow this method on the requested resource');
    if (path === '/apis') return { kind: 'APIGroupList', apiVersion: 'v1', groups: [groupDocument] };
    if (path === `/apis/${group}`) return groupDocument;
    if (path === root) return discovery;
    const parts = path.startsWith(`${root}/`)
      ? path
          .slice(root.length + 1)
          .split('/')
          .map(decode)
      : [];
    const [first, second, third, fourth] = parts;
    const selectors = selectorsOf(url);
    if (first === 'nodes' && parts.length <= 2) return second === undefined ? this.#nodes(selectors) : this.#node(second);
    if (first === 'pods' && parts.length === 1) return this.#pods(undefined, selectors);
    if (first === 'namespaces' && third === 'pods' && second !== undefined && parts.length <= 4)
      return fourth === undefined ? this.#pods(second, selectors) : this.#pod(second, fourth);
    throw failure('NotFound', 'the server could not find the requested resource');
  }

  #nodes(selectors: Selectors): object {
    const items = this.#parts.nodes.list().filter((node) => matches(node, selectors));
    return list(
      'NodeMetricsList',
      items.flatMap((node) => this.#nodeMetrics(node) ?? []),
    );
  }

  #node(name: string): object {
    const node = this.#parts.nodes.get(name);
    const metrics = node && this.#nodeMetrics(node);
    if (metrics === undefined) throw notFound({ group, resource: 'nodes' }, name);
    return metrics;
  }

  #pods(namespace: string | undefined, selectors: Selectors): object {
    const items = this.#parts.pods.list(namespace).filter((pod) => pod.status?.phase === 'Running' && matches(pod, selectors));
    return list(
      'PodMetricsList',
      items.flatMap((pod) => this.#podMetrics(pod) ?? []),
    );
  }

  #pod(namespace: string, name: string): object {
    const pod = this.#parts.pods.get(`${namespace}/${name}`);
    const metrics = pod?.status?.phase === 'Running' ? this.#podMetrics(pod) : undefined;
    if (metrics === undefined) throw notFound({ group, resource: 'pods' }, `${namespace}/${name}`);
    return metrics;
  }

  #nodeMetrics(node: Node): object | undefined {
    const usage = this.#parts.usages.ofNode(node);
    return usage && { ...this.#head('NodeMetrics', node, usage), usage: usageResources(usage.cores, usage.memoryBytes) };
  }

  #podMetrics(pod: Pod): object | undefined {
    const usages = this.#parts.usages.ofPod(pod);
    // the oldest sample of the containers is the pod's timestamp
    const oldest = usages && [...usages.values()].reduce((a, b) => (b.at < a.at ? b : a));
    return (
      usages &&
      oldest && {
        ...this.#head('PodMetrics', pod, oldest),
        containers: [...usages].map(([name, { cores, memoryBytes }]) => ({ name, usage: usageResources(cores, memoryBytes) })),
      }
    );
  }

  #head(kind: string, { metadata = {} }: KubeObject, { at, windowMs }: Usage): object {
    const { name, namespace, labels } = metadata;
    return {
      kind,
      apiVersion,
      metadata: {
        name,
        ...(namespace !== undefined && { namespace }),
        creationTimestamp: formatTime(this.#parts.now()),
        ...(labels && { labels }),
      },
      timestamp: formatTime(at),
      window: windowOf(windowMs),
    };
  }
}

const list = (kind: string, items: readonly object[]) => ({ kind, apiVersion, metadata: {}, items });

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw badRequest(`invalid path segment ${JSON.stringify(text)}`);
  }
}

function selectorsOf({ searchParams }: URL): Selectors {
  try {
    return {
      labels: parseLabelSelector(searchParams.get('labelSelector') ?? ''),
      fields: parseFieldSelector(searchParams.get('fieldSelector') ?? ''),
    };
  } catch (error) {
    throw badRequest(errorText(error));
  }
}

function matches({ metadata = {} }: KubeObject, { labels, fields }: Selectors): boolean {
  if (!labels.matches(metadata.labels ?? {})) return false;
  return fields.matches({ 'metadata.name': metadata.name ?? '', 'metadata.namespace': metadata.namespace ?? '' });
}
