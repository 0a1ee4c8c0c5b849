import type { ConfigMap, DownwardAPIVolumeFile, KeyToPath, Pod, Secret } from '@oarlock/api/types/core-v1';
import { VolumeError } from '@oarlock/spi/volume';
import { errorText } from '@oarlock/primitives/error-text';
import { fieldValue, resourceValue, type DownwardApiValues } from '../../pod-util/downward-api.ts';
import type { Resources } from '../../pod-util/resources.ts';
import type { FileContent } from './atomic-writer.ts';

export const defaultFileMode = 0o644;

export interface KeySelection {
  /** The kind of object in error messages: `config` or `secret`. */
  readonly what: string;
  readonly items: readonly KeyToPath[] | undefined;
  readonly mode: number;
  readonly optional: boolean;
}

/**
 * Yields the files of the keys in `items`; without `items`, the files of all keys.
 * @throws VolumeError `NotFound` if a selected key does not exist and the source is not optional
 */
function* select(data: ReadonlyMap<string, Buffer>, { what, items, mode, optional }: KeySelection): Generator<[string, FileContent]> {
  if (items === undefined || items.length === 0) {
    for (const [key, value] of data) yield [key, { data: value, mode }];
    return;
  }
  for (const item of items) {
    const value = data.get(item.key);
    if (value !== undefined) yield [item.path, { data: value, mode: item.mode ?? mode }];
    else if (!optional) throw new VolumeError('NotFound', `references non-existent ${what} key: ${item.key}`);
  }
}

export function configMapFiles(object: ConfigMap, selection: Omit<KeySelection, 'what'>): Iterable<[string, FileContent]> {
  const data = new Map<string, Buffer>();
  for (const [key, value] of Object.entries(object.data ?? {})) data.set(key, Buffer.from(value, 'utf8'));
  for (const [key, value] of Object.entries(object.binaryData ?? {})) data.set(key, Buffer.from(value, 'base64'));
  return select(data, { ...selection, what: 'config' });
}

export function secretFiles(object: Secret, selection: Omit<KeySelection, 'what'>): Iterable<[string, FileContent]> {
  const data = new Map<string, Buffer>();
  for (const [key, value] of Object.entries(object.data ?? {})) data.set(key, Buffer.from(value, 'base64'));
  return select(data, { ...selection, what: 'secret' });
}

export function* downwardApiFiles(
  pod: Pod,
  items: readonly DownwardAPIVolumeFile[],
  { mode, facts, allocatable }: { readonly mode: number; readonly facts: DownwardApiValues; readonly allocatable: Resources },
): Generator<[string, FileContent]> {
  for (const item of items) {
    let text = '';
    try {
      if (item.fieldRef) text = fieldValue(pod, item.fieldRef, facts);
      else if (item.resourceFieldRef) text = resourceValue(pod, { selector: item.resourceFieldRef, self: undefined, allocatable });
    } catch (cause) {
      throw new VolumeError('InvalidArgument', errorText(cause), { cause });
    }
    yield [item.path, { data: Buffer.from(text, 'utf8'), mode: item.mode ?? mode }];
  }
}
