import { predicatesByField, type FieldSelector } from '@oarlock/api/selectors/field-selector';
import type { Selector } from '@oarlock/api/selectors/label-selector';
import type { KubeObject } from '@oarlock/api/object';

/** The fields of a kind that field selectors support, each with a function that returns its value. */
export type FieldReaders = Readonly<Record<string, (object: KubeObject) => string>>;

/** The objects of a resource that a list or watch selects. */
export interface Selection {
  /** The namespace; '' for all namespaces and for cluster-scoped resources. */
  readonly namespace: string;
  /** The key of the only object that can match, if the field selector requires metadata.name; otherwise undefined. */
  readonly key: string | undefined;
  /** The value of the resource's index field that the field selector requires; undefined if the field selector requires none. */
  readonly indexed: string | undefined;
  /** The predicate for the remaining requirements; undefined if there are none. */
  readonly matches: ((object: KubeObject) => boolean) | undefined;
}

export interface SelectionInput {
  readonly namespaced: boolean;
  readonly namespace: string;
  readonly labels: Selector;
  readonly fields: FieldSelector;
  readonly readers: FieldReaders;
  /** The name of the field by which the resource is indexed. */
  readonly indexField: string | undefined;
}

/** Splits label and field selectors into the parts that indexes answer and a predicate for the rest. */
export function selection({ namespaced, namespace, labels, fields, readers, indexField }: SelectionInput): Selection {
  const name = fields.requiresExactMatch('metadata.name');
  // an empty name or namespace cannot be looked up by key: such a selector matches nothing
  const key =
    name === undefined || name === '' || (namespaced && namespace === '') ? undefined : namespaced ? `${namespace}/${name}` : name;
  const indexed = indexField === undefined ? undefined : fields.requiresExactMatch(indexField);
  const remaining = fields.requirements.filter(
    ({ field, operator, value }) =>
      operator !== '=' ||
      !(
        (field === 'metadata.name' && key !== undefined && value === name) ||
        (field === indexField && value === indexed) ||
        (field === 'metadata.namespace' && namespaced && value === namespace)
      ),
  );
  const tests = [...predicatesByField(remaining)].map(([field, allows]) => {
    const read = readers[field] ?? (() => '');
    return (object: KubeObject) => allows(read(object));
  });
  if (!labels.empty) tests.push((object) => labels.matches(object.metadata?.labels));
  const [first] = tests;
  const matches =
    first === undefined ? undefined : tests.length === 1 ? first : (object: KubeObject) => tests.every((test) => test(object));
  return { namespace, key, indexed, matches };
}
