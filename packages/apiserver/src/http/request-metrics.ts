import type { Kind } from '@oarlock/api/kinds';
import { groupResource } from '@oarlock/api/resource';
import { collectDefaultMetrics, Counter, Gauge, Registry } from 'prom-client';
import type { Route } from './routes.ts';
import { deprecationWarning } from '../registry/served-kind.ts';
import { readCounter, PrecomputedHistogram, type Observer } from '../metrics/histogram.ts';

/** Bounds of upstream's request histogram, in seconds. */
const buckets = [0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60];
/** Bounds of upstream's histogram of answers, in bytes. */
const sizes = [1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
const sizeLabels = ['verb', 'group', 'version', 'resource', 'subresource', 'scope', 'component'] as const;
const requestLabels = ['verb', 'dry_run', 'group', 'version', 'resource', 'subresource', 'scope', 'component'] as const;
const readOnly: ReadonlySet<string> = new Set(['GET', 'LIST', 'WATCH', 'HEAD']);
const maxKept = 10_000;
/** What upstream says of how it was built; empty where nothing was compiled. */
const build = {
  git_commit: '',
  git_tree_state: '',
  build_date: '',
  go_version: '',
  compiler: '',
  platform: `linux/${process.arch === 'x64' ? 'amd64' : process.arch}`,
};
/** Bounds of upstream's histogram of watches that begin with what there is, in seconds. */
const watchListBuckets = [0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 15, 20, 30, 45, 60];

interface Series {
  readonly labels: Readonly<Record<string, string>>;
  count: number;
  readonly seconds: Observer;
  /** Absent where upstream measures none: of what does not read. */
  readonly bytes: Observer | undefined;
}

/** What the server counts of its requests. */
export class RequestMetrics {
  readonly #duration: PrecomputedHistogram;
  readonly #sizes: PrecomputedHistogram;
  readonly #deprecated: Gauge<'group' | 'version' | 'resource' | 'subresource' | 'removed_release'>;
  readonly #longRunning: Gauge<'verb' | 'group' | 'version' | 'resource' | 'subresource' | 'scope' | 'component'>;
  readonly #terminations: Counter<'code' | 'component'>;
  readonly #watchEvents: Counter<'group' | 'version' | 'resource'>;
  readonly #watchLists: PrecomputedHistogram;
  readonly #listed = new Map<string, Observer>();
  readonly #series = new Map<string, Series>();
  readonly #measured = new Map<string, Pick<Series, 'seconds' | 'bytes'>>();
  #others: Series | undefined;

  constructor(registry: Registry, inflight: { readonly mutating: () => number; readonly readOnly: () => number }, version: string) {
    const registers = [registry];
    readCounter(
      registry,
      {
        name: 'apiserver_request_total',
        help: 'Requests by verb, resource and response code.',
        labelNames: [...requestLabels, 'code'],
      },
      () => [...this.#series.values(), ...(this.#others === undefined ? [] : [this.#others])].map(({ labels, count }) => [labels, count]),
    );
    this.#duration = new PrecomputedHistogram({
      name: 'apiserver_request_duration_seconds',
      help: 'Seconds from the first byte of a request to the end of its response; watches are left out.',
      labelNames: requestLabels,
      buckets,
      registry,
    });
    this.#sizes = new PrecomputedHistogram({
      name: 'apiserver_response_sizes',
      help: 'Bytes of the bodies of answers to what reads, as they went out; watches are left out.',
      labelNames: sizeLabels,
      buckets: sizes,
      registry,
    });
    this.#deprecated = new Gauge({
      name: 'apiserver_requested_deprecated_apis',
      help: 'Always 1; its labels say which versions were asked for that should be used no more.',
      labelNames: ['group', 'version', 'resource', 'subresource', 'removed_release'],
      registers,
    });
    this.#longRunning = new Gauge({
      name: 'apiserver_longrunning_requests',
      help: 'Watches, logs and streams that are open.',
      labelNames: ['verb', 'group', 'version', 'resource', 'subresource', 'scope', 'component'],
      registers,
    });
    this.#watchLists = new PrecomputedHistogram({
      name: 'apiserver_watch_list_duration_seconds',
      help: 'Seconds until a watch that begins with what there is has sent all of it.',
      labelNames: ['group', 'version', 'resource', 'scope'],
      buckets: watchListBuckets,
      registry,
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
      labelNames: ['major', 'minor', 'git_version', 'git_commit', 'git_tree_state', 'build_date', 'go_version', 'compiler', 'platform'],
      registers,
    }).set({ major, minor, git_version: version, ...build }, 1);
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

  observeRequest(verb: string, route: Route | undefined, dryRun: boolean, code: number, seconds: number, bytes: number): void {
    const series = this.#of(verb, route, dryRun, code);
    series.count++;
    if (verb !== 'WATCH') series.seconds.observe(seconds);
    series.bytes?.observe(bytes);
    if (code === 504 || code === 429) this.#terminations.inc({ code: String(code), component: 'apiserver' });
  }

  #of(verb: string, route: Route | undefined, dryRun: boolean, code: number): Series {
    const scope = scopeOf(route);
    const { group = '', version = '', resource = '' } = route?.resource ?? {};
    const subresource = route?.subresource?.name ?? '';
    const request = `${verb}|${group}/${version}/${resource}/${subresource}|${scope}|${dryRun}`;
    const key = `${request}|${code}`;
    const known = this.#series.get(key);
    if (known !== undefined) return known;
    // beyond the bound all share one: what is not known is counted as other
    if (this.#series.size >= maxKept) return (this.#others ??= this.#make({ verb: 'OTHER', component: 'apiserver' }, code, 'other'));
    if (deprecationWarning(group, version, resource) !== undefined)
      this.#deprecated.set({ group, version, resource, subresource, removed_release: '' }, 1);
    const labels = { verb, dry_run: dryRun ? 'All' : '', group, version, resource, subresource, scope, component: 'apiserver' };
    const series = this.#make(labels, code, request);
    this.#series.set(key, series);
    return series;
  }

  /** Codes of one request share its times and sizes. */
  #make(labels: Readonly<Record<string, string>>, code: number, request: string): Series {
    let measured = this.#measured.get(request);
    if (measured === undefined) {
      const { verb = '' } = labels;
      const { dry_run: _, ...sized } = labels;
      measured = {
        seconds: this.#duration.series(labels),
        bytes: (verb === 'GET' || verb === 'LIST') && labels['resource'] !== '' ? this.#sizes.series(sized) : undefined,
      };
      this.#measured.set(request, measured);
    }
    return { labels: { ...labels, code: String(code) }, count: 0, ...measured };
  }

  /** Counts the events of a watch. */
  watchEventObserver({ resource: { group, version, resource } }: Route): (events: number) => void {
    const counter = this.#watchEvents.labels({ group, version, resource });
    return (events) => {
      counter.inc(events);
    };
  }

  /** What there was has been sent. */
  observeWatchList(route: Route, seconds: number): void {
    const { group, version, resource } = route.resource;
    const scope = scopeOf(route);
    const key = `${group}/${version}/${resource}|${scope}`;
    let tally = this.#listed.get(key);
    if (tally === undefined) this.#listed.set(key, (tally = this.#watchLists.series({ group, version, resource, scope })));
    tally.observe(seconds);
  }

  /** Counts an open stream until the returned function is called. */
  countLongRunning(verb: string, route: Route): () => void {
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
export function registerObjectCountMetrics(
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

/** Takes the answers of health checks: the last of each, and how many of which kind there were. */
export function healthCheckObserver(registry: Registry): (endpoint: string, name: string, healthy: boolean) => void {
  const registers = [registry];
  const last = new Gauge({
    name: 'kubernetes_healthcheck',
    help: 'Whether a health check passed when it was last asked.',
    labelNames: ['name', 'type'],
    registers,
  });
  const total = new Counter({
    name: 'kubernetes_healthchecks_total',
    help: 'Answers of health checks.',
    labelNames: ['name', 'status', 'type'],
    registers,
  });
  return (type, name, healthy) => {
    last.set({ name, type }, healthy ? 1 : 0);
    total.inc({ name, type, status: healthy ? 'success' : 'error' });
  };
}

/** Memory, CPU, event loop delay and the like of this process. */
export function newProcessRegistry(): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  return registry;
}

/** One text of several registries. Where several have a series of one name, their samples stand together. */
export async function metricsText(registries: readonly Registry[]): Promise<{ readonly contentType: string; readonly text: string }> {
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
