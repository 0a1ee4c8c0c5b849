import { useObjects } from '../../app/hooks.ts';
import { EventList, newestEvents, type Event } from '../../components/event-list.tsx';
import { absenceText } from '../../components/store-state.ts';
import { text } from '../../text/en.ts';
import type { TabProps } from './object-page.tsx';
import { useOwnedObjects, type OwnedNode } from './owned-objects.ts';

/** The events of the namespace that are followed for those of owned objects. */
const maxEvents = 2_000;
/** The events of owned objects that are shown: those of the object itself are shown in any case. */
const shownOfOwned = 200;

const uidsOf = (tree: readonly OwnedNode[]): readonly string[] => tree.flatMap(({ object, children }) => [object.metadata.uid, ...uidsOf(children)]);

/** The events of the object and of the objects that it owns, in the order of their time. */
export function EventsTab({ object }: Pick<TabProps, 'object'>) {
  const { tree } = useOwnedObjects(object);
  const { namespace = '', uid } = object.metadata;
  const path = `/api/v1${namespace === '' ? '' : `/namespaces/${encodeURIComponent(namespace)}`}/events`;
  const owned = new Set(uidsOf(tree));
  const own = useObjects<Event>(path, { fieldSelector: `involvedObject.uid=${uid}` });
  // one selector cannot name several objects: for owned objects, events of the namespace are followed
  const all = useObjects<Event>(owned.size === 0 ? '' : path, {}, { maxObjects: maxEvents });
  const ofOwned = all.items.filter(({ involvedObject }) => owned.has(involvedObject?.uid ?? ''));
  return (
    <>
      {all.items.length >= maxEvents && <p class="quiet-text">{text.events.cut(maxEvents)}</p>}
      <EventList events={[...own.items, ...newestEvents(ofOwned, shownOfOwned)]} limit={Infinity} empty={absenceText([own], text.events.empty)} />
    </>
  );
}
