import { invalid } from '@oarlock/api/field/field-error';
import { invalidStatus } from '@oarlock/api/field/invalid-status';
import type { KubeObject } from '@oarlock/api/object';
import { schemaOf } from '@oarlock/api/schema/schema';
import { badRequest, conflict, failure, notFound, objectModified } from '@oarlock/api/status';
import type { Scale } from '@oarlock/api/types/autoscaling-v1';
import type { CustomResourceSubresourceScale } from '@oarlock/api/types/apiextensions-v1';
import { decodeBody } from '../request/body.ts';
import type { RequestContext } from '../request/request-context.ts';
import type { RegistryDependencies } from '../registry/registry-dependencies.ts';
import { applyToScale } from '../handlers/managed-fields/scale.ts';
import { applyPatch, patchTypeOf } from '../handlers/patch.ts';
import { updateObject } from '../handlers/update.ts';
import { checkWriteOptions } from '../request/request-options.ts';
import type { PipelineResponse } from '../request/response.ts';
import type { ServedKind } from '../registry/served-kind.ts';
import { withMetadata } from '../registry/strategy.ts';
import { objectResponse } from '../handlers/subresources/responses.ts';
import { valueAt, withValueAt } from './internal/field-paths.ts';

const gvk = { group: 'autoscaling', version: 'v1', kind: 'Scale' } as const;
const scaleKind = { gvk, schema: schemaOf(gvk), apiVersion: 'autoscaling/v1' };

/**
 * Builds the Scale of a custom resource from the paths in its definition. @throws StatusError InternalError if the object has no replicas
 */
export function scaleOfCustom(object: KubeObject, paths: CustomResourceSubresourceScale): Scale {
  const { name = '', namespace = '', uid = '', resourceVersion = '', creationTimestamp } = object.metadata ?? {};
  const replicas = valueAt(object, paths.specReplicasPath);
  if (replicas === undefined || replicas === null)
    throw failure(
      'InternalError',
      `Internal error occurred: the spec replicas field ${JSON.stringify(paths.specReplicasPath)} does not exist`,
    );
  const seen = valueAt(object, paths.statusReplicasPath);
  const selector = paths.labelSelectorPath === undefined ? undefined : valueAt(object, paths.labelSelectorPath);
  return {
    kind: 'Scale',
    apiVersion: 'autoscaling/v1',
    metadata: { name, ...(namespace !== '' && { namespace }), uid, resourceVersion, ...(creationTimestamp && { creationTimestamp }) },
    spec: { replicas: Number(replicas) },
    status: { replicas: typeof seen === 'number' ? seen : 0, ...(typeof selector === 'string' && selector !== '' && { selector }) },
  };
}

/** Handles GET, PUT and PATCH of the scale subresource of a custom resource, which changes only the replicas. */
export async function customScale(
  registry: RegistryDependencies,
  kind: ServedKind,
  paths: CustomResourceSubresourceScale,
  context: RequestContext,
): Promise<PipelineResponse> {
  const { request } = context;
  if (request.verb === 'get') {
    const { object, revision } = await registry.reader.get(kind, request);
    return objectResponse(scaleOfCustom(object, paths), context, 200, revision);
  }
  const patches = request.verb === 'patch';
  const applies = patches && request.patchType === 'apply';
  checkWriteOptions(request.query, patches ? 'PatchOptions' : 'UpdateOptions', applies);
  const next = applies ? undefined : nextScale(context);
  const { item } = await updateObject(registry, kind, context, {
    optionsKind: patches ? 'PatchOptions' : 'UpdateOptions',
    allowCreate: false,
    tracksFields: applies,
    newObject(old) {
      if (old === undefined) throw notFound(kind.resource, request.name);
      if (next === undefined)
        return applyToScale(registry, kind, context, old, (replicas) => withValueAt({}, paths.specReplicasPath, Number(replicas)));
      const before = valueAt(old, paths.specReplicasPath) === undefined ? withValueAt(old, paths.specReplicasPath, 0) : old;
      const scale = next(scaleOfCustom(before, paths));
      return scaled(kind, context, old, scale, paths);
    },
  });
  return objectResponse(scaleOfCustom(item.object, paths), context, 200, item.revision);
}

function scaled(
  kind: ServedKind,
  context: RequestContext,
  old: KubeObject,
  scale: Scale,
  paths: CustomResourceSubresourceScale,
): KubeObject {
  const { name } = context.request;
  const replicas = scale.spec?.replicas ?? 0;
  if (replicas < 0)
    throw invalidStatus({ group: gvk.group, kind: gvk.kind, name }, [
      invalid('spec.replicas', replicas, 'must be greater than or equal to 0'),
    ]);
  const { resourceVersion = '', uid = '' } = scale.metadata ?? {};
  if (uid !== '' && uid !== old.metadata?.uid) throw conflict(kind.resource, name, objectModified);
  const object = withValueAt(old, paths.specReplicasPath, replicas);
  return resourceVersion === '' ? object : withMetadata(object, { resourceVersion });
}

function nextScale(context: RequestContext): (old: Scale) => Scale {
  const { request } = context;
  if (request.verb === 'patch') {
    const type = patchTypeOf(request.patchType, scaleKind);
    return (old) => applyPatch(scaleKind, old, type, request.body) as Scale;
  }
  const body = decodeBody<Scale>(request.body, scaleKind);
  const { name = '', namespace = '' } = body.metadata ?? {};
  if (name !== '' && name !== request.name)
    throw badRequest(`the name of the object (${name}) does not match the name on the URL (${request.name})`);
  if (namespace !== '' && namespace !== request.namespace)
    throw badRequest('the namespace of the provided object does not match the namespace sent on the request');
  return () => body;
}
