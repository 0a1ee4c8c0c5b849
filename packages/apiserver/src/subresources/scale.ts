import { invalid, invalidStatus } from '@oarlock/api/field-error';
import type { KubeObject } from '@oarlock/api/object';
import { selectorFromLabels, selectorFromObject } from '@oarlock/api/label-selector';
import { badRequest, conflict, notFound, objectModified } from '@oarlock/api/status';
import { schemaOf } from '@oarlock/api/schema';
import type { Scale } from '@oarlock/api/types/autoscaling-v1';
import type { LabelSelector } from '@oarlock/api/types/meta-v1';
import { decodeBody } from '../body.ts';
import type { Call } from '../call.ts';
import type { Machinery } from '../machinery.ts';
import type { Decision } from '../object-store.ts';
import { appliedScale } from '../managed-fields-scale.ts';
import { settledManagers, tracked } from '../managed-fields-tracking.ts';
import { strategyContext, validated } from '../registry-create.ts';
import { patched, patchTypeOf } from '../registry-patch.ts';
import { checkWriteOptions, writeOptions } from '../request-options.ts';
import type { PipelineResponse } from '../response.ts';
import { keyOf, type ServedKind } from '../served-kind.ts';
import { prepareUpdate } from '../strategy/generic.ts';
import { specOf, statusOf, withMeta, withParts } from '../strategy/strategy.ts';
import { validateUpdate } from '../validation-rules.ts';
import type { Item } from '../watch-cache/item.ts';
import { made } from './answers.ts';

const gvk = { group: 'autoscaling', version: 'v1', kind: 'Scale' } as const;
const scaleKind = { gvk, schema: schemaOf(gvk), apiVersion: 'autoscaling/v1' };

interface Scaled {
  readonly replicas?: number;
  readonly selector?: LabelSelector | Readonly<Record<string, string>>;
}

/** What autoscalers see of a workload. */
export function scaleOf(object: KubeObject): Scale {
  const { name = '', namespace = '', uid = '', resourceVersion = '', creationTimestamp } = object.metadata ?? {};
  const { replicas = 0, selector } = specOf<Scaled>(object);
  const text =
    selector === undefined
      ? ''
      : object.kind === 'ReplicationController'
        ? selectorFromLabels(selector as Readonly<Record<string, string>>).toString()
        : selectorFromObject(selector as LabelSelector).toString();
  return {
    kind: 'Scale',
    apiVersion: 'autoscaling/v1',
    metadata: { name, namespace, uid, resourceVersion, ...(creationTimestamp && { creationTimestamp }) },
    spec: { replicas },
    status: { replicas: statusOf<Scaled>(object).replicas ?? 0, ...(text !== '' && { selector: text }) },
  };
}

/** GET, PUT and PATCH of the scale of a workload: its replicas, and nothing else of it. */
export async function scale(machinery: Machinery, kind: ServedKind, call: Call): Promise<PipelineResponse> {
  const { request } = call;
  const { objects, reader } = machinery;
  if (request.verb === 'get') {
    const { object, revision } = await reader.get(kind, request);
    return made(scaleOf(object), call, 200, revision);
  }
  checkWriteOptions(request.query, request.verb === 'patch' ? 'PatchOptions' : 'UpdateOptions', request.patchType === 'apply');
  const next = nextScale(call);
  const key = keyOf(kind, request.namespace, request.name);
  if (call.dryRun) {
    const current = await objects.read(kind.store, key);
    const decision = await decide(machinery, kind, call, next, current);
    return made(scaleOf(decision.action === 'put' ? decision.object : (current?.object ?? {})), call, 200, current?.revision);
  }
  const outcome = await objects.change(kind.store, key, call, (current) => decide(machinery, kind, call, next, current));
  if (outcome === undefined) throw notFound(kind.resource, request.name);
  return made(scaleOf(outcome.item.object), call, 200, outcome.item.revision);
}

function nextScale(call: Call): (old: Scale) => Scale {
  const { request } = call;
  if (request.verb === 'patch' && request.patchType === 'apply') return (old) => old; // said by the managers of the workload's fields
  if (request.verb === 'patch') {
    const type = patchTypeOf(request.patchType, scaleKind);
    return (old) => patched(scaleKind, old, type, request.body);
  }
  const body = decodeBody<Scale>(request.body, scaleKind);
  const { name = '', namespace = '' } = body.metadata ?? {};
  if (name !== '' && name !== request.name)
    throw badRequest(`the name of the object (${name}) does not match the name on the URL (${request.name})`);
  if (namespace !== '' && namespace !== request.namespace)
    throw badRequest('the namespace of the provided object does not match the namespace sent on the request');
  return () => body;
}

const replicasOf = (replicas: unknown): object => ({ spec: { replicas } });

async function decide(
  machinery: Machinery,
  kind: ServedKind,
  call: Call,
  next: (old: Scale) => Scale,
  current: Item | undefined,
): Promise<Decision> {
  const { admission } = machinery;
  const { request } = call;
  if (current === undefined) throw notFound(kind.resource, request.name);
  const old = scaleOf(current.object);
  const managed = request.patchType === 'apply' ? appliedScale(machinery, kind, call, current.object, replicasOf) : undefined;
  let wanted = managed === undefined ? next(old) : scaleOf(managed);
  const admitted = {
    operation: 'UPDATE' as const,
    resource: kind.resource,
    old,
    options: writeOptions(request.query, 'UpdateOptions'),
    name: request.name,
  };
  if (admission.mutates('UPDATE', kind.resource, request.subresource))
    wanted = (await admission.mutate(call, { ...admitted, object: wanted })) as Scale;
  const replicas = wanted.spec?.replicas ?? 0;
  if (replicas < 0)
    throw invalidStatus({ group: gvk.group, kind: gvk.kind, name: request.name }, [
      invalid('spec.replicas', replicas, 'must be greater than or equal to 0'),
    ]);
  const { resourceVersion = '', uid = '' } = wanted.metadata ?? {};
  if (
    (resourceVersion !== '' && resourceVersion !== '0' && resourceVersion !== String(current.revision)) ||
    (uid !== '' && uid !== old.metadata?.uid)
  )
    throw conflict(kind.resource, request.name, objectModified);
  await admission.validate(call, { ...admitted, object: wanted });
  const object = withMeta(withParts(current.object, { spec: { ...specOf(current.object), replicas } }), {
    resourceVersion: String(current.revision),
  });
  const owned = managed ?? tracked(machinery, kind, call, current.object, object);
  const prepared = settledManagers(prepareUpdate(kind, object, current.object, strategyContext(call)), owned, current.object);
  validated(kind, request.name, call, () => validateUpdate(kind, prepared, current.object, ''));
  return { action: 'put', object: prepared };
}
