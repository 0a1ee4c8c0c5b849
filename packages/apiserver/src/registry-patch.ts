import { stringifyExact } from '@oarlock/api/exact-json';
import { invalid, invalidStatus } from '@oarlock/api/field-error';
import { goText } from '@oarlock/api/go-print';
import { isObject } from '@oarlock/api/json';
import { goKind } from '@oarlock/api/json-fault';
import { applyJsonPatch } from '@oarlock/api/json-patch';
import { applyMergePatch } from '@oarlock/api/merge-patch';
import type { KubeObject } from '@oarlock/api/object';
import { badRequest, conflict, failure, notFound } from '@oarlock/api/status';
import { applyStrategicMergePatch } from '@oarlock/api/strategic-merge-patch';
import { unknownFields } from '@oarlock/api/strict-fields';
import type { PatchType } from '@oarlock/spi/client';
import { decodeBody } from './body.ts';
import type { Call } from './call.ts';
import { kindMissing } from './custom-resources/custom-body.ts';
import { checkTypeMeta } from './type-meta.ts';
import type { Machinery } from './machinery.ts';
import { applied } from './managed-fields-tracking.ts';
import { placed } from './registry-create.ts';
import { replace, type Change } from './registry-update.ts';
import { checkWriteOptions } from './request-options.ts';
import type { PipelineResponse } from './response.ts';
import { completed, type ServedKind } from './served-kind.ts';
import type { UpdateRules } from './strategy/strategy.ts';

/** PATCH of an object or of a subresource that has the object's kind. */
export async function patch(machinery: Machinery, kind: ServedKind, call: Call, rules?: UpdateRules): Promise<PipelineResponse> {
  const { request } = call;
  if (request.patchType === 'apply') return apply(machinery, kind, call, rules);
  const type = patchTypeOf(request.patchType, kind);
  checkWriteOptions(request.query, 'PatchOptions');
  const { body, name } = request;
  const change: Change = {
    rules,
    optionsKind: 'PatchOptions',
    creates: false,
    next(old) {
      if (old === undefined) throw notFound(kind.resource, name);
      const object = patched(kind, old, type, body, strictness(call), request.subresource);
      if (isUnnamed(object)) throw undeterminable(name);
      return completed(kind, checkedFields(kind, call, placed(kind, object, request.namespace, name)));
    },
  };
  return replace(machinery, kind, call, change);
}

/** PATCH with a configuration (KEP-555): server-side apply. */
async function apply(machinery: Machinery, kind: ServedKind, call: Call, rules?: UpdateRules): Promise<PipelineResponse> {
  const { request } = call;
  checkWriteOptions(request.query, 'PatchOptions', true);
  const { namespace, name } = request;
  return replace(machinery, kind, call, {
    rules,
    optionsKind: 'PatchOptions',
    creates: rules === undefined,
    applies: true,
    next(old) {
      if (old === undefined && rules !== undefined) throw notFound(kind.resource, name);
      const object = applied(machinery, kind, call, old);
      const { uid = '' } = object.metadata ?? {};
      if (old === undefined && uid !== '')
        throw conflict(kind.resource, name, `uid mismatch: the provided object specified uid ${uid}, and no existing object was found`);
      if (isUnnamed(object)) throw undeterminable(name);
      return placed(kind, object, namespace, name);
    },
  });
}

const isUnnamed = ({ metadata }: KubeObject): boolean => (metadata?.name ?? '') === '';
const undeterminable = (name: string) =>
  badRequest(`the name of the object (${name} based on URL) was undeterminable: name must be provided`);

const supportedPatches = [
  'application/json-patch+json',
  'application/merge-patch+json',
  'application/strategic-merge-patch+json',
  'application/apply-patch+yaml',
];
const customPatches = ['application/json-patch+json', 'application/merge-patch+json', 'application/apply-patch+yaml'];

export function patchTypeOf(type: PatchType | undefined, { schema }: Pick<ServedKind, 'schema'>): Exclude<PatchType, 'apply'> {
  if (type === 'json' || type === 'merge' || (type === 'strategic' && schema !== undefined)) return type;
  throw failure(
    'UnsupportedMediaType',
    `the body of the request was in an unknown format - accepted media types include: ${(schema === undefined ? customPatches : supportedPatches).join(', ')}`,
    {},
  );
}

/** The object as a patch makes it, of the right types. @throws StatusError BadRequest, Invalid */
export function patched(
  kind: Pick<ServedKind, 'gvk' | 'schema' | 'apiVersion'>,
  old: KubeObject,
  type: Exclude<PatchType, 'apply'>,
  body: unknown,
  strict?: Strictness,
  subresource = '',
): KubeObject {
  const made =
    type === 'json' ? applyJsonPatch(old, body) : type === 'merge' ? applyMergePatch(old, mergeable(body)) : strategic(kind, old, body);
  if (!isObject(made)) throw badRequest(`a patch may not turn a ${kind.gvk.kind} into something else`);
  let result = made;
  const refuse = (why: string) =>
    invalidStatus({ group: '', kind: '', name: '' }, [invalid('patch', type === 'strategic' ? goText(body) : stringifyExact(result), why)]);
  let object: KubeObject;
  if (kind.schema === undefined) {
    if ((result['kind'] ?? '') === '') throw refuse(kindMissing(stringifyExact(result)));
    // a subresource takes nothing but its own part of it
    if (subresource !== '') result = { ...result, kind: kind.gvk.kind, apiVersion: kind.apiVersion };
    else checkTypeMeta(result, kind.gvk);
  }
  try {
    object = decodeBody(result, kind);
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    throw refuse(error.message);
  }
  // what decoding dropped are fields that the kind does not know
  if (strict === undefined || kind.schema === undefined || sharesMembers(result, object)) return object;
  const unknown = unknownFields(kind.schema, result);
  if (unknown.length > 0 && strict.refuse) throw refuse(`strict decoding error: ${unknown.join(', ')}`);
  for (const warning of unknown) strict.warn(warning);
  return object;
}

/** What to do about fields that the kind of an object does not know. */
interface Strictness {
  readonly refuse: boolean;
  warn(message: string): void;
}

function strictness(call: Call): Strictness | undefined {
  const fieldValidation = call.request.query['fieldValidation'] || 'Warn';
  return fieldValidation === 'Ignore'
    ? undefined
    : {
        refuse: fieldValidation === 'Strict',
        warn: (message) => {
          call.warn(message);
        },
      };
}

function sharesMembers(a: Readonly<Record<string, unknown>>, b: object): boolean {
  for (const key in a) if (a[key] !== (b as Readonly<Record<string, unknown>>)[key]) return false;
  return true;
}

function mergeable(body: unknown): unknown {
  if (!isObject(body))
    throw badRequest(`error decoding patch: json: cannot unmarshal ${goKind(body)} into Go value of type map[string]interface {}`);
  return body;
}

/** What a patch brought in that the kind does not know: kinds with built-in types are told of it elsewhere. @throws StatusError BadRequest */
function checkedFields(kind: ServedKind, call: Call, object: KubeObject): KubeObject {
  const { fieldValidation = 'Warn' } = call.request.query;
  if (kind.custom === undefined || fieldValidation === 'Ignore') return object;
  const unknown = kind.custom.unknownFields(object);
  if (unknown.length === 0) return object;
  const { gvk } = kind;
  if (fieldValidation === 'Strict') {
    throw badRequest(
      `${gvk.kind} in version ${JSON.stringify(gvk.version)} cannot be handled as a ${gvk.kind}: strict decoding error: ${unknown.join(', ')}`,
    );
  }
  for (const warning of unknown) call.warn(warning);
  return object;
}

function strategic({ schema }: Pick<ServedKind, 'schema'>, old: KubeObject, body: unknown): unknown {
  if (schema === undefined) throw badRequest('this kind has no strategic merge patch');
  return applyStrategicMergePatch(old as Readonly<Record<string, unknown>>, mergeable(body), schema);
}
