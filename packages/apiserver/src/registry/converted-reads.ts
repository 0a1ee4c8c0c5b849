import { escapeFieldValue, parseFieldSelector, predicatesByField, type FieldSelector } from '@oarlock/api/selectors/field-selector';
import type { KubeObject } from '@oarlock/api/object';
import type { EncodedObject, WatchFrame, WatchFrames } from '../endpoints/request/response.ts';
import type { ServedKind } from './served-kind.ts';
import { withMetadata } from './strategy.ts';
import { Item, DerivedObject } from '../watch-cache/item.ts';
import { SharedWatchFrame } from '../watch-cache/watch-cache-event.ts';
import type { Watcher } from '../watch-cache/watcher.ts';

/**
 * The field selector of a custom resource whose versions a webhook converts, split into the part on metadata, which stored objects can answer, and
 * the part that only converted objects can answer.
 */
export interface SplitFieldSelector {
  readonly stored: FieldSelector;
  matches(object: KubeObject): boolean;
}

/** Splits a field selector; returns undefined if stored objects can answer all of it. */
export function splitFieldSelector(
  { customResource: custom, fields: readers }: ServedKind,
  fields: FieldSelector,
): SplitFieldSelector | undefined {
  if (custom?.convertsByWebhook !== true) return undefined;
  const isMeta = (field: string) => field.startsWith('metadata.');
  const own = fields.requirements.filter(({ field }) => isMeta(field));
  const others = fields.requirements.filter(({ field }) => !isMeta(field));
  if (others.length === 0) return undefined;
  const text = own.map(({ field, operator, value }) => `${field}${operator}${escapeFieldValue(value)}`).join(',');
  const predicates = [...predicatesByField(others)];
  return {
    stored: parseFieldSelector(text),
    matches: (object) => predicates.every(([field, allows]) => allows(readers[field]?.(object) ?? '')),
  };
}

/** A read of a kind whose versions a conversion webhook converts. */
export interface ConvertedRead {
  readonly kind: ServedKind;
  readonly signal: AbortSignal | undefined;
}

/** A watch of a kind whose versions a conversion webhook converts. */
export interface ConvertedWatch extends ConvertedRead {
  /** The part of the field selector that only converted objects can answer; undefined if there is none. */
  readonly split: SplitFieldSelector | undefined;
  /** The items that existed when the watch began and that are not part of its initial events. */
  readonly before: readonly Item[];
}

/** Returns the items whose converted objects match the selector. */
export async function filterConverted(
  { kind, signal }: ConvertedRead,
  split: SplitFieldSelector,
  items: readonly Item[],
): Promise<readonly Item[]> {
  await kind.customResource?.prepareConversion(items, signal);
  return items.filter((item) => split.matches(convertedItem(kind, item).object));
}

const convertedItem = ({ toServedItem: viewer }: ServedKind, item: Item): EncodedObject => (viewer === undefined ? item : viewer(item));

/**
 * Converts the events of a watch to the served version, batch by batch.
 *
 * If `split` is set, yields only events of matching objects, with the event type that a watcher of the converted objects sees.
 */
export function convertWatch(watcher: Watcher, watch: ConvertedWatch): WatchFrames {
  return {
    onTerminated: (listener) => watcher.onTerminated(listener),
    [Symbol.asyncIterator]() {
      const batches = batchesOf(watcher, watch);
      return {
        next: () => batches.next(),
        // ends a concurrent read from the watcher too
        async return() {
          await watcher.return();
          return batches.return(undefined);
        },
      };
    },
  };
}

async function* batchesOf(watcher: Watcher, watch: ConvertedWatch): AsyncGenerator<readonly WatchFrame[]> {
  const { kind, split, before, signal } = watch;
  const known = new Map<string, EncodedObject>();
  if (split !== undefined) for (const item of await filterConverted(watch, split, before)) known.set(item.key, convertedItem(kind, item));
  for await (const batch of watcher) {
    const items = batch.flatMap(({ item }) => (item instanceof Item ? [item] : []));
    await kind.customResource?.prepareConversion(items, signal);
    const convertedFrames = batch.flatMap((frame) => frameOf(watch, frame, known) ?? []);
    if (convertedFrames.length > 0) yield convertedFrames;
  }
}

function frameOf({ kind, split }: ConvertedWatch, frame: WatchFrame, known: Map<string, EncodedObject>): WatchFrame | undefined {
  const { type, item, spanContext } = frame;
  if (!(item instanceof Item)) return frame;
  const view = convertedItem(kind, item);
  if (split === undefined) return view === item ? frame : new SharedWatchFrame(type, view, spanContext);
  const last = known.get(item.key);
  if (type !== 'DELETED' && split.matches(view.object)) {
    known.set(item.key, view);
    return new SharedWatchFrame(last === undefined ? 'ADDED' : 'MODIFIED', view, spanContext);
  }
  if (last === undefined) return undefined;
  known.delete(item.key);
  const gone = withMetadata(last.object, { resourceVersion: String(item.revision) });
  return new SharedWatchFrame('DELETED', new DerivedObject(gone, item.revision), spanContext);
}
