import { checkedConfig } from '@oarlock/api/managed-fields/field-manager';
import type { KubeObject } from '@oarlock/api/object';
import { schemaOf } from '@oarlock/api/schema';
import type { Scale } from '@oarlock/api/types/autoscaling-v1';
import type { Call } from './call.ts';
import { builtinTypes, fieldManagerOf } from './managed-fields-kind.ts';
import type { Machinery } from './machinery.ts';
import { forces } from './request-options.ts';
import type { ServedKind } from './served-kind.ts';

const scale = { group: 'autoscaling', version: 'v1', kind: 'Scale', apiVersion: 'autoscaling/v1' } as const;

/**
 * The object as a Scale makes it that is applied: whoever applies one owns the replicas of the object itself.
 * @param replicasOf what of the object's configuration says its replicas
 * @throws StatusError Conflict, BadRequest
 */
export function appliedScale(
  machinery: Machinery,
  kind: ServedKind,
  call: Call,
  live: KubeObject,
  replicasOf: (replicas: unknown) => object,
): KubeObject {
  const { body, query, subresource } = call.request;
  const schema = schemaOf(scale);
  const config = checkedConfig(scale, schema && builtinTypes.of(schema), body) as Scale;
  const { replicas } = config.spec ?? {};
  const { name, uid, resourceVersion } = config.metadata ?? {};
  const whole = {
    apiVersion: kind.apiVersion,
    kind: kind.gvk.kind,
    metadata: {
      ...(name !== undefined && { name }),
      ...(uid !== undefined && { uid }),
      ...(resourceVersion !== undefined && { resourceVersion }),
    },
    ...(replicas !== undefined && replicas !== null && replicasOf(replicas)),
  };
  const { fieldManager = '' } = query;
  return fieldManagerOf(machinery, kind, subresource).apply(live, whole, fieldManager, forces(query), call.now);
}
