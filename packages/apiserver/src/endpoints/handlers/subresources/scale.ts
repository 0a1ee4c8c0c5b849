import { invalid } from '@oarlock/api/field/field-error';
import { invalidStatus } from '@oarlock/api/field/invalid-status';
import type { KubeObject } from '@oarlock/api/object';
import { selectorFromLabels, selectorFromLabelSelector } from '@oarlock/api/selectors/label-selector';
import { badRequest, conflict, notFound, objectModified } from '@oarlock/api/status';
import { schemaOf } from '@oarlock/api/schema/schema';
import type { Scale } from '@oarlock/api/types/autoscaling-v1';
import type { LabelSelector } from '@oarlock/api/types/meta-v1';
import { conformAdmitted, decodeBody } from '../../request/body.ts';
import type { RequestContext } from '../../request/request-context.ts';
import type { RegistryDependencies } from '../../../registry/registry-dependencies.ts';
import type { WriteDecision } from '../../../registry/object-store.ts';
import { applyToScale } from '../managed-fields/scale.ts';
import { restoreManagedFields, trackUpdate } from '../managed-fields/tracking.ts';
import type { RequestScope } from '../../../registry/request-scope.ts';
import { newStrategyContext, throwIfInvalid } from '../write-operation.ts';
import { withRequestNamespace } from '../create.ts';
import { applyPatch, hasNoName, patchTypeOf, undeterminableNameError } from '../patch.ts';
import { checkWriteOptions, writeOptions } from '../../request/request-options.ts';
import type { PipelineResponse } from '../../request/response.ts';
import { keyOf, type ServedKind } from '../../../registry/served-kind.ts';
import { prepareForUpdate } from '../../../registry/prepare.ts';
import { specOf, statusOf, withMetadata, withFields } from '../../../registry/strategy.ts';
import { validateForUpdate } from '../../../registry/validation.ts';
import type { Item } from '../../../watch-cache/item.ts';
import { objectResponse } from './responses.ts';

const gvk = { group: 'autoscaling', version: 'v1', kind: 'Scale' } as const;
const scaleKind = { gvk, schema: schemaOf(gvk), apiVersion: 'autoscaling/v1' };

interface ScaledObject {
  readonly replicas?: number;
  readonly selector?: LabelSelector | Readonly<Record<string, string>>;
}

/** Returns the Scale of a workload such as a Deployment. */
export function scaleOf(object: KubeObject): Scale {
  const { name = '', namespace = '', uid = '', resourceVersion = '', creationTimestamp } = object.metadata ?? {};
  const { replicas = 0, selector } = specOf<ScaledObject>(object);
  const text =
    selector === undefined
      ? ''
      : object.kind === 'ReplicationController'
        ? selectorFromLabels(selector as Readonly<Record<string, string>>).toString()
        : selectorFromLabelSelector(selector as LabelSelector).toString();
  return {
    kind: 'Scale',
    apiVersion: 'autoscaling/v1',
    metadata: { name, namespace, uid, resourceVersion, ...(creationTimestamp && { creationTimestamp }) },
    spec: { replicas },
    status: { replicas: statusOf<ScaledObject>(object).replicas ?? 0, ...(text !== '' && { selector: text }) },
  };
}

/** Handles GET, PUT and PATCH of the scale subresource of a workload. Writes change only the replicas. */
export async function scale(registry: RegistryDependencies, kind: ServedKind, context: RequestContext): Promise<PipelineResponse> {
  const { request } = context;
  const { objects, reader } = registry;
  if (request.verb === 'get') {
    const { object, revision } = await reader.get(kind, request);
    return objectResponse(scaleOf(object), context, { code: 200, revision });
  }
  checkWriteOptions(request.query, request.verb === 'patch' ? 'PatchOptions' : 'UpdateOptions', request.patchType === 'apply');
  const update: ScaleUpdate = { registry, kind, context, newScale: newScaleOf(kind, context) };
  const key = keyOf(kind, request.namespace, request.name);
  if (context.dryRun) {
    const current = await objects.read(kind.storedKind, key);
    const decision = await decideScale(update, current);
    return objectResponse(scaleOf(decision.action === 'put' ? decision.object : (current?.object ?? {})), context, {
      code: 200,
      revision: current?.revision ?? 0,
    });
  }
  const outcome = await objects.guaranteedUpdate(kind.storedKind, key, context, (current) => decideScale(update, current));
  if (outcome === undefined) throw notFound(kind.resource, request.name);
  return objectResponse(scaleOf(outcome.item.object), context, { code: 200, revision: outcome.item.revision });
}

/**
 * Returns a function that computes the submitted Scale from the current one. Admission decides on the submitted Scale, so its name and namespace are those
 * of the request. @throws StatusError BadRequest if the body has others
 */
export function newScaleOf(kind: ServedKind, { request }: RequestContext): (old: Scale) => Scale {
  if (request.verb === 'patch' && request.patchType === 'apply') return (old) => old; // the applied configuration sets the replicas (applyToScale)
  if (request.verb === 'patch') {
    const type = patchTypeOf(request.patchType, scaleKind);
    return (old) => {
      const patched = applyPatch(scaleKind, old, { type, body: request.body });
      if (hasNoName(patched)) throw undeterminableNameError(request.name);
      return withRequestNamespace(kind, patched, request);
    };
  }
  const body = decodeBody<Scale>(request.body, scaleKind);
  if (hasNoName(body)) throw badRequest('name must be provided');
  const submitted = withRequestNamespace(kind, body, request);
  return () => submitted;
}

const specWithReplicas = (replicas: unknown): object => ({ spec: { replicas } });

interface ScaleUpdate extends RequestScope {
  /** Returns the Scale that the request writes, given the current one. */
  newScale(old: Scale): Scale;
}

async function decideScale(update: ScaleUpdate, current: Item | undefined): Promise<WriteDecision> {
  const { kind, context } = update;
  const { request } = context;
  if (current === undefined) throw notFound(kind.resource, request.name);
  const old = scaleOf(current.object);
  const managed = request.patchType === 'apply' ? applyToScale(update, current.object, specWithReplicas) : undefined;
  const replicas = await admittedReplicas(update, current, managed === undefined ? update.newScale(old) : scaleOf(managed));
  const object = withMetadata(withFields(current.object, { spec: { ...specOf(current.object), replicas } }), {
    resourceVersion: String(current.revision),
  });
  const owned = managed ?? trackUpdate(update, current.object, object);
  const prepared = restoreManagedFields(
    prepareForUpdate(kind, { object, old: current.object, context: newStrategyContext(context) }),
    owned,
    current.object,
  );
  const validation = { object: prepared, old: current.object, subresource: '', now: update.registry.clock.now() };
  throwIfInvalid(update, request.name, () => validateForUpdate(kind, validation));
  return { action: 'put', object: prepared };
}

/** Runs admission for a Scale, validates it, and returns its replicas. */
async function admittedReplicas({ registry, kind, context }: ScaleUpdate, current: Item, submitted: Scale): Promise<number> {
  const { admission } = registry;
  const { request } = context;
  const { name } = request;
  const old = scaleOf(current.object);
  const options = writeOptions(request.query, 'UpdateOptions');
  const attributes = { operation: 'UPDATE' as const, resource: kind.resource, old, options, name };
  const admitted = admission.mutates('UPDATE', kind.resource, request.subresource)
    ? conformAdmitted<Scale>(await admission.mutate(context, { ...attributes, object: submitted }), submitted, scaleKind)
    : submitted;
  const replicas = admitted.spec?.replicas ?? 0;
  if (replicas < 0)
    throw invalidStatus({ group: gvk.group, kind: gvk.kind, name }, [
      invalid('spec.replicas', replicas, 'must be greater than or equal to 0'),
    ]);
  const { resourceVersion = '', uid = '' } = admitted.metadata ?? {};
  if (
    (resourceVersion !== '' && resourceVersion !== '0' && resourceVersion !== String(current.revision)) ||
    (uid !== '' && uid !== old.metadata?.uid)
  )
    throw conflict(kind.resource, name, objectModified);
  await admission.validate(context, { ...attributes, object: admitted });
  return replicas;
}
