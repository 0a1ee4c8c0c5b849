import type { KubeObject } from '../api/client.ts';
import { resourceOfKind } from '../api/resources.ts';
import { useApp } from '../app/context.ts';
import { useClock } from '../app/hooks.ts';
import { objectLink } from '../app/links.ts';
import { link } from '../app/router.ts';
import { text } from '../text/en.ts';
import { tracedObject } from '../views/object/trace/traced-object.ts';
import { ageOf } from './age.ts';
import { StatusDot } from './status-dot.tsx';

export interface Event extends KubeObject {
  readonly type?: string;
  readonly reason?: string;
  readonly message?: string;
  readonly count?: number;
  readonly lastTimestamp?: string;
  readonly eventTime?: string;
  readonly series?: { readonly count?: number; readonly lastObservedTime?: string };
  readonly involvedObject?: { readonly apiVersion?: string; readonly kind?: string; readonly name?: string; readonly namespace?: string; readonly uid?: string };
  readonly source?: { readonly component?: string };
  readonly reportingComponent?: string;
}

export const timeOf = ({ series, lastTimestamp, eventTime, metadata }: Event): string =>
  series?.lastObservedTime ?? lastTimestamp ?? eventTime ?? metadata.creationTimestamp ?? '';

/** Returns the newest events, the newest first. */
export function newestEvents(events: readonly Event[], limit: number): readonly Event[] {
  return events
    .map((event) => ({ event, at: Date.parse(timeOf(event)) }))
    .sort((a, b) => b.at - a.at)
    .slice(0, limit)
    .map(({ event }) => event);
}

export interface EventListProps {
  readonly events: readonly Event[];
  readonly limit?: number;
  readonly empty?: string;
  readonly label?: string;
}

/** A link to the trace of the object's latest write before the event. */
export function TraceLink({ object, event, children }: { readonly object: string; readonly event: Event; readonly children?: string }) {
  return (
    <a href={link(['traces'], { object, at: timeOf(event) })} aria-label={text.events.traceOf(object)}>
      {children ?? text.events.trace}
    </a>
  );
}

/** Events, the newest first. */
export function EventList({ events, limit = 200, empty = text.events.empty, label = text.object.tabs.events }: EventListProps) {
  const { resources, features } = useApp();
  const now = useClock();
  const sorted = newestEvents(events, limit);
  if (sorted.length === 0) return <p class="empty">{empty}</p>;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table class="plain-table">
        <thead>
          <tr>
            <th scope="col">{text.events.age}</th>
            <th scope="col">{text.events.type}</th>
            <th scope="col">{text.events.reason}</th>
            <th scope="col">{text.events.object}</th>
            <th scope="col">{text.events.message}</th>
            {features.isOarlock && <th scope="col">{text.events.trace}</th>}
          </tr>
        </thead>
        <tbody>
          {sorted.map((event) => {
            const { kind = '', apiVersion = '', name = '', namespace } = event.involvedObject ?? {};
            const known = resourceOfKind(resources, apiVersion, kind);
            const count = event.series?.count ?? event.count ?? 1;
            return (
              <tr key={event.metadata.uid}>
                <td>{ageOf(timeOf(event), now)}</td>
                <td>
                  <StatusDot health={event.type === 'Warning' ? 'warning' : 'ok'} label={event.type ?? ''} />
                </td>
                <td>
                  {event.reason}
                  {count > 1 && ` ×${count}`}
                </td>
                <td>{known ? <a href={objectLink(known, { namespace: known.namespaced ? namespace : undefined, name })}>{`${kind} ${name}`}</a> : `${kind} ${name}`}</td>
                <td class="message">{event.message}</td>
                {features.isOarlock && <td>{known && <TraceLink object={tracedObject(known, { namespace: known.namespaced ? namespace : undefined, name })} event={event} />}</td>}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
