import { controlPlaneFigures, controlPlaneMetrics, controlPlaneMetricsPath, type ControlPlaneFigures } from '@oarlock/api/component-helpers/control-plane-figures';
import { samplesOf } from '@oarlock/primitives/prometheus-text';
import type { ComponentChildren } from 'preact';
import { isApiError, type ApiClient } from '../../api/client.ts';
import type { ConnectionState } from '../../api/watch.ts';
import { useApp } from '../../app/context.ts';
import { useLoaded, useObjects, useVisiblePeriods } from '../../app/hooks.ts';
import { ErrorMessage } from '../../components/error-message.tsx';
import { formatBytes } from '../../components/quantity.ts';
import { historyOf } from '../../components/sample-history.ts';
import { Sparkline } from '../../components/sparkline.tsx';
import { StatusDot } from '../../components/status-dot.tsx';
import { text } from '../../text/en.ts';
import { leadersOf, type Lease } from './leaders.ts';

export interface HealthCheck {
  readonly name: string;
  readonly isOk: boolean;
  readonly detail: string;
}

/** Parses the text of `/readyz?verbose`. */
export function healthChecks(verbose: string): readonly HealthCheck[] {
  return [...verbose.matchAll(/^\[([+-])\](\S+) (.*)$/gm)].map(([, sign, name = '', detail = '']) => ({ name, isOk: sign === '+', detail }));
}

const names = text.overview.figures;

/** The figures whose last hour is plotted. */
const plots = [
  { id: 'watches', name: names.watches, format: (value: number) => value.toLocaleString('en') },
  { id: 'requestsInFlight', name: names.requests, format: (value: number) => value.toLocaleString('en') },
  { id: 'storedObjects', name: names.stored, format: (value: number) => value.toLocaleString('en') },
  { id: 'storageBytes', name: names.storage, format: formatBytes },
] as const;

/** A plot of fewer samples shows nothing, and a line at the top of its box is hard to see. */
const minSamples = 3;
const headroom = 1.1;

/** The server offers no watch of its metrics. */
const samplePeriodMs = 60_000;

/** Reads the figures of the control plane; none where the user may not read them. */
async function readFigures(client: ApiClient, signal: AbortSignal): Promise<ControlPlaneFigures> {
  try {
    const metrics = await client.text(controlPlaneMetricsPath, { signal });
    const figures = controlPlaneFigures(samplesOf(metrics, (name) => controlPlaneMetrics.has(name)));
    for (const { id } of plots) {
      const value = figures[id];
      if (value !== undefined) historyOf(client).add(id, Date.now(), value);
    }
    return figures;
  } catch (error) {
    if (isApiError(error, 403, 404)) return {};
    throw error;
  }
}

/**
 * The health checks and figures of the API server. They are read when the connection changes, each minute while the page is visible, and on request: the server
 * offers no watch of them. Leaders are watched.
 */
export function ControlPlaneCard({ connection }: { readonly connection: ConnectionState }) {
  const { client, session } = useApp();
  const period = useVisiblePeriods(samplePeriodMs);
  const { value, error, reload } = useLoaded(`readyz ${connection} ${period}`, async (signal) => {
    const at = new Date().toLocaleTimeString('en');
    const figures = await readFigures(client, signal);
    try {
      return { at, figures, checks: healthChecks(await client.text('/readyz', { query: { verbose: true }, signal })) };
    } catch (failure) {
      // a server that is not ready answers 500 with the same text
      if (isApiError(failure, 500)) return { at, figures, checks: healthChecks(failure.message) };
      throw failure;
    }
  });
  const ok = value?.checks.filter(({ isOk }) => isOk).length ?? 0;
  const failed = value?.checks.filter(({ isOk }) => !isOk) ?? [];
  return (
    <section class="card broad" aria-labelledby="control-plane">
      <h2 id="control-plane">{text.overview.controlPlane}</h2>
      <p>{session.cluster?.version}</p>
      {error !== undefined && <ErrorMessage error={error} />}
      {value && (
        <>
          <p>
            <StatusDot health={failed.length === 0 ? 'ok' : 'error'} label={text.overview.checks(ok, value.checks.length)} />
          </p>
          <ul class="plain">
            {failed.map(({ name, detail }) => (
              <li key={name}>
                <StatusDot health="error" label={name} /> {detail}
              </li>
            ))}
          </ul>
          <Figures figures={value.figures} />
          <details>
            <summary>{text.overview.checkedAt(value.at)}</summary>
            <ul class="plain">
              {value.checks.map(({ name, isOk }) => (
                <li key={name}>
                  <StatusDot health={isOk ? 'ok' : 'error'} label={name} />
                </li>
              ))}
            </ul>
          </details>
        </>
      )}
      <p>
        <button type="button" onClick={reload}>
          {text.overview.check}
        </button>
      </p>
    </section>
  );
}

const leasesPath = '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases';
/** Leases of kube-system: those of components, and one for each API server. */
const maxLeases = 100;

function Figures({ figures }: { readonly figures: ControlPlaneFigures }) {
  const { client } = useApp();
  const leases = useObjects<Lease>(leasesPath, {}, { maxObjects: maxLeases });
  const queues = queuesOf(figures);
  return (
    <dl class="facts figures">
      {leadersOf(leases.items).map(({ component, holder }) => (
        <Fact key={component} name={names.leader(component)}>
          {holder}
        </Fact>
      ))}
      {plots.map(({ id, name, format }) => {
        const value = figures[id];
        if (value === undefined) return null;
        const samples = historyOf(client).of(id);
        const words = `${name}: ${format(value)}`;
        return (
          <Fact key={id} name={name}>
            {format(value)}
            {samples.length >= minSamples && <Sparkline samples={samples} max={headroom * Math.max(...samples.map((sample) => sample.value))} label={words} />}
          </Fact>
        );
      })}
      {queues !== undefined && (
        <Fact name={names.queues}>{queues.map(({ name, depth }) => `${name} ${depth.toLocaleString('en')}`).join(', ') || text.object.none}</Fact>
      )}
    </dl>
  );
}

function Fact({ name, children }: { readonly name: string; readonly children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** Returns the queues of the scheduler and of controllers that are not empty, the longest first; undefined where the server has no such metrics. */
function queuesOf({ pendingPods, queueDepths }: ControlPlaneFigures): readonly { readonly name: string; readonly depth: number }[] | undefined {
  if (pendingPods === undefined && queueDepths === undefined) return undefined;
  const pending = Object.entries(pendingPods ?? {}).map(([queue, depth]) => ({ name: `scheduler: ${queue}`, depth }));
  const keys = Object.entries(queueDepths ?? {}).map(([name, depth]) => ({ name, depth }));
  return [...pending, ...keys].filter(({ depth }) => depth > 0).toSorted((a, b) => b.depth - a.depth);
}
