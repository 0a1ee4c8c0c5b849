import { text } from '../../../text/en.ts';
import { totalWaitMs, type WaitTime } from '@oarlock/tracing/trace-tree';
import { AdmissionChanges } from './admission-changes.tsx';
import { attributesOf, formatMs, indentOf, type Trace, type TraceRow } from './trace-rows.ts';

export interface TraceViewProps {
  readonly trace: Trace;
  readonly onlyCritical: boolean;
  /** The time that the timeline shows, for traces on the same scale; by default that of the trace. */
  readonly scaleMs?: number;
}

/** The steps of one trace on a timeline. */
export function TraceView({ trace, onlyCritical, scaleMs = trace.totalMs }: TraceViewProps) {
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
                <Row key={row.span.spanId} row={row} totalMs={scaleMs} />
              ))}
          </tbody>
        </table>
      </div>
      {omitted > 0 && <p class="quiet-text">{text.trace.omitted(omitted)}</p>}
    </section>
  );
}

const waitText = ({ watchMs, idleMs, queueMs }: WaitTime): string =>
  idleMs > 0 ? text.trace.idle(formatMs(idleMs), formatMs(queueMs)) : text.trace.waited(formatMs(watchMs), formatMs(queueMs));

function Row({ row, totalMs }: { readonly row: TraceRow; readonly totalMs: number }) {
  const { span, depth, startMs, durationMs, wait, isCritical } = row;
  const waited = wait !== undefined && totalWaitMs(wait) > 0 ? waitText(wait) : '';
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
        <AdmissionChanges span={span} write={row.write} />
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
  const { startMs, durationMs, wait } = row;
  const waitMs = wait === undefined ? 0 : totalWaitMs(wait);
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
