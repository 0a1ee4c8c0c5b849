import { parseAllDocuments, parseDocument, stringify } from 'yaml';
import type { KubeObject } from '../api/client.ts';

/** Returns an object as YAML. */
export const toYaml = (object: unknown): string => stringify(object, { lineWidth: 0, aliasDuplicateObjects: false });

/** The number of aliases that a document may resolve, which bounds the memory of nested aliases. */
const maxAliasCount = 100;

/** Parses one YAML document. @throws Error with the position of the first fault */
export function fromYaml(yaml: string): unknown {
  const document = parseDocument(yaml, { prettyErrors: true });
  if (document.errors[0] !== undefined) throw new Error(document.errors[0].message);
  return document.toJS({ maxAliasCount });
}

/** Parses several YAML documents without the empty ones; the items of a List are documents of their own. @throws Error with the position of the first fault */
export function documentsOf(yaml: string): readonly Partial<KubeObject>[] {
  const documents = parseAllDocuments(yaml, { prettyErrors: true });
  if (!Array.isArray(documents)) return [];
  return documents.flatMap((document) => {
    if (document.errors[0] !== undefined) throw new Error(document.errors[0].message);
    const value: unknown = document.toJS({ maxAliasCount });
    if (value === null || value === undefined) return [];
    if (typeof value !== 'object') throw new Error('a document must be an object');
    const { kind, items } = value as { readonly kind?: unknown; readonly items?: unknown };
    return kind === 'List' && Array.isArray(items) ? (items as readonly Partial<KubeObject>[]) : [value as Partial<KubeObject>];
  });
}

/** Returns the object as the editor shows it: in the usual order, and without fields that only the server writes. */
export function editableOf(object: KubeObject, { keepManagedFields = false } = {}): unknown {
  const { apiVersion, kind, metadata, status, ...rest } = object;
  const { managedFields, resourceVersion: _version, ...editable } = metadata;
  return {
    apiVersion,
    kind,
    metadata: { ...editable, ...(keepManagedFields && managedFields && { managedFields }) },
    ...rest,
    ...(status !== undefined && { status }),
  };
}
