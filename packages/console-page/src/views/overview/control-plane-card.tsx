import { isApiError } from '../../api/client.ts';
import type { ConnectionState } from '../../api/watch.ts';
import { useApp } from '../../app/context.ts';
import { useLoaded } from '../../app/hooks.ts';
import { ErrorMessage } from '../../components/error-message.tsx';
import { StatusDot } from '../../components/status-dot.tsx';
import { text } from '../../text/en.ts';

export interface HealthCheck {
  readonly name: string;
  readonly isOk: boolean;
  readonly detail: string;
}

/** Parses the text of `/readyz?verbose`. */
export function healthChecks(verbose: string): readonly HealthCheck[] {
  return [...verbose.matchAll(/^\[([+-])\](\S+) (.*)$/gm)].map(([, sign, name = '', detail = '']) => ({ name, isOk: sign === '+', detail }));
}

/** The health checks of the API server. They are read when the connection changes, and on request: the server offers no watch of them. */
export function ControlPlaneCard({ connection }: { readonly connection: ConnectionState }) {
  const { client, session } = useApp();
  const { value, error, reload } = useLoaded(`readyz ${connection}`, async (signal) => {
    const at = new Date().toLocaleTimeString('en');
    try {
      return { at, checks: healthChecks(await client.text('/readyz', { query: { verbose: true }, signal })) };
    } catch (failure) {
      // a server that is not ready answers 500 with the same text
      if (isApiError(failure, 500)) return { at, checks: healthChecks(failure.message) };
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
