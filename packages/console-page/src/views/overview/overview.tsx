import type { KubeObject } from '../../api/client.ts';
import { useApp } from '../../app/context.ts';
import { useLoaded, useObjects } from '../../app/hooks.ts';
import { tableLink } from '../../app/links.ts';
import { Connection } from '../../components/connection.tsx';
import { EventList, type Event } from '../../components/event-list.tsx';
import { absenceText } from '../../components/store-state.ts';
import { StatusDot } from '../../components/status-dot.tsx';
import { text } from '../../text/en.ts';
import { CapacityCard } from './capacity-card.tsx';
import { ControlPlaneCard } from './control-plane-card.tsx';
import { loadServerHistory } from './server-history.ts';
import { nodeCounts, type Node } from './nodes.ts';
import { WorkloadsCard } from './workloads-card.tsx';

/** The number of events that are followed: the newest that the server lists first are enough for an overview. */
const maxEvents = 500;

/** The state of the cluster on one page. Only bounded collections are followed, so that it is as fast with 30,000 pods. */
export function View() {
  const { client } = useApp();
  // renders the plots again when it has loaded; a failure leaves those of the page
  useLoaded('history', (signal) => loadServerHistory(client, { signal }));
  const nodes = useObjects<Node>('/api/v1/nodes');
  const warnings = useObjects<Event>('/api/v1/events', { fieldSelector: 'type=Warning' }, { maxObjects: maxEvents });
  const events = useObjects<Event>('/api/v1/events', {}, { maxObjects: maxEvents });
  const absence = absenceText([nodes], '');
  return (
    <section>
      <header class="view-head">
        <h1>{text.overview.title}</h1>
        <Connection state={nodes.state} reason={nodes.reason} />
      </header>
      <div class="cards">
        <NodesCard nodes={nodes.items} absence={absence} />
        <WorkloadsCard />
        <CapacityCard nodes={nodes.items} absence={absence} />
        <ControlPlaneCard connection={nodes.state} />
        <EventsCard id="warnings" title={text.overview.warnings} events={warnings.items} limit={20} empty={absenceText([warnings], text.overview.noWarnings)} />
        <EventsCard id="changes" title={text.overview.changes} events={events.items} limit={30} empty={absenceText([events], text.overview.noEvents)} />
      </div>
    </section>
  );
}

const nodesResource = { group: '', version: 'v1', resource: 'nodes' };

function NodesCard({ nodes, absence }: { readonly nodes: readonly Node[]; readonly absence: string }) {
  const { ready, notReady, cordoned } = nodeCounts(nodes);
  return (
    <section class="card" aria-labelledby="nodes">
      <h2 id="nodes">
        <a href={tableLink(nodesResource)}>
          {text.overview.nodes} {absence === '' && `(${nodes.length})`}
        </a>
      </h2>
      <ul class="plain">
        <li>
          {absence === '' ? <StatusDot health="ok" label={`${text.overview.ready}: ${ready}`} /> : absence}
        </li>
        {notReady.length > 0 && (
          <li>
            <StatusDot health="error" label={`${text.overview.notReady}: ${names(notReady)}`} />
          </li>
        )}
        {cordoned.length > 0 && (
          <li>
            <StatusDot health="warning" label={`${text.overview.unschedulable}: ${names(cordoned)}`} />
          </li>
        )}
      </ul>
    </section>
  );
}

const shownNames = 10;
const names = (objects: readonly KubeObject[]): string => {
  const first = objects.slice(0, shownNames).map(({ metadata: { name } }) => name);
  return `${objects.length} (${first.join(', ')}${objects.length > shownNames ? ', …' : ''})`;
};

interface EventsCardProps {
  readonly id: string;
  readonly title: string;
  readonly events: readonly Event[];
  readonly limit: number;
  readonly empty: string;
}
function EventsCard({ id, title, events, limit, empty }: EventsCardProps) {
  return (
    <section class="card broad" aria-labelledby={id}>
      <h2 id={id}>{title}</h2>
      <EventList events={events} limit={limit} empty={empty} label={title} />
    </section>
  );
}
