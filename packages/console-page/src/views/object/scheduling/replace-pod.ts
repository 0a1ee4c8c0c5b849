import type { ApiClient, KubeObject } from '../../../api/client.ts';
import { changedPod, type WhatIf } from './explanation.ts';

const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration';

/**
 * Returns true for a pod that can be replaced by a changed one without a loss: no controller would create it again, it has never been on a node, and nothing
 * delays its deletion. The pods of a workload are changed in the workload's template.
 */
export function isReplaceable({ metadata, spec }: KubeObject): boolean {
  const { ownerReferences = [], finalizers = [], deletionTimestamp } = metadata;
  const { nodeName = '' } = (spec ?? {}) as { readonly nodeName?: string };
  return (
    nodeName === '' &&
    finalizers.length === 0 &&
    deletionTimestamp === undefined &&
    !ownerReferences.some(({ controller }) => controller === true)
  );
}

/** Returns true if the pod is changed, and no node: a node cannot be replaced from here. */
export const changesOnlyPod = ({ cpu, memory, toleratesAll, ignoresNodeSelector, nodes }: WhatIf): boolean =>
  nodes.length === 0 && (cpu !== '' || memory !== '' || toleratesAll || ignoresNodeSelector);

/** Returns the pod to create: the changed copy, without the fields that belong to the existing object. */
export function replacementOf(pod: KubeObject, changes: WhatIf): object {
  const { spec } = changedPod(pod, changes);
  const { name, namespace, labels, annotations = {}, ownerReferences } = pod.metadata;
  const { [lastApplied]: _, ...kept } = annotations;
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace, ...(labels && { labels }), annotations: kept, ...(ownerReferences && { ownerReferences }) },
    spec,
  };
}

/**
 * Deletes the pod, and creates the changed one with its name. A dry run under another name comes first, so that a pod that the server rejects does not cost the
 * existing one.
 * @throws ApiError if the server rejects the new pod, or if the pod was changed meanwhile, such as by a scheduler that found a node
 */
export async function replacePod(client: ApiClient, pod: KubeObject, changes: WhatIf): Promise<void> {
  const { namespace = '', name, uid, resourceVersion } = pod.metadata;
  const pods = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods`;
  const replacement = replacementOf(pod, changes) as { readonly metadata: object };
  const query = { fieldManager: 'oarlock-console', fieldValidation: 'Strict' };
  const { name: _, ...unnamed } = replacement.metadata as { readonly name: string };
  const trial = { ...replacement, metadata: { ...unnamed, generateName: 'replacement-' } };
  await client.json(pods, { method: 'POST', query: { ...query, dryRun: 'All' }, body: JSON.stringify(trial) });
  await client.json(`${pods}/${encodeURIComponent(name)}`, {
    method: 'DELETE',
    body: JSON.stringify({ kind: 'DeleteOptions', apiVersion: 'v1', gracePeriodSeconds: 0, preconditions: { uid, resourceVersion } }),
  });
  await client.json(pods, { method: 'POST', query, body: JSON.stringify(replacement) });
}
