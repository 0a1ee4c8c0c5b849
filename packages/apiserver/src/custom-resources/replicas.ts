import { invalid, type FieldError } from '@oarlock/api/field-error';
import type { KubeObject } from '@oarlock/api/object';
import type { CustomResourceSubresourceScale } from '@oarlock/api/types/apiextensions-v1';
import { valueAt } from './fields.ts';

/** What a scale cannot show: replicas, of the spec or of the status, that are fewer than none. A write of the status answers for that alone. */
export function validateReplicas(
  paths: CustomResourceSubresourceScale | undefined,
  object: KubeObject,
  subresource: string,
): readonly FieldError[] {
  if (paths === undefined) return [];
  const { specReplicasPath, statusReplicasPath } = paths;
  return (subresource === 'status' ? [statusReplicasPath] : [specReplicasPath, statusReplicasPath]).flatMap((path) => {
    const replicas = valueAt(object, path);
    return typeof replicas === 'number' && replicas < 0 ? [invalid(path, replicas, 'should be a non-negative integer')] : [];
  });
}
