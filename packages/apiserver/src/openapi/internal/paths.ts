import type { GroupVersionKind, Kind, Subresource } from '@oarlock/api/kinds';
import { schemaOf, type Schema } from '@oarlock/api/schema/schema';
import { refToCustomKind, refToCustomList } from './custom-resource-schemas.ts';
import { publishedSchemaOf, type PublishedKind } from '../../custom-resources/published-kind.ts';
import { definitionId, type SchemaDefinitions, type Json, type OpenApiVersion } from './schema-definitions.ts';

type Parameter = readonly [name: string, type: 'string' | 'integer' | 'boolean'];
interface Operation {
  readonly method: 'get' | 'post' | 'put' | 'patch' | 'delete';
  /** The `x-kubernetes-action`. */
  readonly action: string;
  readonly verb: string;
  readonly parameters: readonly Parameter[];
  readonly body?: Json;
  readonly patch?: boolean;
  readonly answer: Json | 'text';
  readonly codes: readonly number[];
}
interface PathTemplate {
  readonly path: string;
  readonly tag: string;
  readonly name: string;
  readonly kind: GroupVersionKind;
  readonly namespaced: boolean;
  readonly named: boolean;
  /** The media types of PATCH; clients read them to choose a patch type. */
  readonly patchTypes: readonly string[];
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
const mediaTypes = ['application/json', 'application/yaml'];
const streamTypes = [...mediaTypes, 'application/json;stream=watch'];
const patchTypes = [
  'application/apply-patch+yaml',
  'application/json-patch+json',
  'application/merge-patch+json',
  'application/strategic-merge-patch+json',
];
/** Custom resources have no strategic merge patch, which needs Go types. */
const customPatchTypes = patchTypes.filter((type) => !type.includes('strategic'));
const phrases: Readonly<Record<number, string>> = { 200: 'OK', 201: 'Created', 202: 'Accepted' };
const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

/** Returns the path items of one kind: collections, objects and subresources. */
export function* openApiPathsOf(
  kind: Kind,
  definitions: SchemaDefinitions,
  version: OpenApiVersion,
): Generator<readonly [path: string, item: Json]> {
  const { group, version: apiVersion, resource, namespaced, verbs } = kind;
  const root = group === '' ? `/api/${apiVersion}` : `/apis/${group}/${apiVersion}`;
  const title = group === '' ? 'core' : (group.split('.')[0] ?? '');
  const tag = `${group === '' ? 'core' : camel(group)}_${apiVersion}`;
  const gvk = { group, version: apiVersion, kind: kind.kind };
  const published = publishedSchemaOf(kind) === undefined ? undefined : (kind as PublishedKind);
  const template = (path: string, named: boolean, within: boolean): PathTemplate => ({
    path,
    tag,
    name: `${capital(title)}${capital(apiVersion)}${within ? 'Namespaced' : ''}${kind.kind}`,
    kind: gvk,
    namespaced: within,
    named,
    patchTypes: published === undefined ? patchTypes : customPatchTypes,
  });
  const collection = `${root}/${namespaced ? 'namespaces/{namespace}/' : ''}${resource}`;
  const object = published === undefined ? definitions.refToKind(definitionId(gvk), gvk) : refToCustomKind(published, definitions, version);
  const list = () =>
    published === undefined ? definitions.refToList(definitionId(gvk), gvk) : refToCustomList(published, definitions, version);
  const own = ownOperations(kind, gvk, object, list, definitions);
  const item = (where: PathTemplate, operations: readonly Operation[]) => [where.path, pathItem(where, operations, version)] as const;
  yield item(template(collection, false, namespaced), own.collection);
  if (own.object.length > 0) yield item(template(`${collection}/{name}`, true, namespaced), own.object);
  if (namespaced && verbs.includes('list'))
    yield item(
      { ...template(`${root}/${resource}`, false, false), name: `${capital(title)}${capital(apiVersion)}${kind.kind}ForAllNamespaces` },
      own.everywhere,
    );
  for (const subresource of kind.subresources) {
    const where = {
      ...template(`${collection}/{name}/${subresource.name}`, true, namespaced),
      kind: { group: subresource.group, version: subresource.version, kind: subresource.kind },
    };
    // the status is written as the whole object
    const own = published !== undefined && subresource.kind === kind.kind ? object : undefined;
    yield item({ ...where, name: `${where.name}${capital(subresource.name)}` }, subresourceOperations(subresource, definitions, own));
  }
}

function ownOperations({ verbs }: Kind, gvk: GroupVersionKind, object: Json, listOf: () => Json, definitions: SchemaDefinitions) {
  const has = (verb: string) => verbs.includes(verb);
  const remove = deletion(gvk, definitions);
  const list = (): Operation => ({
    method: 'get',
    action: 'list',
    verb: 'list',
    parameters: listParameters,
    answer: listOf(),
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
              answer: object,
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
    ] satisfies readonly Operation[],
    object: objectOperations(has, object, definitions, remove),
    everywhere: has('list') ? [list()] : [],
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
    answer: meta('Status'),
    codes: [200, 202],
  };
}

function objectOperations(
  has: (verb: string) => boolean,
  object: Json,
  definitions: SchemaDefinitions,
  remove: Operation | undefined,
): readonly Operation[] {
  return [
    ...(has('get') ? [{ method: 'get', action: 'get', verb: 'read', parameters: [], answer: object, codes: [200] } as const] : []),
    ...(has('update')
      ? [
          {
            method: 'put',
            action: 'put',
            verb: 'replace',
            parameters: writeParameters,
            body: object,
            answer: object,
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
            answer: object,
            codes: [200, 201],
          } as const,
        ]
      : []),
  ];
}

function subresourceOperations(subresource: Subresource, definitions: SchemaDefinitions, own: Json | undefined): readonly Operation[] {
  const { name, group, version, kind, verbs } = subresource;
  if (verbs.includes('connect')) {
    const parameters = optionParameters(schemaOf({ group, version, kind }));
    return (['get', 'post'] as const).map((method) => ({
      method,
      action: 'connect',
      verb: `connect${capital(method)}`,
      parameters,
      answer: 'text',
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
        answer: 'text',
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
          answer: object,
          codes: [200, 201, 202],
        },
      ]
    : [];
  return [...created, ...objectOperations((verb) => verbs.includes(verb), object, definitions, undefined)];
}

function optionParameters(schema: Schema | undefined): readonly Parameter[] {
  return [...(schema?.properties ?? [])]
    .filter(([name]) => name !== 'kind' && name !== 'apiVersion')
    .map(([name, { type }]) => [name, type === 'boolean' || type === 'integer' ? type : 'string'] as const);
}

function pathItem(place: PathTemplate, operations: readonly Operation[], version: OpenApiVersion): Json {
  const parameters = [
    ...(place.named ? [pathParameter('name', version)] : []),
    ...(place.namespaced ? [pathParameter('namespace', version)] : []),
    queryParameter(['pretty', 'string'], version),
  ];
  return { ...Object.fromEntries(operations.map((operation) => [operation.method, describe(operation, place, version)])), parameters };
}

const pathParameter = (name: string, version: OpenApiVersion): Json => ({
  name,
  in: 'path',
  required: true,
  ...(version === 2 ? { type: 'string' } : { schema: { type: 'string' } }),
  ...unique,
});
const queryParameter = ([name, type]: Parameter, version: OpenApiVersion): Json => ({
  name,
  in: 'query',
  ...(version === 2 ? { type } : { schema: { type } }),
  ...unique,
});
const unique = { uniqueItems: true };

function describe(operation: Operation, { tag, name, kind, patchTypes: accepted }: PathTemplate, version: OpenApiVersion): Json {
  const { action, verb, parameters, body, patch, answer, codes } = operation;
  const { group, version: apiVersion } = kind;
  const common = {
    tags: [tag],
    operationId: `${verb}${name}`,
    description: `${verb} ${kind.kind}`,
    'x-kubernetes-action': action,
    'x-kubernetes-group-version-kind': { group, version: apiVersion, kind: kind.kind },
  };
  const query = parameters.map((parameter) => queryParameter(parameter, version));
  const produces = answer === 'text' ? ['*/*'] : action === 'list' ? streamTypes : mediaTypes;
  const schema = answer === 'text' ? { type: 'string' } : answer;
  const optional = action === 'delete' || action === 'deletecollection';
  if (version === 2) {
    return {
      ...common,
      consumes: patch === true ? accepted : ['*/*'],
      produces,
      schemes: ['https'],
      parameters: [
        ...query,
        ...(body === undefined ? [] : [{ name: 'body', in: 'body', ...(!optional && { required: true }), schema: body }]),
      ],
      responses: {
        ...Object.fromEntries(codes.map((code) => [code, { description: phrases[code], schema }])),
        401: { description: 'Unauthorized' },
      },
    };
  }
  const content = (types: readonly string[], value: Json) => Object.fromEntries(types.map((type) => [type, { schema: value }]));
  return {
    ...common,
    parameters: query,
    ...(body !== undefined && {
      requestBody: { content: content(patch === true ? accepted : ['*/*'], body), ...(!optional && { required: true }) },
    }),
    responses: {
      ...Object.fromEntries(codes.map((code) => [code, { description: phrases[code], content: content(produces, schema) }])),
      401: { description: 'Unauthorized' },
    },
  };
}

/** Converts to camel case: `rbac.authorization.k8s.io` -> `rbacAuthorization`. */
function camel(group: string): string {
  const [first = '', ...rest] = group.replace(/\.k8s\.io$/, '').split('.');
  return first + rest.map(capital).join('');
}
