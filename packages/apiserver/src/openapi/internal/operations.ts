import type { GroupVersionKind, Kind, Subresource } from '@oarlock/api/kinds';
import { schemaOf, type Schema } from '@oarlock/api/schema/schema';
import { capitalize } from './capitalize.ts';
import { definitionId, type Json, type SchemaDefinitions } from './schema-definitions.ts';

export type Parameter = readonly [name: string, type: 'string' | 'integer' | 'boolean'];

/** An HTTP operation on an OpenAPI path. */
export interface Operation {
  readonly method: 'get' | 'post' | 'put' | 'patch' | 'delete';
  /** The value of `x-kubernetes-action`. */
  readonly action: string;
  readonly verb: string;
  readonly parameters: readonly Parameter[];
  readonly body?: Json;
  readonly patch?: boolean;
  readonly response: Json | 'text';
  readonly codes: readonly number[];
}

const listParameters: readonly Parameter[] = [
  ['allowWatchBookmarks', 'boolean'],
  ['continue', 'string'],
  ['fieldSelector', 'string'],
  ['labelSelector', 'string'],
  ['limit', 'integer'],
  ['resourceVersion', 'string'],
  ['resourceVersionMatch', 'string'],
  ['sendInitialEvents', 'boolean'],
  ['timeoutSeconds', 'integer'],
  ['watch', 'boolean'],
];
const writeParameters: readonly Parameter[] = [
  ['dryRun', 'string'],
  ['fieldManager', 'string'],
  ['fieldValidation', 'string'],
];
const patchParameters: readonly Parameter[] = [...writeParameters, ['force', 'boolean']];
const deleteParameters: readonly Parameter[] = [
  ['dryRun', 'string'],
  ['gracePeriodSeconds', 'integer'],
  ['ignoreStoreReadErrorWithClusterBreakingPotential', 'boolean'],
  ['orphanDependents', 'boolean'],
  ['propagationPolicy', 'string'],
];
/** The kind for which operations are generated, with references to its OpenAPI definitions. */
export interface KindReferences {
  readonly gvk: GroupVersionKind;
  readonly object: Json;
  /** Returns a reference to the list definition, which is added on first use. */
  list(): Json;
}

export interface KindOperations {
  readonly collection: readonly Operation[];
  readonly object: readonly Operation[];
  /** The operations on the list of all namespaces. */
  readonly allNamespaces: readonly Operation[];
}

/** Returns the operations on the collections and the objects of a kind. */
export function kindOperations({ verbs }: Kind, references: KindReferences, definitions: SchemaDefinitions): KindOperations {
  const { gvk, object } = references;
  const has = (verb: string) => verbs.includes(verb);
  const remove = deletion(gvk, definitions);
  const list = (): Operation => ({
    method: 'get',
    action: 'list',
    verb: 'list',
    parameters: listParameters,
    response: references.list(),
    codes: [200],
  });
  return {
    collection: [
      ...(has('list') ? [list()] : []),
      ...(has('create')
        ? [
            {
              method: 'post',
              action: 'post',
              verb: 'create',
              parameters: writeParameters,
              body: object,
              response: object,
              codes: [200, 201, 202],
            } as const,
          ]
        : []),
      ...(has('deletecollection')
        ? [
            {
              ...remove,
              action: 'deletecollection',
              verb: 'deleteCollection',
              parameters: [...deleteParameters, ...listParameters.filter(([name]) => !['watch', 'allowWatchBookmarks'].includes(name))],
              codes: [200],
            },
          ]
        : []),
    ],
    object: objectOperations(verbs, { object, remove }, definitions),
    allNamespaces: has('list') ? [list()] : [],
  };
}

function deletion({ group, version }: GroupVersionKind, definitions: SchemaDefinitions): Operation {
  const meta = (kind: string) =>
    definitions.refToKind(
      `meta/v1.${kind}`,
      { group: '', version: 'v1', kind },
      ...(kind === 'DeleteOptions' ? [{ group, version, kind }] : []),
    );
  return {
    method: 'delete',
    action: 'delete',
    verb: 'delete',
    parameters: deleteParameters,
    body: meta('DeleteOptions'),
    response: meta('Status'),
    codes: [200, 202],
  };
}

interface ObjectReferences {
  readonly object: Json;
  readonly remove: Operation | undefined;
}

function objectOperations(
  verbs: readonly string[],
  { object, remove }: ObjectReferences,
  definitions: SchemaDefinitions,
): readonly Operation[] {
  const has = (verb: string) => verbs.includes(verb);
  return [
    ...(has('get') ? [{ method: 'get', action: 'get', verb: 'read', parameters: [], response: object, codes: [200] } as const] : []),
    ...(has('update')
      ? [
          {
            method: 'put',
            action: 'put',
            verb: 'replace',
            parameters: writeParameters,
            body: object,
            response: object,
            codes: [200, 201],
          } as const,
        ]
      : []),
    ...(has('delete') && remove !== undefined ? [remove] : []),
    ...(has('patch')
      ? [
          {
            method: 'patch',
            action: 'patch',
            verb: 'patch',
            parameters: patchParameters,
            body: definitions.refTo('meta/v1.Patch'),
            patch: true,
            response: object,
            codes: [200, 201],
          } as const,
        ]
      : []),
  ];
}

/** Returns the operations of a subresource. `own` is the reference to the definition of the object itself, which some subresources use. */
export function subresourceOperations(
  subresource: Subresource,
  definitions: SchemaDefinitions,
  own: Json | undefined,
): readonly Operation[] {
  const { name, group, version, kind, verbs } = subresource;
  if (verbs.includes('connect')) {
    const parameters = optionParameters(schemaOf({ group, version, kind }));
    return (['get', 'post'] as const).map((method) => ({
      method,
      action: 'connect',
      verb: `connect${capitalize(method)}`,
      parameters,
      response: 'text',
      codes: [200],
    }));
  }
  if (name === 'log')
    return [
      {
        method: 'get',
        action: 'get',
        verb: 'read',
        parameters: optionParameters(schemaOf({ group: '', version: 'v1', kind: 'PodLogOptions' })),
        response: 'text',
        codes: [200],
      },
    ];
  const object = own ?? definitions.refToKind(definitionId(subresource), { group, version, kind });
  const created: readonly Operation[] = verbs.includes('create')
    ? [
        {
          method: 'post',
          action: 'post',
          verb: 'create',
          parameters: writeParameters,
          body: object,
          response: object,
          codes: [200, 201, 202],
        },
      ]
    : [];
  return [...created, ...objectOperations(verbs, { object, remove: undefined }, definitions)];
}

function optionParameters(schema: Schema | undefined): readonly Parameter[] {
  return [...(schema?.properties ?? [])]
    .filter(([name]) => name !== 'kind' && name !== 'apiVersion')
    .map(([name, { type }]) => [name, type === 'boolean' || type === 'integer' ? type : 'string'] as const);
}
