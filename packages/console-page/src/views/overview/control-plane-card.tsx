import { isApiError, type ApiClient } from '../../api/client.ts';
import type { ConnectionState } from '../../api/watch.ts';
import { useApp } from '../../app/context.ts';
import { useLoaded, useObjects } from '../../app/hooks.ts';
import { ErrorMessage } from '../../components/error-message.tsx';
import { StatusDot } from '../../components/status-dot.tsx';
import { text } from '../../text/en.ts';
import { controlPlaneFigures, leadersOf, type ControlPlaneFigures, type Lease } from './control-plane-figures.ts';

export interface HealthCheck {
  readonly name: string;
  readonly isOk: boolean;
  readonly detail: string;
}

/** Parses the text of `/readyz?verbose`. */
export function healthChecks(verbose: string): readonly HealthCheck[] {
  return [...verbose.matchAll(/^\[([+-])\](\S+) (.*)$/gm)].map(([, sign, name = '', detail = '']) => ({ name, isOk: sign === '+', detail }));
}

/** Reads the figures of the control plane; none where the user may not read them. */
async function readFigures(client: ApiClient, signal: AbortSignal): Promise<ControlPlaneFigures> {
  try {
    return controlPlaneFigures(await client.text('/metrics', { signal }));
  } catch (error) {
    if (isApiError(error, 403, 404)) return {};
    throw error;
  }
}

/**
 * The health checks and figures of the API server. They are read when the connection changes, and on request: the server offers no watch of them. Leaders are
 * watched.
 */
export function ControlPlaneCard({ connection }: { readonly connection: ConnectionState }) {
  const { client, session } = useApp();
  const { value, error, reload } = useLoaded(`readyz ${connection}`, async (signal) => {
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
    <section class="card" aria-labelledby="control-plane">
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

function Figures({ figures: { watches, requestsInFlight, storedObjects, queues } }: { readonly figures: ControlPlaneFigures }) {
  const leases = useObjects<Lease>(leasesPath, {}, { maxObjects: maxLeases });
  const names = text.overview.figures;
  const facts = [
    ...leadersOf(leases.items).map(({ component, holder }) => [names.leader(component), holder] as const),
    [names.watches, watches] as const,
    [names.requests, requestsInFlight] as const,
    [names.queues, queues && (queues.map(({ name, depth }) => `${name} ${depth}`).join(', ') || text.object.none)] as const,
    [names.stored, storedObjects] as const,
  ].filter(([, value]) => value !== undefined);
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{typeof value === 'number' ? value.toLocaleString('en') : value}</dd>
        </div>
      ))}
    </dl>
  );
}
