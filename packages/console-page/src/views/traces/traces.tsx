import { buildTrees } from '@oarlock/tracing/trace-tree';
import { isApiError, type ApiClient } from '../../api/client.ts';
import { useApp } from '../../app/context.ts';
import { useClock, useLoaded } from '../../app/hooks.ts';
import { link } from '../../app/router.ts';
import { duration } from '../../components/age.ts';
import { ErrorMessage } from '../../components/error-message.tsx';
import { StatusDot } from '../../components/status-dot.tsx';
import { text } from '../../text/en.ts';
import { formatMs, traceOf, type Trace } from '../object/trace/trace-rows.ts';
import { tracesPath, type TraceResponse } from '../object/trace/traced-object.ts';
import { TraceView } from '../object/trace/trace-view.tsx';
import type { ViewProps } from '../view-props.ts';
import { traceBefore } from './trace-before.ts';
import { compareTraces } from './compare-traces.ts';

interface Rollout {
  readonly traceId: string;
  readonly object: string;
  readonly user: string;
  readonly start: number;
  readonly durationMs: number;
  readonly failed: number;
}

const shownRollouts = 100;

const loadTrace = async (client: ApiClient, id: string, signal: AbortSignal): Promise<Trace | undefined> => {
  const { spans } = await client.json<TraceResponse>(tracesPath, { query: { trace: id }, signal });
  return buildTrees(spans).map(traceOf)[0];
};

/** The slowest of the latest rollouts, one trace, and two traces side by side. */
export function View({ query }: ViewProps) {
  const { a = '', b = '', object = '', at = '' } = query;
  return (
    <section>
      <header class="view-head">
        <h1>{text.traces.title}</h1>
      </header>
      {object !== '' && <TraceOfEvent object={object} at={at} />}
      {a !== '' && b === '' && <OneTrace id={a} />}
      {a !== '' && b !== '' && <Comparison a={a} b={b} />}
      <Rollouts a={a} b={b} />
    </section>
  );
}

function OneTrace({ id }: { readonly id: string }) {
  const { client } = useApp();
  const { value, error, isLoading } = useLoaded(id, (signal) => loadTrace(client, id, signal));
  if (error !== undefined) return <ErrorMessage error={error} />;
  if (value === undefined) return <p role="status">{isLoading ? text.connection.connecting : text.traces.gone}</p>;
  return <TraceView trace={value} onlyCritical={false} />;
}

/**
 * The trace to which an event belongs. An event does not name its cause: the latest recorded write of its object before the event is shown, with a text
 * that describes this choice.
 */
function TraceOfEvent({ object, at }: { readonly object: string; readonly at: string }) {
  const { client } = useApp();
  const { value, error, isLoading } = useLoaded(`${object} ${at}`, async (signal) => {
    const { about } = await client.json<TraceResponse>(tracesPath, { query: { object, writes: true }, signal });
    return traceBefore(about, at);
  });
  if (error !== undefined) return <ErrorMessage error={error} />;
  if (value === undefined) return <p role="status">{isLoading ? text.connection.connecting : text.trace.empty}</p>;
  return (
    <>
      <p>{at === '' ? text.traces.ofObject(object) : text.traces.beforeEvent(object, at)}</p>
      <OneTrace id={value} />
    </>
  );
}

function Comparison({ a, b }: { readonly a: string; readonly b: string }) {
  const { client } = useApp();
  const { value, error } = useLoaded(`${a} ${b}`, (signal) => Promise.all([loadTrace(client, a, signal), loadTrace(client, b, signal)]));
  if (error !== undefined) return <ErrorMessage error={error} />;
  if (value === undefined) return <p role="status">{text.connection.connecting}</p>;
  const [left, right] = value;
  if (left === undefined || right === undefined)
    return (
      <p class="empty" role="status">
        {text.traces.gone}
      </p>
    );
  const scaleMs = Math.max(left.totalMs, right.totalMs);
  return (
    <section aria-labelledby="comparison">
      <h2 id="comparison">{text.traces.comparison(formatMs(left.totalMs), formatMs(right.totalMs))}</h2>
      <Differences left={left} right={right} />
      <div class="columns side-by-side">
        {[left, right].map((trace, index) => (
          <div key={index}>
            <TraceView trace={trace} onlyCritical scaleMs={scaleMs} />
          </div>
        ))}
      </div>
    </section>
  );
}

const timeOf = (ms: number | undefined): string => (ms === undefined ? '–' : formatMs(ms));

function Differences({ left, right }: { readonly left: Trace; readonly right: Trace }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={text.traces.differences}>
      <table class="plain-table">
        <thead>
          <tr>
            <th scope="col">{text.trace.step}</th>
            <th scope="col">A</th>
            <th scope="col">B</th>
            <th scope="col">{text.traces.difference}</th>
          </tr>
        </thead>
        <tbody>
          {compareTraces(left, right).map(({ what, a, b, difference }) => (
            <tr key={what}>
              <th scope="row">{what}</th>
              <td>{timeOf(a)}</td>
              <td>{timeOf(b)}</td>
              <td>
                {difference > 0 ? '+' : '−'}
                {formatMs(Math.abs(difference))}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Rollouts({ a, b }: { readonly a: string; readonly b: string }) {
  const { client } = useApp();
  const now = useClock();
  const { value, error, reload } = useLoaded('rollouts', (signal) =>
    client.json<{ readonly rollouts: readonly Rollout[] }>(tracesPath, { query: { rollouts: shownRollouts }, signal }),
  );
  if (error !== undefined) return isApiError(error, 404) ? <p class="empty">{text.trace.notServed}</p> : <ErrorMessage error={error} onRetry={reload} />;
  const rollouts = value?.rollouts ?? [];
  return (
    <section aria-labelledby="rollouts">
      <h2 id="rollouts">{text.traces.slowest(shownRollouts)}</h2>
      <p class="quiet-text">{text.traces.help}</p>
      <div class="controls">
        <button type="button" onClick={reload}>
          {text.trace.reload}
        </button>
      </div>
      {value !== undefined && rollouts.length === 0 && <p class="empty">{text.traces.empty}</p>}
      {rollouts.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label={text.traces.slowest(shownRollouts)}>
          <table class="plain-table">
            <thead>
              <tr>
                <th scope="col">A</th>
                <th scope="col">B</th>
                <th scope="col">{text.trace.duration}</th>
                <th scope="col">{text.events.object}</th>
                <th scope="col">{text.traces.user}</th>
                <th scope="col">{text.object.created}</th>
                <th scope="col">{text.object.status}</th>
              </tr>
            </thead>
            <tbody>
              {rollouts.map((rollout) => (
                <RolloutRow key={rollout.traceId} rollout={rollout} a={a} b={b} now={now} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

interface RolloutRowProps {
  readonly rollout: Rollout;
  readonly a: string;
  readonly b: string;
  readonly now: number;
}

function RolloutRow({ rollout: { traceId, object, user, start, durationMs, failed }, a, b, now }: RolloutRowProps) {
  const choose = (side: 'a' | 'b') => {
    location.hash = link(['traces'], { a, b, [side]: traceId });
  };
  const choice = (side: 'a' | 'b', chosen: string) => (
    <td>
      <input
        type="radio"
        name={`trace-${side}`}
        aria-label={text.traces.choose(side.toUpperCase(), object)}
        checked={chosen === traceId}
        onChange={() => choose(side)}
      />
    </td>
  );
  return (
    <tr>
      {choice('a', a)}
      {choice('b', b)}
      <td>{formatMs(durationMs)}</td>
      <td class="message">{object}</td>
      <td>{user}</td>
      <td>{text.time.ago(duration(now - start))}</td>
      <td>
        <StatusDot health={failed === 0 ? 'ok' : 'error'} label={failed === 0 ? text.status.ok : text.traces.failed(failed)} />
      </td>
    </tr>
  );
}
