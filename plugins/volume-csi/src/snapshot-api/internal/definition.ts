import type { CustomResourceDefinition } from '@oarlock/api/types/apiextensions-v1';

// The parts of the CustomResourceDefinitions of snapshots and of groups of snapshots.

export type Schema = Readonly<Record<string, unknown>>;

export const text = { type: 'string' };
export const yes = { type: 'boolean' };
export const object = (properties: Schema, more: Schema = {}): Schema => ({ type: 'object', properties, ...more });
export const rule = (check: string, message: string) => ({ rule: check, message });
export const error = object({ message: text, time: { type: 'string', format: 'date-time' } });
export const policy = { type: 'string', enum: ['Delete', 'Retain'] };
export const typeFields = { apiVersion: text, kind: text, metadata: { type: 'object' } };
export const either = (one: string, other: string) => [
  rule(`has(self.${one}) != has(self.${other})`, `exactly one of ${one} and ${other} must be set`),
  rule(`!has(oldSelf.${one}) || has(self.${one})`, `${one} is required once set`),
  rule(`!has(oldSelf.${other}) || has(self.${other})`, `${other} is required once set`),
];
export const fixed = (what: string) => [rule('self == oldSelf', `${what} is immutable`)];

/** What the definitions of the kinds differ in. */
export interface Kind {
  readonly group: string;
  /** The served versions, of which the first is stored. They have the same schema. */
  readonly versions: readonly string[];
  /** The change of the API in which the kind was approved. */
  readonly approval: string;
  readonly kind: string;
  readonly plural: string;
  readonly short: readonly string[];
  readonly namespaced: boolean;
  readonly status: boolean;
  readonly schema: Schema;
  readonly columns: readonly (readonly [name: string, type: string, path: string])[];
}
export const age = ['Age', 'date', '.metadata.creationTimestamp'] as const;

/** Returns the CustomResourceDefinition of a kind. */
export const definitionOf = ({
  group,
  versions,
  approval,
  kind,
  plural,
  short,
  namespaced,
  status,
  schema,
  columns,
}: Kind): CustomResourceDefinition => ({
  metadata: {
    name: `${plural}.${group}`,
    // the API server rejects CRDs in groups of k8s.io without this annotation
    annotations: { 'api-approved.kubernetes.io': `https://github.com/kubernetes-csi/external-snapshotter/pull/${approval}` },
  },
  spec: {
    group,
    scope: namespaced ? 'Namespaced' : 'Cluster',
    names: { kind, listKind: `${kind}List`, plural, singular: kind.toLowerCase(), shortNames: short },
    versions: versions.map((name, at) => ({
      name,
      served: true,
      storage: at === 0,
      schema: { openAPIV3Schema: schema },
      ...(status && { subresources: { status: {} } }),
      additionalPrinterColumns: columns.map(([column, type, jsonPath]) => ({ name: column, type, jsonPath })),
    })),
  },
});
