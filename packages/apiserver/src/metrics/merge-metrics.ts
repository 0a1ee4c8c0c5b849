/** The metrics with one name: its comment lines, its type, and its samples by name and labels. */
interface MergedMetric {
  readonly comments: readonly string[];
  readonly combine: Combine;
  readonly samples: Map<string, number>;
}
type Combine = (a: number, b: number) => number;

/** Gauges of state that every process reports alike. */
const alikeGauges: ReadonlySet<string> = new Set([
  'apiserver_requested_deprecated_apis',
  'apiserver_resource_objects',
  'apiserver_storage_objects',
  'apiserver_watch_cache_capacity',
  'apiserver_watch_cache_resource_version',
  'kubernetes_build_info',
  'kubernetes_feature_enabled',
  'nodejs_version_info',
  'process_max_fds',
]);
/** Gauges of which the lowest value counts: 0 is unhealthy. */
const lowestGauges: ReadonlySet<string> = new Set(['kubernetes_healthcheck', 'oarlock_plugin_healthy', 'process_start_time_seconds']);
const sum: Combine = (a, b) => a + b;

function combineOf(name: string, type: string): Combine {
  if (type !== 'gauge') return sum;
  if (lowestGauges.has(name)) return Math.min;
  return alikeGauges.has(name) || name.startsWith('nodejs_eventloop_lag') ? Math.max : sum;
}

/**
 * Merges the metrics of processes that serve the API together, as if one process served it: counters, histograms and amounts are added; of values
 * that all processes report alike, one is kept. Quantiles of summaries cannot be added: the highest is kept.
 * @param texts in the Prometheus text format, with the samples of a metric after its TYPE line
 * @param names only the metrics with these names; all if absent
 */
export function mergeMetrics(texts: readonly string[], names?: ReadonlySet<string>): string {
  const merged = new Map<string, MergedMetric>();
  for (const text of texts) for (const metric of metricsOf(text)) if (names?.has(metric.name) !== false) add(merged, metric);
  return `${[...merged.values()].map(format).join('\n\n')}\n`;
}

interface ParsedMetric {
  readonly name: string;
  readonly type: string;
  readonly comments: readonly string[];
  readonly samples: readonly (readonly [id: string, value: number])[];
}

function* metricsOf(text: string): Generator<ParsedMetric> {
  let comments: string[] = [];
  let samples: [string, number][] = [];
  let [name, type] = ['', ''];
  const finished = (): ParsedMetric => ({ name, type, comments, samples });
  for (const line of text.split('\n')) {
    if (line === '') continue;
    if (!line.startsWith('#')) {
      const end = line.lastIndexOf(' ');
      samples.push([line.slice(0, end), valueOf(line.slice(end + 1))]);
      continue;
    }
    const [, keyword, named = '', rest = ''] = /^# (HELP|TYPE) (\S+) ?(.*)$/.exec(line) ?? [];
    if (named !== name) {
      if (name !== '') yield finished();
      comments = [];
      samples = [];
      name = named;
    }
    comments.push(line);
    if (keyword === 'TYPE') type = rest;
  }
  if (name !== '') yield finished();
}

const valueOf = (text: string): number =>
  text === '+Inf' ? Number.POSITIVE_INFINITY : text === '-Inf' ? Number.NEGATIVE_INFINITY : Number(text);
const textOf = (value: number): string =>
  value === Number.POSITIVE_INFINITY ? '+Inf' : value === Number.NEGATIVE_INFINITY ? '-Inf' : Number.isNaN(value) ? 'Nan' : String(value);

function add(merged: Map<string, MergedMetric>, { name, type, comments, samples }: ParsedMetric): void {
  const known = merged.get(name) ?? { comments, combine: combineOf(name, type), samples: new Map<string, number>() };
  merged.set(name, known);
  for (const [id, value] of samples) {
    const before = known.samples.get(id);
    const combine = type === 'summary' && id.includes('quantile="') ? highest : known.combine;
    known.samples.set(id, before === undefined ? value : combine(before, value));
  }
}

/** The higher of two quantiles; those of a summary without values are not numbers. */
const highest: Combine = (a, b) => (Number.isNaN(a) ? b : Number.isNaN(b) ? a : Math.max(a, b));

const format = ({ comments, samples }: MergedMetric): string =>
  [...comments, ...[...samples].map(([id, value]) => `${id} ${textOf(value)}`)].join('\n');
