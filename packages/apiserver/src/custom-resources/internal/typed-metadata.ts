import { checkJson, conformToSchema, UnmarshalTypeError } from '@oarlock/api/schema/conform';
import type { KubeObject, ObjectMeta } from '@oarlock/api/object';
import { badRequest } from '@oarlock/api/status';
import { goKind } from '@oarlock/api/json/syntax-error';
import { isObject } from '@oarlock/api/json/json';
import { withFields } from '../../registry/strategy.ts';
import { objectMetaSchema } from '../schema/pruning-and-defaulting.ts';

/**
 * Returns the object with its metadata decoded as ObjectMeta, without unknown metadata fields.
 * @throws StatusError BadRequest if a metadata field has the wrong type
 */
export function withTypedMetadata(object: KubeObject, { version, kind }: { readonly version: string; readonly kind: string }): KubeObject {
  checkJson(object);
  const { metadata } = object as { readonly metadata?: unknown };
  if (metadata === undefined || metadata === null) return metadata === null ? withFields(object, { metadata: undefined }) : object;
  const decodingError = (why: string) => badRequest(`${kind} in version ${JSON.stringify(version)} cannot be handled as a ${kind}: ${why}`);
  if (!isObject(metadata)) throw decodingError(`json: cannot unmarshal ${goKind(metadata)} into Go value of type v1.ObjectMeta`);
  try {
    const conformed = conformToSchema(objectMetaSchema, metadata) as ObjectMeta;
    return conformed === metadata ? object : { ...object, metadata: conformed };
  } catch (error) {
    if (!(error instanceof UnmarshalTypeError)) throw error;
    throw decodingError(error.message);
  }
}
