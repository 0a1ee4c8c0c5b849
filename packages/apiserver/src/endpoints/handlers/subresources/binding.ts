import { copyFields } from '@oarlock/api/json/copy-fields';
import type { KubeObject } from '@oarlock/api/object';
import { badRequest, conflict, notFound, objectModified } from '@oarlock/api/status';
import { schemaOf } from '@oarlock/api/schema/schema';
import type { Binding, Pod, PodSpec, PodStatus } from '@oarlock/api/types/core-v1';
import { validateObject } from '@oarlock/api/validation/validate-object';
import { conformAdmitted, decodeBody } from '../../request/body.ts';
import type { RequestContext } from '../../request/request-context.ts';
import type { RegistryDependencies } from '../../../registry/registry-dependencies.ts';
import { withRequestNamespace } from '../create.ts';
import { checkWriteOptions, writeOptions } from '../../request/request-options.ts';
import type { PipelineResponse } from '../../request/response.ts';
import { keyOf, type ServedKind } from '../../../registry/served-kind.ts';
import { withCondition } from '../../../registry/strategies/pods.ts';
import type { Item } from '../../../watch-cache/item.ts';
import { successResponse } from './responses.ts';

const gvk = { group: '', version: 'v1', kind: 'Binding' } as const;
const schema = schemaOf(gvk);

/** Handles POST of pods/binding, and of bindings, whose body names the pod. A pod can be bound to a node only once. */
export async function createBinding(registry: RegistryDependencies, pods: ServedKind, context: RequestContext): Promise<PipelineResponse> {
  const { request } = context;
  const { admission, objects } = registry;
  checkWriteOptions(request.query, 'CreateOptions');
  let binding = withRequestNamespace(pods, decodeBody<Binding>(request.body, { gvk, schema }), {
    namespace: request.namespace,
    name: '',
  }) as Binding;
  const options = writeOptions(request.query, 'CreateOptions');
  const resource = request.subresource === '' ? request.resource : pods.resource;
  const name = request.name === '' ? (binding.metadata?.name ?? '') : request.name;
  const admitted = { operation: 'CREATE' as const, resource, old: undefined, options, name };
  if (admission.mutates('CREATE', resource, request.subresource))
    binding = conformAdmitted(await admission.mutate(context, { ...admitted, object: binding }), binding, { gvk, schema }) as Binding;
  if (name !== (binding.metadata?.name ?? '')) throw badRequest('name in URL does not match name in Binding object');
  const errors = validateObject(gvk, binding);
  if (errors.length > 0) throw plainBadRequest(errors.map(({ field, message }) => `${field}: ${message}`));
  await admission.validate(context, { ...admitted, object: binding });
  const key = keyOf(pods, request.namespace, name);
  const decide = (current: Item | undefined) => {
    if (current === undefined) throw notFound(pods.resource, name);
    return { action: 'put' as const, object: bindPod({ pods, current, binding, now: context.now }) };
  };
  if (context.dryRun) decide(await objects.read(pods.storedKind, key));
  else await objects.guaranteedUpdate(pods.storedKind, key, context, decide);
  return successResponse(context);
}

/** Returns a BadRequest error with upstream's message, which upstream sends with code 500. */
const plainBadRequest = (messages: readonly string[]) =>
  badRequest(messages.length === 1 ? (messages[0] ?? '') : `[${messages.join(', ')}]`);

interface PodBinding {
  readonly pods: ServedKind;
  readonly current: Item;
  readonly binding: Binding;
  readonly now: number;
}

function bindPod({ pods, current: { object, revision }, binding: { metadata, target }, now }: PodBinding): KubeObject {
  const { spec, status, metadata: own = {}, ...rest } = object as Pod;
  const name = own.name ?? '';
  const { uid = '', resourceVersion = '', annotations, labels } = metadata ?? {};
  const bindingConflict = (why: string) => conflict({ group: '', resource: 'pods/binding' }, name, why);
  if (uid !== '' && uid !== own.uid)
    throw conflict(
      pods.resource,
      name,
      `StorageError: invalid object, Code: 4, Key: , ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: ${uid}, UID in object meta: ${own.uid ?? ''}`,
    );
  if (resourceVersion !== '' && resourceVersion !== String(revision)) throw conflict(pods.resource, name, objectModified);
  if (own.deletionTimestamp !== undefined) throw bindingConflict(`pod ${name} is being deleted, cannot be assigned to a host`);
  if ((spec?.nodeName ?? '') !== '') throw bindingConflict(`pod ${name} is already assigned to node ${JSON.stringify(spec?.nodeName)}`);
  if ((spec?.schedulingGates ?? []).length > 0) throw bindingConflict(`pod ${name} has non-empty .spec.schedulingGates`);
  const { nominatedNodeName: _nominated, ...kept } = status ?? {};
  const newSpec: PodSpec = copyFields(spec ?? {}, { containers: spec?.containers ?? [], nodeName: target.name ?? '' });
  const newStatus: PodStatus = copyFields(kept, {
    conditions: withCondition(kept.conditions, { type: 'PodScheduled', status: 'True' }, now),
  });
  const pod: Pod = {
    ...rest,
    metadata: {
      ...own,
      ...(annotations && { annotations: { ...own.annotations, ...annotations } }),
      ...(labels && { labels: { ...own.labels, ...labels } }),
    },
    spec: newSpec,
    status: newStatus,
  };
  return pod;
}
