import type { GroupVersionKind } from '@oarlock/api/kinds';
import type { Parameter, ParameterWriter } from './parameters.ts';
import type { Json, OpenApiVersion } from './definition-names.ts';

export type Method = 'delete' | 'get' | 'head' | 'options' | 'patch' | 'post' | 'put';

/** An HTTP operation on an OpenAPI path. */
export interface Operation {
  readonly method: Method;
  readonly id: string;
  readonly tag: string;
  readonly description: string;
  /** The value of `x-kubernetes-action`; absent for paths that are no resources. */
  readonly action?: string;
  readonly kind?: GroupVersionKind;
  /** The media types that OpenAPI v2 lists for an operation without a body; none if empty. */
  readonly consumes: readonly string[];
  /** The parameters in the path and in the query. */
  readonly parameters: readonly Parameter[];
  readonly body?: { readonly schema: Json; readonly types: readonly string[]; readonly required: boolean };
  /** The response of all codes. */
  readonly response: { readonly schema: Json; readonly types: readonly string[] };
  readonly codes: readonly number[];
}

const phrases: Readonly<Record<number, string>> = { 200: 'OK', 201: 'Created', 202: 'Accepted' };
const unauthorized = { 401: { description: 'Unauthorized' } };

/** Returns the OpenAPI path item of the operations of a path. Parameters that all operations have are those of the path. */
export function pathItem(operations: readonly Operation[], parameters: ParameterWriter, version: OpenApiVersion): Json {
  const [first, ...rest] = operations;
  const common = (first?.parameters ?? []).filter((parameter) =>
    rest.every((operation) => operation.parameters.some((other) => isSame(parameter, other))),
  );
  const own = (operation: Operation) => operation.parameters.filter((parameter) => !common.some((other) => isSame(parameter, other)));
  const write = (list: readonly Parameter[]) => [...list].sort(compareParameters).map((parameter) => parameters.write(parameter));
  const bodyOf = ({ body }: Operation) => (version === 2 && body !== undefined ? [parameters.writeBody(body)] : []);
  const operationOf = version === 2 ? operationV2 : operationV3;
  return {
    ...Object.fromEntries(
      operations.map((operation) => [operation.method, operationOf(operation, [...bodyOf(operation), ...write(own(operation))])]),
    ),
    ...(common.length > 0 && { parameters: write(common) }),
  };
}

const isSame = (a: Parameter, b: Parameter): boolean => a.name === b.name && a.in === b.in;
const compareParameters = (a: Parameter, b: Parameter): number => (a.name === b.name ? (a.in < b.in ? -1 : 1) : a.name < b.name ? -1 : 1);

function commonMembers({ description, id, tag, action, kind }: Operation): Json {
  return {
    description,
    operationId: id,
    tags: [tag],
    ...(action !== undefined && { 'x-kubernetes-action': action }),
    ...(kind !== undefined && {
      'x-kubernetes-group-version-kind': { group: kind.group, version: kind.version, kind: kind.kind },
    }),
  };
}

function operationV2(operation: Operation, parameters: readonly Json[]): Json {
  const { body, response, codes } = operation;
  const consumes = body?.types ?? operation.consumes;
  return {
    ...commonMembers(operation),
    ...(consumes.length > 0 && { consumes }),
    produces: response.types,
    schemes: ['https'],
    ...(parameters.length > 0 && { parameters }),
    responses: {
      ...Object.fromEntries(codes.map((code) => [code, { description: phrases[code], schema: response.schema }])),
      ...unauthorized,
    },
  };
}

function operationV3(operation: Operation, parameters: readonly Json[]): Json {
  const { body, response, codes } = operation;
  const content = (types: readonly string[], schema: Json) => Object.fromEntries([...types].sort().map((type) => [type, { schema }]));
  return {
    ...commonMembers(operation),
    ...(parameters.length > 0 && { parameters }),
    ...(body !== undefined && { requestBody: { content: content(body.types, body.schema), ...(body.required && { required: true }) } }),
    responses: {
      ...Object.fromEntries(codes.map((code) => [code, { description: phrases[code], content: content(response.types, response.schema) }])),
      ...unauthorized,
    },
  };
}
