import { useObjects } from '../../app/hooks.ts';
import { EventList, type Event } from '../../components/event-list.tsx';
import type { TabProps } from './object-page.tsx';
import { useOwnedObjects, type OwnedNode } from './owned-objects.ts';

const uidsOf = (tree: readonly OwnedNode[]): readonly string[] => tree.flatMap(({ object, children }) => [object.metadata.uid, ...uidsOf(children)]);

/** The events of the object and of the objects that it owns, in the order of their time. */
export function EventsTab({ object }: Pick<TabProps, 'object'>) {
  const { tree } = useOwnedObjects(object);
  const { namespace = '', uid } = object.metadata;
  const scope = namespace === '' ? '' : `/namespaces/${encodeURIComponent(namespace)}`;
  const uids = new Set([uid, ...uidsOf(tree)]);
  // one selector cannot name several objects: with owned objects, all events of the namespace are followed
  const query = uids.size === 1 ? { fieldSelector: `involvedObject.uid=${uid}` } : undefined;
  const { items } = useObjects<Event>(`/api/v1${scope}/events`, query);
  return <EventList events={items.filter(({ involvedObject }) => uids.has(involvedObject?.uid ?? ''))} />;
}
