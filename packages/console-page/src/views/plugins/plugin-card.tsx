import type { ComponentChildren } from 'preact';
import { StatusDot } from '../../components/status-dot.tsx';
import { toYaml } from '../../components/yaml-text.ts';
import { text } from '../../text/en.ts';
import { formatMs } from '../object/trace/trace-rows.ts';
import type { PlacedPlugin, PluginHealth, PluginLatency } from './composition.ts';
import { quantileMs, type Histogram } from './metrics.ts';

const { plugins: words } = text;

export interface PluginCardProps {
  readonly plugin: PlacedPlugin;
  /** Absent for plugins of Oarlock, whose faults end the process. */
  readonly health: PluginHealth | undefined;
  readonly latency: PluginLatency | undefined;
  readonly children?: ComponentChildren;
}

/** One plugin: what it consumes, its config without secrets, health, faults and latency. */
export function PluginCard({ plugin, health, latency, children }: PluginCardProps) {
  const { name, id, slot, needs, config } = plugin;
  const faults = Object.entries(health?.faults ?? {}).filter(([, count]) => count > 0);
  return (
    <section class="card" aria-labelledby="plugin-name">
      <h2 id="plugin-name">{name}</h2>
      {children}
      <div class="columns">
        <div>
          <dl class="facts">
            <div>
              <dt>{words.id}</dt>
              <dd>{id}</dd>
            </div>
            <div>
              <dt>{words.slot}</dt>
              <dd>{slot}</dd>
            </div>
            <div>
              <dt>{words.needs}</dt>
              <dd>{needs.length === 0 ? text.object.none : needs.join(', ')}</dd>
            </div>
            <div>
              <dt>{words.health}</dt>
              <dd>{health === undefined ? words.own : <Health health={health} />}</dd>
            </div>
            <div>
              <dt>{words.faults}</dt>
              <dd>{faults.length === 0 ? text.object.none : faults.map(([kind, count]) => `${kind}: ${count.toLocaleString('en')}`).join(', ')}</dd>
            </div>
          </dl>
          <h3>{words.latency}</h3>
          {latency === undefined || latency.histogram.count === 0 ? (
            <p class="quiet-text">{words.noLatency}</p>
          ) : (
            <Latency histogram={latency.histogram} isShared={latency.isShared} />
          )}
        </div>
        <div>
          <h3>{words.config}</h3>
          <pre class="config" tabIndex={0} role="region" aria-label={words.config}>
            {toYaml(config)}
          </pre>
        </div>
      </div>
    </section>
  );
}

function Health({ health: { healthy, suspended, reason } }: { readonly health: PluginHealth }) {
  if (healthy) return <StatusDot health="ok" label={words.healthy} />;
  return <StatusDot health="error" label={`${suspended ? words.suspended : words.unhealthy}: ${reason ?? ''}`} />;
}

const boxHeight = 60;
const barWidth = 12;

function Latency({ histogram, isShared }: PluginLatency) {
  const { name, buckets, count, sum } = histogram;
  const counts = buckets.map(([bound, cumulative], index) => ({ bound, count: cumulative - (buckets[index - 1]?.[1] ?? 0) }));
  const most = Math.max(1, ...counts.map((each) => each.count));
  const quantiles = ([0.5, 0.9, 0.99] as const).map((quantile) => `p${quantile * 100} ≤ ${boundText(quantileMs(histogram, quantile))}`);
  const summary = `${words.observations(count)} · ${words.mean(formatMs((sum / count) * 1000))} · ${quantiles.join(' · ')}`;
  return (
    <>
      <p>
        <code>{name}</code> {isShared && <span class="quiet-text">{words.shared}</span>}
      </p>
      <svg class="histogram" viewBox={`0 0 ${counts.length * barWidth} ${boxHeight}`} preserveAspectRatio="none" role="img" aria-label={summary}>
        {counts.map((each, index) => {
          const height = (each.count / most) * boxHeight;
          return (
            <rect key={each.bound} x={index * barWidth} y={boxHeight - height} width={barWidth - 1} height={height}>
              <title>{`≤ ${boundText(each.bound * 1000)}: ${each.count.toLocaleString('en')}`}</title>
            </rect>
          );
        })}
      </svg>
      <p class="quiet-text">{summary}</p>
    </>
  );
}

const boundText = (ms: Histogram['sum'] | undefined): string => (ms === undefined || !Number.isFinite(ms) ? '∞' : formatMs(ms));
