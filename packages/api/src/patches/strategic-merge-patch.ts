import { isObject, own, safeKey, type MutableObject } from '../json/json.ts';
import { mergeInOrder, sortByOrder } from './strategic-merge-order.ts';
import type { Schema } from '../schema/schema.ts';
import { goText, goTypeOf } from '../json/go-print.ts';
import { badRequest, failure } from '../status.ts';

type Fields = Readonly<Record<string, unknown>>;

const deletePrefix = '$deleteFromPrimitiveList/';
const orderPrefix = '$setElementOrder/';
const isDirective = (key: string) =>
  key === '$patch' || key === '$retainKeys' || key.startsWith(deletePrefix) || key.startsWith(orderPrefix);

/** Returns the error for a value of the wrong type, with the name of its Go type. */
const badType = (expected: string, value: unknown) => badRequest(`expected a ${expected}, but received a ${goTypeText(value)}`);
const goTypeText = (value: unknown) => (value === null || value === undefined ? '%!s(<nil>)' : goTypeOf(value));
const listType = '[]interface {}';
const mapType = 'map[string]interface {}';
const noMergeKey = (item: Fields, mergeKey: string) => badRequest(`map: ${goText(item)} does not contain declared merge key: ${mergeKey}`);

/**
 * Applies a strategic merge patch: lists with patch strategy `merge` merge by their merge key, or as sets if they hold scalars; the directives
 * `$patch`, `$retainKeys`, `$deleteFromPrimitiveList/` and `$setElementOrder/` are applied and never stored. Does not change its arguments.
 * New list items precede those that only the object has, as in apimachinery.
 * @throws StatusError BadRequest (Invalid for lists of lists) for a malformed patch.
 */
export function applyStrategicMergePatch(object: Fields, patch: unknown, schema: Schema): Fields {
  if (!isObject(patch)) throw badRequest('invalid JSON document');
  return mergeMap(object, patch, schema);
}

function mergeMap(original: Fields, patch: Fields, schema: Schema | undefined): Fields {
  const directive = own(patch, '$patch');
  if (directive !== undefined && directive !== 'merge') {
    if (directive === 'delete') return {};
    if (directive !== 'replace') throw badRequest(`unknown patch type: ${String(directive)} in map: ${goText(patch)}`);
    const { $patch: _, ...rest } = patch;
    return rest;
  }
  const result: MutableObject = retainKeys(original, patch);
  for (const key of Object.keys(patch)) {
    if (key === '$patch' || key === '$retainKeys') continue;
    if (key.startsWith(orderPrefix)) {
      mergeOrdered(result, patch, key, schema);
      continue;
    }
    const deletes = key.startsWith(deletePrefix);
    const field = safeKey(deletes ? key.slice(deletePrefix.length) : key);
    // A list with $setElementOrder is merged once, when its order is applied.
    if (!deletes && Object.hasOwn(patch, orderPrefix + field) && Array.isArray(patch[key])) continue;
    const value = patch[key];
    if (value === null) {
      delete result[field];
      continue;
    }
    const current = own(result, field);
    if (deletes) {
      if (Array.isArray(current)) result[field] = removeValues(current, value);
    } else result[field] = mergeValue(current, value, fieldSchema(schema, field));
  }
  return result;
}

function fieldSchema(schema: Schema | undefined, field: string): Schema | undefined {
  return schema?.properties?.get(field) ?? schema?.additionalProperties;
}

function mergeValue(current: unknown, value: unknown, schema: Schema | undefined): unknown {
  if (isObject(current) && isObject(value)) {
    return schema?.patchStrategy?.includes('replace') === true ? clean(value) : mergeMap(current, value, schema);
  }
  if (Array.isArray(current) && Array.isArray(value)) {
    return schema?.patchStrategy?.includes('merge') === true ? mergeList(current, value, schema) : value;
  }
  return clean(value);
}

/** Returns a value without directives and nulls: what is stored if there was nothing to merge with. */
function clean(value: unknown): unknown {
  if (Array.isArray(value))
    return value.filter((item) => !(isObject(item) && Object.hasOwn(item, '$patch') && item['$patch'] !== 'merge')).map(clean);
  if (!isObject(value)) return value;
  const result: MutableObject = {};
  for (const key of Object.keys(value)) {
    if (!isDirective(key) && value[key] !== null) result[safeKey(key)] = clean(value[key]);
  }
  return result;
}

function retainKeys(original: Fields, patch: Fields): MutableObject {
  const list = own(patch, '$retainKeys');
  if (list === undefined) return { ...original };
  const bad = () => badRequest('invalid patch format of retainKeys');
  if (!Array.isArray(list)) throw bad();
  const kept = new Set<unknown>(list);
  for (const key of Object.keys(patch)) {
    if (!isDirective(key) && patch[key] !== null && !kept.has(key)) throw bad();
  }
  return Object.fromEntries(Object.entries(original).filter(([key]) => kept.has(key)));
}

function removeValues(current: readonly unknown[], value: unknown): unknown[] {
  if (!Array.isArray(value)) throw badRequest('invalid patch format of primitive list');
  const gone = new Set<unknown>(value);
  return current.filter((item) => !gone.has(item));
}

function mergeList(original: readonly unknown[], patch: readonly unknown[], schema: Schema): unknown[] {
  const { merged, wanted, mergeKey } = mergeItems(original, patch, schema);
  return arrange(merged, wanted, original, mergeKey);
}

interface MergedItems {
  readonly merged: readonly unknown[];
  readonly wanted: readonly unknown[];
  readonly mergeKey: string;
}

/** Checks that all items have the same type, which is not a list. Upstream hides the reason for a list of lists. */
function checkElementTypes(...lists: readonly (readonly unknown[])[]): void {
  let type: string | undefined;
  for (const list of lists)
    for (const item of list) {
      if (type === undefined && Array.isArray(item))
        throw failure('Invalid', 'the server rejected our request due to an error in our request', {});
      type ??= goTypeOf(item);
      if (goTypeOf(item) !== type) throw badRequest(`list element types are not identical: ${goText(list)}`);
    }
}

/** Merges items, new ones last; `wanted` are the items of the patch in their order. */
function mergeItems(original: readonly unknown[], patch: readonly unknown[], schema: Schema | undefined): MergedItems {
  const items = [...original, ...patch];
  checkElementTypes(original, patch);
  if (!items.some(isObject)) return { merged: [...new Set(items)], wanted: patch, mergeKey: '' };
  const mergeKey = schema?.patchMergeKey;
  if (mergeKey === undefined) throw badRequest(`cannot merge lists without merge key for ${schema?.items?.name ?? 'list'}`);
  const { kept, wanted } = obeyItemDirectives(original, patch, mergeKey);
  const byKey = new Map<string, number>();
  const merged: unknown[] = [...kept];
  for (const [at, item] of merged.entries()) {
    const key = keyOf(item, mergeKey);
    if (!byKey.has(key)) byKey.set(key, at);
  }
  for (const item of wanted) {
    const key = keyOf(item, mergeKey);
    const at = byKey.get(key);
    const current = at === undefined ? undefined : merged[at];
    if (at === undefined || !isObject(current)) {
      byKey.set(key, merged.length);
      merged.push(clean(item));
    } else merged[at] = mergeMap(current, item, schema?.items);
  }
  return { merged, wanted, mergeKey };
}

function keyOf(item: unknown, mergeKey: string): string {
  if (!isObject(item)) throw badType(mapType, item);
  const value = own(item, mergeKey);
  if (value === undefined) throw noMergeKey(item, mergeKey);
  return String(value);
}

/** Removes items that are directives from the patch and applies them. */
function obeyItemDirectives(
  original: readonly unknown[],
  patch: readonly unknown[],
  mergeKey: string,
): { kept: readonly unknown[]; wanted: Fields[] } {
  const wanted: Fields[] = [];
  const gone = new Set<string>();
  let replace = false;
  for (const item of patch) {
    if (!isObject(item)) throw badType(mapType, item);
    const directive = own(item, '$patch');
    if (directive === undefined) wanted.push(item);
    else if (directive === 'delete') gone.add(keyOf(item, mergeKey));
    else if (directive === 'replace') replace = true;
    else if (directive === 'merge') throw badRequest('merging lists cannot yet be specified in the patch');
    else throw badRequest(`unknown patch type: ${String(directive)} in map: ${goText(item)}`);
  }
  if (replace) return { kept: [], wanted };
  return { kept: gone.size === 0 ? original : original.filter((item) => !gone.has(keyOf(item, mergeKey))), wanted };
}

/** Orders a merged list: the items of `order` by it, between them items that only the object has, in their old order. */
function arrange(merged: readonly unknown[], order: readonly unknown[], before: readonly unknown[], mergeKey: string): unknown[] {
  const idOf = (item: unknown) => (mergeKey === '' ? String(item) : keyOf(item, mergeKey));
  const wanted = new Set(order.map(idOf));
  const inPatch = merged.filter((item) => wanted.has(idOf(item)));
  const onlyInObject = merged.filter((item) => !wanted.has(idOf(item)));
  return mergeInOrder(sortByOrder(onlyInObject, before, idOf), sortByOrder(inPatch, order, idOf), before, idOf);
}

function mergeOrdered(result: MutableObject, patch: Fields, key: string, schema: Schema | undefined): void {
  const field = safeKey(key.slice(orderPrefix.length));
  const order = patch[key];
  const change = own(patch, field);
  const current = own(result, field);
  if (!Array.isArray(order)) throw badType(listType, order);
  if (change === null) return;
  if (current !== undefined && !Array.isArray(current)) throw badType(listType, current);
  if (change !== undefined && !Array.isArray(change)) throw badType(listType, change);
  if (change === undefined && current === undefined) return;
  const list = fieldSchema(schema, field);
  const mergeKey = list?.patchMergeKey ?? '';
  checkOrder(change ?? [], order, mergeKey);
  const merged =
    current === undefined ? (clean(change) as unknown[]) : change === undefined ? current : mergeItems(current, change, list).merged;
  result[field] = arrange(merged, order, current ?? [], mergeKey);
}

/** Checks that the items of the patch come in the requested order. */
function checkOrder(items: readonly unknown[], order: readonly unknown[], mergeKey: string): void {
  if (items.length === 0 || order.length === 0) return;
  const idOf = (item: unknown) => (mergeKey === '' ? String(item) : keyOf(item, mergeKey));
  let at = 0;
  for (const item of items) {
    if (isObject(item) && Object.hasOwn(item, '$patch')) continue;
    while (at < order.length && idOf(order[at]) !== idOf(item)) at++;
    if (at === order.length) {
      throw badRequest(`The order in patch list:\n${goText(items)}\n doesn't match $setElementOrder list:\n${goText(order)}\n`);
    }
    at++;
  }
}
