import { escapeFieldValue, parseFieldSelector, type FieldSelector } from '@oarlock/api/field-selector';
import type { KubeObject } from '@oarlock/api/object';
import type { Encoded, WatchFrame } from '../response.ts';
import type { ServedKind } from '../served-kind.ts';
import { withMeta } from '../strategy/strategy.ts';
import { Frame, Item, View } from '../watch-cache/item.ts';
import type { Watcher } from '../watch-cache/watcher.ts';

/** A field selector of a kind that somebody else converts: what stored objects can be asked, and what only converted ones can. */
export interface SplitFields {
  readonly stored: FieldSelector;
  matches(object: KubeObject): boolean;
}

/** Undefined where stored objects can be asked everything. */
export function splitFields({ custom, fields: readers }: ServedKind, fields: FieldSelector): SplitFields | undefined {
  if (custom?.awaits !== true) return undefined;
  const isMeta = (field: string) => field.startsWith('metadata.');
  const own = fields.requirements.filter(({ field }) => isMeta(field));
  const others = fields.requirements.filter(({ field }) => !isMeta(field));
  if (others.length === 0) return undefined;
  const text = own.map(({ field, operator, value }) => `${field}${operator}${escapeFieldValue(value)}`).join(',');
  return {
    stored: parseFieldSelector(text),
    matches: (object) => others.every(({ field, operator, value }) => (readers[field]?.(object) === value) === (operator === '=')),
  };
}

/** Items whose converted objects match. */
export async function matching(
  kind: ServedKind,
  split: SplitFields,
  items: readonly Item[],
  signal: AbortSignal | undefined,
): Promise<readonly Item[]> {
  await kind.custom?.prepare(items, signal);
  return items.filter((item) => split.matches(viewOf(kind, item).object));
}

const viewOf = ({ viewer }: ServedKind, item: Item): Encoded => (viewer === undefined ? item : viewer(item));

/**
 * Frames of stored items, batch by batch in the version of the kind. With `split` only those of objects that match, each told as it looks
 * from there: `before` are the items that were there when the watch began and that it does not show itself.
 */
export function converted(
  kind: ServedKind,
  watcher: Watcher,
  split: SplitFields | undefined,
  before: readonly Item[],
  signal: AbortSignal | undefined,
): AsyncIterable<readonly WatchFrame[]> {
  return {
    [Symbol.asyncIterator]() {
      const batches = batchesOf(kind, watcher, split, before, signal);
      return {
        next: () => batches.next(),
        // whoever reads from the watcher meanwhile is told that it is over
        async return() {
          await watcher.return();
          return batches.return(undefined);
        },
      };
    },
  };
}

async function* batchesOf(
  kind: ServedKind,
  watcher: Watcher,
  split: SplitFields | undefined,
  before: readonly Item[],
  signal: AbortSignal | undefined,
): AsyncGenerator<readonly WatchFrame[]> {
  const known = new Map<string, Encoded>();
  if (split !== undefined) for (const item of await matching(kind, split, before, signal)) known.set(item.key, viewOf(kind, item));
  for await (const batch of watcher) {
    const items = batch.flatMap(({ item }) => (item instanceof Item ? [item] : []));
    await kind.custom?.prepare(items, signal);
    const shown = batch.flatMap((frame) => frameOf(kind, frame, split, known) ?? []);
    if (shown.length > 0) yield shown;
  }
}

function frameOf(kind: ServedKind, frame: WatchFrame, split: SplitFields | undefined, known: Map<string, Encoded>): WatchFrame | undefined {
  const { type, item, cause } = frame;
  if (!(item instanceof Item)) return frame;
  const view = viewOf(kind, item);
  if (split === undefined) return view === item ? frame : new Frame(type, view, cause);
  const last = known.get(item.key);
  if (type !== 'DELETED' && split.matches(view.object)) {
    known.set(item.key, view);
    return new Frame(last === undefined ? 'ADDED' : 'MODIFIED', view, cause);
  }
  if (last === undefined) return undefined;
  known.delete(item.key);
  const gone = withMeta(last.object, { resourceVersion: String(item.revision) });
  return new Frame('DELETED', new View(gone, item.revision), cause);
}
