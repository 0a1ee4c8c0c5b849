import { checkConfiguration } from '@oarlock/api/managed-fields/field-manager';
import type { KubeObject } from '@oarlock/api/object';
import { schemaOf } from '@oarlock/api/schema/schema';
import type { Scale } from '@oarlock/api/types/autoscaling-v1';
import { builtinTypes, fieldManagerOf } from './managed-kind.ts';
import type { RequestScope } from '../../../registry/request-scope.ts';
import { isForced } from '../../request/request-options.ts';

const scale = { group: 'autoscaling', version: 'v1', kind: 'Scale', apiVersion: 'autoscaling/v1' } as const;

/**
 * Applies a Scale to its workload: the manager of the Scale becomes the manager of the workload's replicas.
 * @param replicasOf returns an apply configuration of the workload that sets only the replicas
 * @throws StatusError Conflict if another manager owns the replicas; BadRequest if the Scale is malformed
 */
export function applyToScale(
  { registry, kind, context }: RequestScope,
  live: KubeObject,
  replicasOf: (replicas: unknown) => object,
): KubeObject {
  const { body, query, subresource } = context.request;
  const schema = schemaOf(scale);
  const config = checkConfiguration(scale, schema && builtinTypes.of(schema), body) as Scale;
  const { replicas } = config.spec ?? {};
  const { name, uid, resourceVersion } = config.metadata ?? {};
  const configuration = {
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
  return fieldManagerOf(registry, kind, subresource).apply(live, configuration, fieldManager, isForced(query), context.now);
}
