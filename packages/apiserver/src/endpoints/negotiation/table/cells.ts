import { selectorFromLabelSelector } from '@oarlock/api/selectors/label-selector';
import type { KubeObject } from '@oarlock/api/object';
import type { LabelSelector } from '@oarlock/api/types/meta-v1';
import { since } from './duration.ts';

export const none = '<none>';
export const unset = '<unset>';

export const nameOf = (object: KubeObject): string => object.metadata?.name ?? '';
export const ageOf = (object: KubeObject, now: number): string => since(object.metadata?.creationTimestamp, now);
/** Returns the creation time for a table cell; `<unknown>` for an object without a creation time. */
export const createdAt = (object: KubeObject): string => object.metadata?.creationTimestamp ?? '<unknown>';

/** Formats labels as `a=b,c=d`, or `<none>`. */
export function labelsText(labels: Readonly<Record<string, string>> | undefined): string {
  const text = Object.entries(labels ?? {})
    .map(([key, value]) => `${key}=${value}`)
    .sort()
    .join(',');
  return text === '' ? none : text;
}

export function selectorText(selector: LabelSelector | undefined): string {
  const text = selector === undefined ? '' : selectorFromLabelSelector(selector).toString();
  return text === '' ? none : text;
}

interface Containers {
  readonly spec?: { readonly containers?: readonly { readonly name?: string; readonly image?: string }[] };
}
/** Returns the names and the images of a pod template's containers, each joined with commas. */
export function containerCells(template: Containers | undefined): readonly [names: string, images: string] {
  const containers = template?.spec?.containers ?? [];
  return [containers.map(({ name = '' }) => name).join(','), containers.map(({ image = '' }) => image).join(',')];
}

/** Joins the first `max` items and appends the number of further items; returns `whenEmpty` if there are no items. */
export function joinFirst(items: readonly string[], whenEmpty: string, max = 3): string {
  if (items.length === 0) return whenEmpty;
  const joined = items.slice(0, max).join(',');
  return items.length > max ? `${joined} + ${items.length - max} more...` : joined;
}

const modes: Readonly<Record<string, string>> = {
  ReadWriteOnce: 'RWO',
  ReadOnlyMany: 'ROX',
  ReadWriteMany: 'RWX',
  ReadWriteOncePod: 'RWOP',
};
export function accessModes(wanted: readonly string[] | undefined): string {
  const has = new Set(wanted);
  return Object.keys(modes)
    .filter((mode) => has.has(mode))
    .map((mode) => modes[mode])
    .join(',');
}

export const hasCondition = (
  conditions: readonly { readonly type?: string; readonly status?: string }[] | undefined,
  type: string,
): boolean => conditions?.some((condition) => condition.type === type && condition.status === 'True') ?? false;
