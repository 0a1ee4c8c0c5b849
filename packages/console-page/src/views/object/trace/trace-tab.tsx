import { buildTrees, type TreeNode } from '@oarlock/tracing/trace-tree';
import { useMemo, useState } from 'preact/hooks';
import { errorText, isApiError } from '../../../api/client.ts';
import { useApp } from '../../../app/context.ts';
import { useLoaded } from '../../../app/hooks.ts';
import { link } from '../../../app/router.ts';
import { text } from '../../../text/en.ts';
import type { TabProps } from '../object-page.tsx';
import { traceOf } from './trace-rows.ts';
import { TraceView } from './trace-view.tsx';

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
        <div key={trace.root.spanId}>
          <TraceView trace={trace} onlyCritical={onlyCritical} />
          <p>
            <a href={link(['traces'], { a: trace.root.traceId })}>{text.trace.compare}</a>
          </p>
        </div>
      ))}
    </div>
  );
}
