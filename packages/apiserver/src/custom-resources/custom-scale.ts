import { invalid } from '@oarlock/api/field/field-error';
import { invalidStatus } from '@oarlock/api/field/invalid-status';
import type { KubeObject } from '@oarlock/api/object';
import { schemaOf } from '@oarlock/api/schema/schema';
import { conflict, failure, notFound, objectModified } from '@oarlock/api/status';
import type { Scale } from '@oarlock/api/types/autoscaling-v1';
import type { CustomResourceSubresourceScale } from '@oarlock/api/types/apiextensions-v1';
import { conformAdmitted } from '../endpoints/request/body.ts';
import { applyToScale } from '../endpoints/handlers/managed-fields/scale.ts';
import { newScaleOf } from '../endpoints/handlers/subresources/scale.ts';
import type { RequestScope } from '../registry/request-scope.ts';
import { updateObject } from '../endpoints/handlers/update.ts';
import { checkWriteOptions } from '../endpoints/request/request-options.ts';
import type { PipelineResponse } from '../endpoints/request/response.ts';
import { withMetadata } from '../registry/strategy.ts';
import { objectResponse } from '../endpoints/handlers/subresources/responses.ts';
import { valueAt, withValueAt } from './internal/field-paths.ts';

const gvk = { group: 'autoscaling', version: 'v1', kind: 'Scale' } as const;
const scaleKind = { gvk, schema: schemaOf(gvk), apiVersion: 'autoscaling/v1' };

/**
 * Returns the Scale of a custom resource, whose fields are read at the paths in the definition.
 * @throws StatusError InternalError if the object has no replicas
 */
export function scaleOfCustom(object: KubeObject, paths: CustomResourceSubresourceScale): Scale {
  const { name = '', namespace = '', uid = '', resourceVersion = '', creationTimestamp } = object.metadata ?? {};
  const replicas = valueAt(object, paths.specReplicasPath);
  if (replicas === undefined || replicas === null)
    throw failure(
      'InternalError',
      `Internal error occurred: the spec replicas field ${JSON.stringify(paths.specReplicasPath)} does not exist`,
    );
  const statusReplicas = valueAt(object, paths.statusReplicasPath);
  const selector = paths.labelSelectorPath === undefined ? undefined : valueAt(object, paths.labelSelectorPath);
  return {
    kind: 'Scale',
    apiVersion: 'autoscaling/v1',
    metadata: { name, ...(namespace !== '' && { namespace }), uid, resourceVersion, ...(creationTimestamp && { creationTimestamp }) },
    spec: { replicas: Number(replicas) },
    status: {
      replicas: typeof statusReplicas === 'number' ? statusReplicas : 0,
      ...(typeof selector === 'string' && selector !== '' && { selector }),
    },
  };
}

/** Handles GET, PUT and PATCH of the scale subresource of a custom resource. Writes change only the replicas. */
export async function customScale(scope: RequestScope, paths: CustomResourceSubresourceScale): Promise<PipelineResponse> {
  const { registry, kind, context } = scope;
  const { request } = context;
  if (request.verb === 'get') {
    const { object, revision } = await registry.reader.get(kind, request);
    return objectResponse(scaleOfCustom(object, paths), context, { code: 200, revision });
  }
  const isPatch = request.verb === 'patch';
  const isApply = isPatch && request.patchType === 'apply';
  checkWriteOptions(request.query, isPatch ? 'PatchOptions' : 'UpdateOptions', isApply);
  const next = isApply ? undefined : newScaleOf(kind, context);
  const { item } = await updateObject({
    ...scope,
    optionsKind: isPatch ? 'PatchOptions' : 'UpdateOptions',
    allowCreate: false,
    tracksFields: isApply,
    admissionView: {
      of: (object) => scaleOfCustom(withReplicas(object, paths), paths),
      applied(object, view) {
        const scale: Scale = conformAdmitted(view, object, scaleKind);
        checkScale(scope, scale, object.metadata?.uid);
        return withValueAt(object, paths.specReplicasPath, scale.spec?.replicas ?? 0);
      },
    },
    newObject(old) {
      if (old === undefined) throw notFound(kind.resource, request.name);
      if (next === undefined) return applyToScale(scope, old, (replicas) => withValueAt({}, paths.specReplicasPath, Number(replicas)));
      const scale = next(scaleOfCustom(withReplicas(old, paths), paths));
      checkScale(scope, scale, old.metadata?.uid);
      const object = withValueAt(old, paths.specReplicasPath, scale.spec?.replicas ?? 0);
      const { resourceVersion = '' } = scale.metadata ?? {};
      return resourceVersion === '' ? object : withMetadata(object, { resourceVersion });
    },
  });
  return objectResponse(scaleOfCustom(item.object, paths), context, { code: 200, revision: item.revision });
}

/** Returns the object with replicas: 0 if it has none, since such an object can be scaled. */
const withReplicas = (object: KubeObject, { specReplicasPath }: CustomResourceSubresourceScale): KubeObject =>
  valueAt(object, specReplicasPath) === undefined ? withValueAt(object, specReplicasPath, 0) : object;

/** Validates a new Scale. @throws StatusError Invalid if a field is invalid; Conflict if the Scale has another uid than the object */
function checkScale({ kind, context }: RequestScope, scale: Scale, ownUid: string | undefined): void {
  const { name } = context.request;
  const replicas = scale.spec?.replicas ?? 0;
  if (replicas < 0)
    throw invalidStatus({ group: gvk.group, kind: gvk.kind, name }, [
      invalid('spec.replicas', replicas, 'must be greater than or equal to 0'),
    ]);
  const { uid = '' } = scale.metadata ?? {};
  if (uid !== '' && uid !== ownUid) throw conflict(kind.resource, name, objectModified);
}
