import { useMemo } from 'preact/hooks';
import { errorText, isApiError, type ApiClient } from '../../api/client.ts';
import { useApp } from '../../app/context.ts';
import { useLoaded } from '../../app/hooks.ts';
import { link } from '../../app/router.ts';
import { ErrorMessage } from '../../components/error-message.tsx';
import { StatusDot } from '../../components/status-dot.tsx';
import { text } from '../../text/en.ts';
import { healthChecks, type HealthCheck } from '../overview/control-plane-card.tsx';
import type { ViewProps } from '../view-props.ts';
import { lanesOf, latencyOf, type Lane, type PlacedPlugin, type PluginHealth } from './composition.ts';
import { durationHistograms, type Histogram } from './metrics.ts';
import { PluginCard } from './plugin-card.tsx';
import { readReloadable, type Reloadable } from './plugin-reload.ts';
import { ReloadButton } from './reload-button.tsx';
import { ReloadChanges } from './reload-changes.tsx';

interface ProcessFacts {
  readonly plugins: readonly PlacedPlugin[];
  readonly health: readonly PluginHealth[];
  readonly checks: readonly HealthCheck[];
  readonly histograms: readonly Histogram[];
  readonly reloadable: Reloadable;
}

async function loadFacts(client: ApiClient, signal: AbortSignal): Promise<ProcessFacts> {
  const [{ plugins }, health, checks, metrics] = await Promise.all([
    client.json<{ readonly plugins: readonly PlacedPlugin[] }>('/oarlock/v1/composition', { signal }),
    client.json<{ readonly plugins: readonly PluginHealth[] }>('/oarlock/v1/plugins', { signal }),
    // a server that is not ready answers 500 with the same text
    client.text('/readyz', { query: { verbose: true }, signal }).catch((error: unknown) => {
      if (isApiError(error, 500)) return error.message;
      throw error;
    }),
    client.text('/metrics', { signal }).catch((error: unknown) => {
      if (isApiError(error, 403, 404)) return '';
      throw error;
    }),
  ]);
  const reloadable = await readReloadable(client, plugins, signal);
  return { plugins, reloadable, health: health.plugins, checks: healthChecks(checks), histograms: durationHistograms(metrics) };
}

/** The plugins of the API server's process by slot, in the order of the data flow, and one of them with its config, health and latency. */
export function View({ params }: ViewProps) {
  const { client } = useApp();
  const { value, error, isLoading, reload } = useLoaded('composition', (signal) => loadFacts(client, signal));
  const lanes = useMemo(() => lanesOf(value?.plugins ?? []), [value]);
  const plugin = value?.plugins.find(({ name, slot }) => name === params['name'] && slot.startsWith(`${params['slot'] ?? ''}/`));
  return (
    <section>
      <header class="view-head">
        <h1>{text.plugins.title}</h1>
        <button type="button" onClick={reload}>
          {text.trace.reload}
        </button>
      </header>
      <p class="quiet-text">{text.plugins.help}</p>
      {error !== undefined &&
        (isApiError(error, 404) ? <p class="empty">{text.plugins.notServed}</p> : <ErrorMessage error={errorText(error)} onRetry={reload} />)}
      {value === undefined && isLoading && <p role="status">{text.connection.connecting}</p>}
      {value !== undefined && (
        <>
          <Checks checks={value.checks} />
          {plugin !== undefined && (
            <PluginCard
              plugin={plugin}
              health={value.health.find(({ name }) => name === plugin.name)}
              latency={latencyOf(plugin, value.histograms)}
            >
              {value.reloadable.names.includes(plugin.name) && <ReloadButton key={plugin.name} name={plugin.name} onReload={reload} />}
              <ReloadChanges reload={value.reloadable.latest[plugin.name]} />
            </PluginCard>
          )}
          {lanes.map((lane) => (
            <LaneRow key={lane.id} lane={lane} health={value.health} selected={plugin} />
          ))}
        </>
      )}
    </section>
  );
}

function Checks({ checks }: { readonly checks: readonly HealthCheck[] }) {
  const failed = checks.filter(({ isOk }) => !isOk);
  return (
    <p role="status">
      <StatusDot health={failed.length === 0 ? 'ok' : 'error'} label={text.overview.checks(checks.length - failed.length, checks.length)} />{' '}
      {failed.map(({ name }) => name).join(', ')}
    </p>
  );
}

interface LaneRowProps {
  readonly lane: Lane;
  readonly health: readonly PluginHealth[];
  readonly selected: PlacedPlugin | undefined;
}

function LaneRow({ lane: { id, slots, isFlow }, health, selected }: LaneRowProps) {
  return (
    <section aria-label={text.plugins.lanes[id]}>
      <h2>{text.plugins.lanes[id]}</h2>
      <div class="lane">
        {slots.map(({ slot, plugins }, index) => (
          <div key={slot} class="lane-step">
            {isFlow && index > 0 && (
              <span class="lane-arrow" aria-hidden="true">
                →
              </span>
            )}
            <div class="slot">
              <h3>{slot}</h3>
              <ul class="plain">
                {plugins.map((plugin) => (
                  <li key={plugin.name}>
                    <PluginLink plugin={plugin} health={health} isSelected={plugin === selected} />
                  </li>
                ))}
              </ul>
            </div>
          </div>
        ))}
      </div>
    </section>
  );
}

function PluginLink({ plugin, health, isSelected }: { readonly plugin: PlacedPlugin; readonly health: readonly PluginHealth[]; readonly isSelected: boolean }) {
  const { name, slot } = plugin;
  const own = health.find((each) => each.name === name);
  const href = link(['plugins', slot.slice(0, slot.indexOf('/')), name]);
  return (
    <a href={href} {...(isSelected && { 'aria-current': 'true' as const })}>
      {own === undefined ? name : <StatusDot health={own.healthy ? 'ok' : 'error'} label={name} />}
    </a>
  );
}
