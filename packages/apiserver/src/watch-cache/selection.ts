import type { FieldSelector } from '@oarlock/api/selectors/field-selector';
import type { Selector } from '@oarlock/api/selectors/label-selector';
import type { KubeObject } from '@oarlock/api/object';

/** The fields of a kind that selectors may name, as text. */
export type FieldReaders = Readonly<Record<string, (object: KubeObject) => string>>;

/** Which objects of a resource a list or watch is about. */
export interface Selection {
  /** '' for all namespaces, and for cluster-scoped resources. */
  readonly namespace: string;
  /** The key of the only object it can be about, where the field selector demands a name. */
  readonly key: string | undefined;
  /** The value that it demands of the resource's index field. */
  readonly indexed: string | undefined;
  /** Absent: every object in the namespace, or under the index value. */
  readonly matches: ((object: KubeObject) => boolean) | undefined;
}

export interface SelectionInput {
  readonly namespaced: boolean;
  readonly namespace: string;
  readonly labels: Selector;
  readonly fields: FieldSelector;
  readonly readers: FieldReaders;
  /** The field by which the resource is indexed. */
  readonly indexField: string | undefined;
}

export function selection({ namespaced, namespace, labels, fields, readers, indexField }: SelectionInput): Selection {
  const name = fields.requiresExactMatch('metadata.name');
  // an empty name or namespace is no index look-up but a selector that matches nothing
  const key =
    name === undefined || name === '' || (namespaced && namespace === '') ? undefined : namespaced ? `${namespace}/${name}` : name;
  const indexed = indexField === undefined ? undefined : fields.requiresExactMatch(indexField);
  const tests = fields.requirements
    .filter(
      ({ field, operator, value }) =>
        operator !== '=' ||
        !(
          (field === 'metadata.name' && key !== undefined && value === name) ||
          (field === indexField && value === indexed) ||
          (field === 'metadata.namespace' && namespaced && value === namespace)
        ),
    )
    .map(({ field, operator, value }) => {
      const read = readers[field] ?? (() => '');
      const wanted = operator === '=';
      return (object: KubeObject) => (read(object) === value) === wanted;
    });
  if (!labels.empty) tests.push((object) => labels.matches(object.metadata?.labels));
  const [first] = tests;
  const matches =
    first === undefined ? undefined : tests.length === 1 ? first : (object: KubeObject) => tests.every((test) => test(object));
  return { namespace, key, indexed, matches };
}
