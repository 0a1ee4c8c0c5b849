import { stringifyExact } from '@oarlock/api/json/exact-json';
import { invalid } from '@oarlock/api/field/field-error';
import { invalidStatus } from '@oarlock/api/field/invalid-status';
import { goText } from '@oarlock/api/json/go-print';
import { isObject } from '@oarlock/api/json/json';
import { goKind } from '@oarlock/api/json/syntax-error';
import { applyJsonPatch } from '@oarlock/api/patches/json-patch';
import { applyMergePatch } from '@oarlock/api/patches/merge-patch';
import type { KubeObject } from '@oarlock/api/object';
import { badRequest, conflict, failure, notFound } from '@oarlock/api/status';
import { applyStrategicMergePatch } from '@oarlock/api/patches/strategic-merge-patch';
import { sortKeys, sortPatchedKeys } from '@oarlock/api/json/sort-keys';
import { warningsOf } from '@oarlock/api/serializer/serializer';
import { unknownFields } from '@oarlock/api/serializer/strict-decoding';
import type { PatchType } from '@oarlock/spi/client';
import { decodePatched } from '../request/body.ts';
import { patchErrorsOf } from '../request/patch-errors.ts';
import { isConfidentialObject } from '../request/confidential.ts';
import type { RequestContext } from '../request/request-context.ts';
import { missingKindError } from '../request/type-meta.ts';
import { checkTypeMeta } from '../request/type-meta.ts';
import type { RegistryDependencies } from '../../registry/registry-dependencies.ts';
import { applyConfiguration } from './managed-fields/tracking.ts';
import { withRequestNamespace } from './create.ts';
import { subresourceStrategy } from '../../registry/prepare.ts';
import { writeUpdate, type UpdateRequest } from './update.ts';
import { checkWriteOptions } from '../request/request-options.ts';
import type { PipelineResponse } from '../request/response.ts';
import { withDefaults, type ServedKind } from '../../registry/served-kind.ts';

/** Handles PATCH of an object or of a subresource of the same kind. */
export async function patch(registry: RegistryDependencies, kind: ServedKind, context: RequestContext): Promise<PipelineResponse> {
  const { request } = context;
  if (request.patchType === 'apply') return apply(registry, kind, context);
  const type = patchTypeOf(request.patchType, kind);
  checkWriteOptions(request.query, 'PatchOptions');
  const { body, name, subresource } = request;
  const change: Patch = { type, body, fieldValidation: fieldValidationOf(context), subresource };
  return writeUpdate({
    registry,
    kind,
    context,
    subresource: subresourceStrategy(kind, subresource),
    optionsKind: 'PatchOptions',
    allowCreate: false,
    newObject(old) {
      if (old === undefined) throw notFound(kind.resource, name);
      const object = applyPatch(kind, old, change);
      if (hasNoName(object)) throw undeterminableNameError(name);
      return withDefaults(kind, withRequestNamespace(kind, object, request), context.now);
    },
  });
}

/** Handles PATCH with an apply configuration (server-side apply, KEP-555). */
async function apply(registry: RegistryDependencies, kind: ServedKind, context: RequestContext): Promise<PipelineResponse> {
  const { request } = context;
  checkWriteOptions(request.query, 'PatchOptions', true);
  const { name } = request;
  const subresource = subresourceStrategy(kind, request.subresource);
  const update: UpdateRequest = {
    registry,
    kind,
    context,
    subresource,
    optionsKind: 'PatchOptions',
    allowCreate: subresource === undefined,
    tracksFields: true,
    newObject(old) {
      if (old === undefined && subresource !== undefined) throw notFound(kind.resource, name);
      const checked = (object: KubeObject): KubeObject => {
        reportPatchErrors(context);
        const { uid = '' } = object.metadata ?? {};
        if (old === undefined && uid !== '')
          throw conflict(kind.resource, name, `uid mismatch: the provided object specified uid ${uid}, and no existing object was found`);
        if (hasNoName(object)) throw undeterminableNameError(name);
        return withRequestNamespace(kind, object, request);
      };
      const applied = applyConfiguration(update, old);
      return applied instanceof Promise ? applied.then(checked) : checked(applied);
    },
  };
  return writeUpdate(update);
}

/** Reports duplicate fields of an apply configuration, after conflicts. @throws StatusError BadRequest if fieldValidation is Strict */
function reportPatchErrors(context: RequestContext): void {
  const validation = fieldValidationOf(context);
  const errors = patchErrorsOf(context.request.body);
  if (validation === undefined || errors.length === 0) return;
  if (validation.reject) throw badRequest(`error strict decoding YAML: ${errors.join(', ')}`);
  for (const warning of errors.flatMap(warningsOf)) validation.warn(warning);
}

export const hasNoName = ({ metadata }: KubeObject): boolean => (metadata?.name ?? '') === '';
export const undeterminableNameError = (name: string) =>
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

/** A patch in a request. */
export interface Patch {
  readonly type: Exclude<PatchType, 'apply'>;
  readonly body: unknown;
  /** The handling of fields that the kind does not declare; the fields are dropped if absent. */
  readonly fieldValidation?: FieldValidation | undefined;
  /** The subresource of the request; '' or absent for the object itself. */
  readonly subresource?: string;
}

/** The properties of a kind that decoding a patched object requires. */
type PatchedKind = Pick<ServedKind, 'gvk' | 'schema' | 'apiVersion'> & Partial<Pick<ServedKind, 'customResource'>>;

/**
 * Applies a patch to an object, and converts the result to the types of the kind.
 * @throws StatusError BadRequest if the patch is malformed; Invalid if it cannot be applied, or fieldValidation rejects its fields
 */
export function applyPatch(
  kind: PatchedKind,
  old: KubeObject,
  { type, body, fieldValidation: validation, subresource = '' }: Patch,
): KubeObject {
  const patched = patchedValue(kind, old, { type, body });
  if (!isObject(patched)) throw badRequest(`a patch may not turn a ${kind.gvk.kind} into something else`);
  let result = patched;
  // the message must not quote a confidential object: clients log it
  const confidential = isConfidentialObject(kind.gvk, old.metadata?.namespace ?? '');
  const encoded = () => stringifyExact(kind.schema === undefined ? sortKeys(result) : sortPatchedKeys(old, result, type === 'merge'));
  const rejection = (why: string) =>
    invalidStatus({ group: '', kind: '', name: '' }, [
      invalid('patch', confidential ? '<redacted>' : type === 'strategic' ? goText(body) : encoded(), why),
    ]);
  let object: KubeObject;
  if (kind.schema === undefined) {
    if ((result['kind'] ?? '') === '') throw rejection(missingKindError(encoded()));
    // a subresource ignores the type metadata of the patch
    if (subresource !== '') result = { ...result, kind: kind.gvk.kind, apiVersion: kind.apiVersion };
    else checkTypeMeta(result, kind.gvk);
  }
  try {
    object = decodePatched(result, kind, { old, isStrategic: type === 'strategic' });
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    throw rejection(error.message);
  }
  if (validation === undefined) return object;
  const errors = [...patchErrorsOf(body), ...unknownFieldsOf(kind, { old, result, object, type })];
  if (errors.length > 0 && validation.reject) throw rejection(`strict decoding error: ${errors.join(', ')}`);
  for (const warning of errors) validation.warn(warning);
  return object;
}

function patchedValue(kind: PatchedKind, old: KubeObject, { type, body }: Pick<Patch, 'type' | 'body'>): unknown {
  if (type === 'json') return applyJsonPatch(old, body);
  return type === 'merge' ? applyMergePatch(old, requireMergePatchObject(body)) : applyStrategicPatch(kind, old, body);
}

/** The states of an object that is patched: stored, patched and decoded. */
interface PatchedObject extends Pick<Patch, 'type'> {
  readonly old: KubeObject;
  readonly result: Readonly<Record<string, unknown>>;
  readonly object: KubeObject;
}

/** Returns the strict decoding errors of a patched object, in upstream's order: sorted for strategic merge patches, otherwise as encoded. */
function unknownFieldsOf({ schema, customResource }: PatchedKind, { old, result, object, type }: PatchedObject): readonly string[] {
  if (schema === undefined) return customResource?.unknownFields(result as KubeObject) ?? [];
  // fields that decoding dropped are unknown to the kind
  const changed = changedMembers(result, object);
  if (changed === undefined) return [];
  const unknown = unknownFields(schema, changed);
  if (unknown.length <= 1) return unknown;
  return type === 'strategic' ? unknown.sort() : unknownFields(schema, sortPatchedKeys(old, result, type === 'merge'));
}

/** The handling of fields that the kind does not declare. */
interface FieldValidation {
  readonly reject: boolean;
  warn(message: string): void;
}

function fieldValidationOf(context: RequestContext): FieldValidation | undefined {
  const fieldValidation = context.request.query['fieldValidation'] || 'Warn';
  return fieldValidation === 'Ignore'
    ? undefined
    : {
        reject: fieldValidation === 'Strict',
        warn: (message) => {
          context.warn(message);
        },
      };
}

/** Returns the members of the patched object that decoding changed; undefined if there are none. */
function changedMembers(patched: Readonly<Record<string, unknown>>, decoded: object): Readonly<Record<string, unknown>> | undefined {
  let changed: Record<string, unknown> | undefined;
  for (const key in patched) if (patched[key] !== (decoded as Readonly<Record<string, unknown>>)[key]) (changed ??= {})[key] = patched[key];
  return changed;
}

function requireMergePatchObject(body: unknown, prefix = 'error decoding patch: '): unknown {
  if (!isObject(body)) throw badRequest(`${prefix}json: cannot unmarshal ${goKind(body)} into Go value of type map[string]interface {}`);
  return body;
}

function applyStrategicPatch({ schema }: PatchedKind, old: KubeObject, body: unknown): unknown {
  if (schema === undefined) throw badRequest('this kind has no strategic merge patch');
  return applyStrategicMergePatch(old as Readonly<Record<string, unknown>>, requireMergePatchObject(body, ''), schema);
}
