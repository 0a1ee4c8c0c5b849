import type { Kind } from '@oarlock/api/kinds';
import { groupResource } from '@oarlock/api/resource';
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { Route } from './http-routes.ts';

/** Bounds of upstream's request histogram, in seconds. */
const buckets = [0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60];
const requestLabels = ['verb', 'dry_run', 'group', 'version', 'resource', 'subresource', 'scope', 'component'] as const;
const readOnly: ReadonlySet<string> = new Set(['GET', 'LIST', 'WATCH', 'HEAD']);
const maxKept = 10_000;

interface Series {
  count(): void;
  observe(seconds: number): void;
}

/** What the server counts of its requests. */
export class RequestMetrics {
  readonly #total: Counter<(typeof requestLabels)[number] | 'code'>;
  readonly #duration: Histogram<(typeof requestLabels)[number]>;
  readonly #longRunning: Gauge<'verb' | 'group' | 'version' | 'resource' | 'subresource' | 'scope' | 'component'>;
  readonly #terminations: Counter<'code' | 'component'>;
  readonly #watchEvents: Counter<'group' | 'version' | 'resource'>;
  readonly #series = new Map<string, Series>();

  constructor(registry: Registry, inflight: { readonly mutating: () => number; readonly readOnly: () => number }, version: string) {
    const registers = [registry];
    this.#total = new Counter({
      name: 'apiserver_request_total',
      help: 'Requests by verb, resource and response code.',
      labelNames: [...requestLabels, 'code'],
      registers,
    });
    this.#duration = new Histogram({
      name: 'apiserver_request_duration_seconds',
      help: 'Seconds from the first byte of a request to the end of its response; watches are left out.',
      labelNames: [...requestLabels],
      buckets,
      registers,
    });
    this.#longRunning = new Gauge({
      name: 'apiserver_longrunning_requests',
      help: 'Watches, logs and streams that are open.',
      labelNames: ['verb', 'group', 'version', 'resource', 'subresource', 'scope', 'component'],
      registers,
    });
    this.#terminations = new Counter({
      name: 'apiserver_request_terminations_total',
      help: 'Requests that ended early: timed out or turned away.',
      labelNames: ['code', 'component'],
      registers,
    });
    this.#watchEvents = new Counter({
      name: 'apiserver_watch_events_total',
      help: 'Events sent to watches.',
      labelNames: ['group', 'version', 'resource'],
      registers,
    });
    const [major = '', minor = ''] = /^v(\d+)\.(\d+)/.exec(version)?.slice(1) ?? [];
    new Gauge({
      name: 'kubernetes_build_info',
      help: 'Always 1; its labels say which version this is.',
      labelNames: ['major', 'minor', 'git_version'],
      registers,
    }).set({ major, minor, git_version: version }, 1);
    const current = new Gauge({
      name: 'apiserver_current_inflight_requests',
      help: 'Requests being worked on.',
      labelNames: ['request_kind'],
      registers: [],
      collect() {
        this.set({ request_kind: 'mutating' }, inflight.mutating());
        this.set({ request_kind: 'readOnly' }, inflight.readOnly());
      },
    });
    registry.registerMetric(current);
  }

  finished(verb: string, route: Route | undefined, dryRun: boolean, code: number, seconds: number): void {
    const scope = scopeOf(route);
    const { group = '', version = '', resource = '' } = route?.resource ?? {};
    const subresource = route?.subresource?.name ?? '';
    const key = `${verb}|${group}/${version}/${resource}/${subresource}|${scope}|${dryRun}|${code}`;
    let series = this.#series.get(key);
    if (series === undefined) {
      const labels = { verb, dry_run: dryRun ? 'All' : '', group, version, resource, subresource, scope, component: 'apiserver' };
      const [total, duration] = [this.#total.labels({ ...labels, code: String(code) }), this.#duration.labels(labels)];
      series = {
        count: () => {
          total.inc();
        },
        observe: (value) => {
          duration.observe(value);
        },
      };
      if (this.#series.size < maxKept) this.#series.set(key, series);
    }
    series.count();
    if (verb !== 'WATCH') series.observe(seconds);
    if (code === 504 || code === 429) this.#terminations.inc({ code: String(code), component: 'apiserver' });
  }

  /** Counts the events of a watch. */
  watched({ resource: { group, version, resource } }: Route): (events: number) => void {
    const counter = this.#watchEvents.labels({ group, version, resource });
    return (events) => {
      counter.inc(events);
    };
  }

  /** Counts an open stream until the returned function is called. */
  longRunning(verb: string, route: Route): () => void {
    const { group, version, resource } = route.resource;
    const gauge = this.#longRunning.labels({
      verb,
      group,
      version,
      resource,
      subresource: route.subresource?.name ?? '',
      scope: scopeOf(route),
      component: 'apiserver',
    });
    gauge.inc();
    return () => {
      gauge.dec();
    };
  }
}

const scopeOf = (route: Route | undefined): string =>
  route === undefined ? '' : route.name !== '' || route.verb === 'create' ? 'resource' : route.namespace !== '' ? 'namespace' : 'cluster';

/** How metrics name a verb: by its method, except where one method means several. */
export function reportedVerb(method: string, route: Route | undefined): string {
  if (route === undefined) return method;
  if (route.subresource?.verbs.includes('connect') === true) return 'CONNECT';
  switch (route.verb) {
    case 'list':
      return 'LIST';
    case 'watch':
      return 'WATCH';
    case 'deletecollection':
      return 'DELETECOLLECTION';
    default:
      return method;
  }
}

export const isReadOnly = (verb: string): boolean => readOnly.has(verb);

/** How many objects are stored, counted when somebody asks: under the present name, and the one that dashboards know. */
export function registerObjectCounts(
  registry: Registry,
  served: () => readonly Kind[],
  count: (group: string, version: string, resource: string) => number,
): void {
  const counted = () => served().filter(({ verbs }) => verbs.includes('list'));
  registry.registerMetric(
    new Gauge({
      name: 'apiserver_resource_objects',
      help: 'Objects that are stored of a resource.',
      labelNames: ['group', 'resource'],
      registers: [],
      collect() {
        this.reset();
        for (const { group, version, resource } of counted()) this.set({ group, resource }, count(group, version, resource));
      },
    }),
  );
  registry.registerMetric(
    new Gauge({
      name: 'apiserver_storage_objects',
      help: 'Objects that are stored of a resource, by its full name.',
      labelNames: ['resource'],
      registers: [],
      collect() {
        this.reset();
        for (const { group, version, resource } of counted())
          this.set({ resource: groupResource({ group, resource }) }, count(group, version, resource));
      },
    }),
  );
}

/** Memory, CPU, event loop delay and the like of this process. */
export function processRegistry(): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  return registry;
}

/** One text of several registries. Where several have a series of one name, their samples stand together. */
export async function exposition(registries: readonly Registry[]): Promise<{ readonly contentType: string; readonly text: string }> {
  const texts = new Map<string, string[]>();
  for (const registry of new Set(registries)) {
    for (const { name } of registry.getMetricsAsArray()) {
      const text = await registry.getSingleMetricAsString(name);
      const known = texts.get(name);
      if (known === undefined) texts.set(name, [text]);
      else known.push(...text.split('\n').filter((line) => line !== '' && !line.startsWith('#')));
    }
  }
  return {
    contentType: 'text/plain; version=0.0.4; charset=utf-8',
    text: `${[...texts.values()].map((lines) => lines.join('\n')).join('\n\n')}\n`,
  };
}
