import { buildTrees } from '@oarlock/tracing/trace-tree';
import { useMemo, useState } from 'preact/hooks';
import { isApiError } from '../../../api/client.ts';
import { resourceOfKind } from '../../../api/resources.ts';
import { useApp } from '../../../app/context.ts';
import { useLoaded } from '../../../app/hooks.ts';
import { link } from '../../../app/router.ts';
import { ErrorMessage } from '../../../components/error-message.tsx';
import { TraceLink, type Event } from '../../../components/event-list.tsx';
import { text } from '../../../text/en.ts';
import type { TabProps } from '../object-page.tsx';
import { traceOf } from './trace-rows.ts';
import { tracedObject, tracesPath, type TraceResponse } from './traced-object.ts';
import { TraceView } from './trace-view.tsx';

/** The steps between the latest write of the object and its effects: who waited for whom, and which chain of steps ended last. */
export function TraceTab({ resource, object }: TabProps) {
  const { client } = useApp();
  const [onlyCritical, setOnlyCritical] = useState(false);
  const { resourceVersion } = object.metadata;
  const about = tracedObject(resource, object.metadata);
  // the object is watched: a change of it loads its traces again
  const { value, error, isLoading, reload } = useLoaded(`${about} ${resourceVersion}`, (signal) =>
    client.json<TraceResponse>(tracesPath, { query: { object: about }, signal }),
  );
  const traces = useMemo(() => buildTrees(value?.spans ?? []).map(traceOf), [value]);
  const cause = object.kind === 'Event' ? <TraceOfCause event={object as Event} /> : null;
  if (isApiError(error, 404)) return <p class="empty">{text.trace.notServed}</p>;
  if (error !== undefined) return <ErrorMessage error={error} onRetry={reload} />;
  if (traces.length === 0)
    return (
      <p class="empty" role="status">
        {isLoading ? text.connection.connecting : text.trace.empty}
      </p>
    );
  return (
    <div class="tab-body">
      {cause}
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

/** A link from the page of an event, whose own trace is only its write, to the trace of the object that it is about. */
function TraceOfCause({ event }: { readonly event: Event }) {
  const { resources } = useApp();
  const { apiVersion = '', kind = '', namespace, name = '' } = event.involvedObject ?? {};
  const known = resourceOfKind(resources, apiVersion, kind);
  if (known === undefined) return null;
  const about = tracedObject(known, { namespace: known.namespaced ? namespace : undefined, name });
  return (
    <p>
      <TraceLink object={about} event={event}>
        {text.events.traceOf(about)}
      </TraceLink>
    </p>
  );
}
