import { buildTrees, type TreeNode } from '@oarlock/tracing/trace-tree';
import { useMemo, useState } from 'preact/hooks';
import { errorText, isApiError } from '../../../api/client.ts';
import { useApp } from '../../../app/context.ts';
import { useLoaded } from '../../../app/hooks.ts';
import { text } from '../../../text/en.ts';
import type { TabProps } from '../object-page.tsx';
import { attributesOf, formatMs, traceOf, type Trace, type TraceRow } from './trace-rows.ts';

interface TraceResponse {
  readonly spans: readonly TreeNode['span'][];
}

/** The steps between the latest write of the object and its effects: who waited for whom, and which chain of steps ended last. */
export function TraceTab({ resource, object }: TabProps) {
  const { client } = useApp();
  const [onlyCritical, setOnlyCritical] = useState(false);
  const { group, resource: plural } = resource;
  const { namespace, name, resourceVersion } = object.metadata;
  const about = [group === '' ? plural : `${plural}.${group}`, ...(namespace === undefined ? [] : [namespace]), name].join('/');
  // the object is watched: a change of it loads its traces again
  const { value, error, isLoading, reload } = useLoaded(`${about} ${resourceVersion}`, (signal) =>
    client.json<TraceResponse>('/oarlock/v1/traces', { query: { object: about }, signal }),
  );
  const traces = useMemo(() => buildTrees(value?.spans ?? []).map(traceOf), [value]);
  if (error !== undefined)
    return <p class="empty">{isApiError(error, 404) ? text.trace.notServed : `${text.trace.notServed} ${errorText(error)}`}</p>;
  if (traces.length === 0)
    return (
      <p class="empty" role="status">
        {isLoading ? text.connection.connecting : text.trace.empty}
      </p>
    );
  return (
    <div class="tab-body">
      <div class="controls">
        <label class="check">
          <input type="checkbox" checked={onlyCritical} onChange={() => setOnlyCritical(!onlyCritical)} />
          {text.trace.onlyCritical}
        </label>
        <button type="button" onClick={reload}>
          {text.trace.reload}
        </button>
      </div>
      {traces.map((trace) => (
        <TraceView key={trace.root.spanId} trace={trace} onlyCritical={onlyCritical} />
      ))}
    </div>
  );
}

function TraceView({ trace, onlyCritical }: { readonly trace: Trace; readonly onlyCritical: boolean }) {
  const { root, rows, totalMs, criticalSteps, omitted } = trace;
  return (
    <section aria-label={root.name}>
      <h2>{text.trace.title(root.name, formatMs(totalMs))}</h2>
      <p class="quiet-text">
        {text.trace.criticalPath}: {criticalSteps.map(({ what, ms }) => `${what} ${formatMs(ms)}`).join(' → ')}
      </p>
      <div class="scroll" tabIndex={0} role="region" aria-label={text.trace.steps}>
        <table class="plain-table trace">
          <thead>
            <tr>
              <th scope="col">{text.trace.step}</th>
              <th scope="col">{text.trace.start}</th>
              <th scope="col">{text.trace.duration}</th>
              <th scope="col">{text.trace.timeline}</th>
              <th scope="col">{text.trace.details}</th>
            </tr>
          </thead>
          <tbody>
            {rows
              .filter(({ isCritical, span }) => !onlyCritical || isCritical || span.error !== undefined)
              .map((row) => (
                <Row key={row.span.spanId} row={row} totalMs={totalMs} />
              ))}
          </tbody>
        </table>
      </div>
      {omitted > 0 && <p class="quiet-text">{text.trace.omitted(omitted)}</p>}
    </section>
  );
}

/** The indent of a level in no-break spaces: the content security policy of the page allows no inline styles. */
const indentOf = (depth: number): string => '\u00A0\u00A0'.repeat(depth);

function Row({ row, totalMs }: { readonly row: TraceRow; readonly totalMs: number }) {
  const { span, depth, startMs, durationMs, watchMs, queueMs, isCritical } = row;
  const waited = watchMs + queueMs > 0 ? text.trace.waited(formatMs(watchMs), formatMs(queueMs)) : '';
  return (
    <tr class={isCritical ? 'critical' : undefined}>
      <th scope="row">
        {indentOf(depth)}
        {isCritical ? <strong>{span.name}</strong> : span.name}
        {isCritical && <span class="visually-hidden"> ({text.trace.onCriticalPath})</span>}
      </th>
      <td>+{formatMs(startMs)}</td>
      <td>{formatMs(durationMs)}</td>
      <td>
        <Bar row={row} totalMs={totalMs} />
      </td>
      <td class="message">
        {attributesOf(span)} {waited !== '' && <span class="quiet-text">{waited}</span>}
        {span.error !== undefined && <div class="status-error">{span.error}</div>}
      </td>
    </tr>
  );
}

const barWidth = 1000;
/** A span of a microsecond is visible, too. */
const minWidth = 4;

function Bar({ row, totalMs }: { readonly row: TraceRow; readonly totalMs: number }) {
  const scale = barWidth / Math.max(totalMs, 0.001);
  const { startMs, durationMs, watchMs, queueMs } = row;
  const waitMs = watchMs + queueMs;
  return (
    <svg class="bar" viewBox={`0 0 ${barWidth} 10`} preserveAspectRatio="none" aria-hidden="true">
      <rect class="bar-wait" x={(startMs - waitMs) * scale} y="4" width={waitMs * scale} height="2" />
      <rect
        class={row.span.error === undefined ? 'bar-work' : 'bar-error'}
        x={Math.min(startMs * scale, barWidth - minWidth)}
        y="1"
        width={Math.max(durationMs * scale, minWidth)}
        height="8"
      />
    </svg>
  );
}
