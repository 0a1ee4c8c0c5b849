import { Counter, Gauge, type Registry } from 'prom-client';
import type { Route } from './routes.ts';
import { deprecationWarning } from '../registry/served-kind.ts';
import { registerBuildInfo } from './internal/build-info-metric.ts';
import { newDurations, newSizes, newSliDurations, newWatchLists, requestLabels } from './internal/request-histograms.ts';
import { readCounter, type Observer, type PrecomputedHistogram } from '@oarlock/kernel/precomputed-metrics';

const readOnly: ReadonlySet<string> = new Set(['GET', 'LIST', 'WATCH', 'HEAD']);
/** The maximum number of label sets. Clients choose the verb and the resource of a request, and could otherwise create any number. */
const maxSeries = 10_000;
interface Series {
  readonly key: SeriesKey;
  readonly labels: Readonly<Record<string, string>>;
  count: number;
  readonly seconds: Observer;
  /** The histogram of durations without waiting; undefined for requests that upstream does not observe in it. */
  readonly sliSeconds: Observer | undefined;
  /** The histogram of response sizes; undefined for requests other than reads, as upstream. */
  readonly bytes: Observer | undefined;
}

/** The properties of a request that determine its series. */
interface SeriesKey {
  readonly verb: string;
  readonly subresource: string;
  readonly scope: string;
  readonly isDryRun: boolean;
  readonly code: number;
}

/** A request whose response is complete. */
export interface RequestObservation {
  readonly verb: string;
  readonly route: Route | undefined;
  readonly isDryRun: boolean;
  readonly code: number;
  readonly seconds: number;
  /** The part of `seconds` in which the request waited in API Priority and Fairness. */
  readonly waitSeconds: number;
  /** Bytes of the response body. */
  readonly bytes: number;
}

/** The numbers of requests in progress. */
export interface InFlightCounts {
  mutating(): number;
  readOnly(): number;
}

interface WatchEventCount {
  readonly labels: Readonly<Record<string, string>>;
  count: number;
}

/** The metrics of requests. */
export class RequestMetrics {
  readonly #durations: PrecomputedHistogram;
  readonly #sliDurations: PrecomputedHistogram;
  readonly #sizes: PrecomputedHistogram;
  readonly #deprecated: Gauge<'group' | 'version' | 'resource' | 'subresource' | 'removed_release'>;
  readonly #longRunning: Gauge<'verb' | 'group' | 'version' | 'resource' | 'subresource' | 'scope' | 'component'>;
  readonly #terminations: Counter<'code' | 'component'>;
  /** The events sent to watches, by `group/version/resource`. */
  readonly #watchEvents = new Map<string, WatchEventCount>();
  readonly #watchLists: PrecomputedHistogram;
  readonly #watchListSeries = new Map<string, Observer>();
  readonly #series = new Map<string, Series>();
  readonly #seriesOfResource = new WeakMap<Route['resource'], Series[]>();
  readonly #observers = new Map<string, Pick<Series, 'seconds' | 'sliSeconds' | 'bytes'>>();
  /** The series of requests whose labels exceed `maxSeries` label sets. */
  #otherSeries: Series | undefined;

  constructor(registry: Registry, inFlight: InFlightCounts, version: string) {
    readCounter(
      registry,
      {
        name: 'apiserver_request_total',
        help: 'Requests by verb, resource and response code.',
        labelNames: [...requestLabels, 'code'],
      },
      () => this.#requestCounts(),
    );
    readCounter(
      registry,
      { name: 'apiserver_watch_events_total', help: 'Events sent to watches.', labelNames: ['group', 'version', 'resource'] },
      () => this.#watchEventCounts(),
    );
    this.#durations = newDurations(registry);
    this.#sliDurations = newSliDurations(registry);
    this.#sizes = newSizes(registry);
    this.#deprecated = newDeprecated(registry);
    this.#longRunning = newLongRunning(registry);
    this.#watchLists = newWatchLists(registry);
    this.#terminations = newTerminations(registry);
    registerBuildInfo(registry, version);
    registerInFlight(registry, inFlight);
  }

  observeRequest(observation: RequestObservation): void {
    const { verb, code, seconds, waitSeconds, bytes } = observation;
    const series = this.#seriesOf(observation);
    series.count++;
    if (verb !== 'WATCH') series.seconds.observe(seconds);
    series.sliSeconds?.observe(seconds - waitSeconds);
    series.bytes?.observe(bytes);
    if (code === 504 || code === 429) this.#terminations.inc({ code: String(code), component: 'apiserver' });
  }

  *#requestCounts(): Iterable<readonly [Readonly<Record<string, string>>, number]> {
    for (const { labels, count } of this.#series.values()) yield [labels, count];
    if (this.#otherSeries !== undefined) yield [this.#otherSeries.labels, this.#otherSeries.count];
  }

  /** Finds the series without building its key: all requests for a resource share the object `route.resource`. */
  #seriesOf(observation: RequestObservation): Series {
    const { verb, route, isDryRun, code } = observation;
    const key: SeriesKey = { verb, subresource: route?.subresource?.name ?? '', scope: scopeOf(route), isDryRun, code };
    if (route === undefined) return this.#seriesFor(key, undefined);
    let ofResource = this.#seriesOfResource.get(route.resource);
    if (ofResource === undefined) this.#seriesOfResource.set(route.resource, (ofResource = []));
    const known = ofResource.find((series) => isSameKey(series.key, key));
    if (known !== undefined) return known;
    const series = this.#seriesFor(key, route.resource);
    if (series !== this.#otherSeries) ofResource.push(series);
    return series;
  }

  #seriesFor(key: SeriesKey, of: Route['resource'] | undefined): Series {
    const { verb, subresource, scope, isDryRun, code } = key;
    const { group = '', version = '', resource = '' } = of ?? {};
    const request = `${verb}|${group}/${version}/${resource}/${subresource}|${scope}|${isDryRun}`;
    const known = this.#series.get(`${request}|${code}`);
    if (known !== undefined) return known;
    if (this.#series.size >= maxSeries)
      return (this.#otherSeries ??= this.#newSeries({ verb: 'OTHER', component: 'apiserver' }, key, 'other'));
    if (deprecationWarning(group, version, resource) !== undefined)
      this.#deprecated.set({ group, version, resource, subresource, removed_release: '' }, 1);
    const labels = { verb, dry_run: isDryRun ? 'All' : '', group, version, resource, subresource, scope, component: 'apiserver' };
    const series = this.#newSeries(labels, key, request);
    this.#series.set(`${request}|${code}`, series);
    return series;
  }

  /**
   * Creates the series of a label set. Label sets that differ only in the status code (`request` is equal) share the histograms of durations and
   * sizes.
   */
  #newSeries(labels: Readonly<Record<string, string>>, key: SeriesKey, request: string): Series {
    let observers = this.#observers.get(request);
    if (observers === undefined) {
      const { verb = '' } = labels;
      const { dry_run: _, ...withoutDryRun } = labels;
      observers = {
        seconds: this.#durations.series(labels),
        sliSeconds: verb === 'WATCH' || verb === 'CONNECT' ? undefined : this.#sliDurations.series(withoutDryRun),
        bytes: (verb === 'GET' || verb === 'LIST') && labels['resource'] !== '' ? this.#sizes.series(withoutDryRun) : undefined,
      };
      this.#observers.set(request, observers);
    }
    return { key, labels: { ...labels, code: String(key.code) }, count: 0, ...observers };
  }

  /** Returns a function that counts the events that are sent to a watch. */
  watchEventObserver({ resource: { group, version, resource } }: Route): (events: number) => void {
    const key = `${group}/${version}/${resource}`;
    const counted = this.#watchEvents.get(key) ?? { labels: { group, version, resource }, count: 0 };
    this.#watchEvents.set(key, counted);
    return (events) => {
      counted.count += events;
    };
  }

  *#watchEventCounts(): Iterable<readonly [Readonly<Record<string, string>>, number]> {
    for (const { labels, count } of this.#watchEvents.values()) yield [labels, count];
  }

  /** Records the time until a watch with `sendInitialEvents` has sent the initial events. */
  observeWatchList(route: Route, seconds: number): void {
    const { group, version, resource } = route.resource;
    const scope = scopeOf(route);
    const key = `${group}/${version}/${resource}|${scope}`;
    let series = this.#watchListSeries.get(key);
    if (series === undefined) this.#watchListSeries.set(key, (series = this.#watchLists.series({ group, version, resource, scope })));
    series.observe(seconds);
  }

  /** Counts a long-running request as in progress until the returned function is called. */
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

const newDeprecated = (registry: Registry) =>
  new Gauge({
    name: 'apiserver_requested_deprecated_apis',
    help: 'Always 1; the labels are the deprecated versions that have been requested.',
    labelNames: ['group', 'version', 'resource', 'subresource', 'removed_release'],
    registers: [registry],
  });

const newLongRunning = (registry: Registry) =>
  new Gauge({
    name: 'apiserver_longrunning_requests',
    help: 'Watches, logs and streams in progress.',
    labelNames: ['verb', 'group', 'version', 'resource', 'subresource', 'scope', 'component'],
    registers: [registry],
  });

const newTerminations = (registry: Registry) =>
  new Counter({
    name: 'apiserver_request_terminations_total',
    help: 'Requests that the server ended early: by timeout or flow control.',
    labelNames: ['code', 'component'],
    registers: [registry],
  });

function registerInFlight(registry: Registry, inFlight: InFlightCounts): void {
  registry.registerMetric(
    new Gauge({
      name: 'apiserver_current_inflight_requests',
      help: 'Requests in progress.',
      labelNames: ['request_kind'],
      registers: [],
      collect() {
        this.set({ request_kind: 'mutating' }, inFlight.mutating());
        this.set({ request_kind: 'readOnly' }, inFlight.readOnly());
      },
    }),
  );
}

const isSameKey = (one: SeriesKey, other: SeriesKey): boolean =>
  one.code === other.code &&
  one.verb === other.verb &&
  one.scope === other.scope &&
  one.subresource === other.subresource &&
  one.isDryRun === other.isDryRun;

const scopeOf = (route: Route | undefined): string =>
  route === undefined ? '' : route.name !== '' || route.verb === 'create' ? 'resource' : route.namespace !== '' ? 'namespace' : 'cluster';

/** Returns the verb label of a request: the HTTP method, or the API verb if a method has several API verbs. */
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
