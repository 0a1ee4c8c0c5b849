import type { GroupVersionKind } from '@oarlock/api/kinds';
import type { Operation, Parameter } from './operations.ts';
import type { Json, OpenApiVersion } from './schema-definitions.ts';

/** A path, and the properties that its operations share. */
export interface PathTemplate {
  readonly path: string;
  readonly tag: string;
  readonly name: string;
  readonly kind: GroupVersionKind;
  readonly namespaced: boolean;
  readonly named: boolean;
  /** The media types of PATCH, from which clients choose a patch type. */
  readonly patchTypes: readonly string[];
}

const mediaTypes = ['application/json', 'application/yaml'];
const streamTypes = [...mediaTypes, 'application/json;stream=watch'];
const phrases: Readonly<Record<number, string>> = { 200: 'OK', 201: 'Created', 202: 'Accepted' };

/** Returns the OpenAPI path item of a path and its operations. */
export function pathItem(template: PathTemplate, operations: readonly Operation[], version: OpenApiVersion): Json {
  const parameters = [
    ...(template.named ? [pathParameter('name', version)] : []),
    ...(template.namespaced ? [pathParameter('namespace', version)] : []),
    queryParameter(['pretty', 'string'], version),
  ];
  return {
    ...Object.fromEntries(operations.map((operation) => [operation.method, operationObject(operation, template, version)])),
    parameters,
  };
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

function operationObject(operation: Operation, { tag, name, kind, patchTypes: accepted }: PathTemplate, version: OpenApiVersion): Json {
  const { action, verb, parameters, body, patch, response, codes } = operation;
  const { group, version: apiVersion } = kind;
  const common = {
    tags: [tag],
    operationId: `${verb}${name}`,
    description: `${verb} ${kind.kind}`,
    'x-kubernetes-action': action,
    'x-kubernetes-group-version-kind': { group, version: apiVersion, kind: kind.kind },
  };
  const query = parameters.map((parameter) => queryParameter(parameter, version));
  const produces = response === 'text' ? ['*/*'] : action === 'list' ? streamTypes : mediaTypes;
  const schema = response === 'text' ? { type: 'string' } : response;
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
