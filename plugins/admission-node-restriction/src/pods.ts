import { jsonEqual } from '@oarlock/api/json/json';
import { nodes, pods } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { TokenRequest } from '@oarlock/api/types/authentication-v1';
import type { Pod } from '@oarlock/api/types/core-v1';
import { allow, deny, type AdmissionRequest, type AdmissionDecision } from '@oarlock/spi/admission';
import type { Authorizer } from '@oarlock/spi/authz';
import type { Client } from '@oarlock/spi/client';
import { changedLabels } from './node-labels.ts';
import { referenceOf } from './pod-references.ts';
import { admitTokenAudience } from './token-audience.ts';

const mirror = 'kubernetes.io/config.mirror';
const quoted = JSON.stringify;

/** Returns the pod, or undefined if it does not exist. */
async function podOf(client: Client, namespace: string, name: string): Promise<Pod | undefined> {
  try {
    return await client.get(pods, { namespace, name });
  } catch (error) {
    if (isStatus(error, 'NotFound')) return undefined;
    throw error;
  }
}

export async function admitPod(client: Client, node: string, request: AdmissionRequest): Promise<AdmissionDecision> {
  const { operation, namespace, name } = request;
  if (operation === 'CREATE') return admitMirrorPod(client, node, request.object ?? {});
  if (operation !== 'DELETE')
    return deny(`unexpected operation ${quoted(operation)}, node ${quoted(node)} can only create and delete mirror pods`);
  const found = (request.old as Pod | undefined) ?? (await podOf(client, namespace, name));
  return found === undefined || found.spec?.nodeName === node
    ? allow
    : deny(`node ${quoted(node)} can only delete pods with spec.nodeName set to itself`);
}

async function admitMirrorPod(client: Client, node: string, { metadata, spec }: Pod): Promise<AdmissionDecision> {
  if (metadata?.annotations?.[mirror] === undefined)
    return deny(`pod does not have ${quoted(mirror)} annotation, node ${quoted(node)} can only create mirror pods`);
  if (spec?.nodeName !== node) return deny(`node ${quoted(node)} can only create pods with spec.nodeName set to itself`);
  const owners = metadata.ownerReferences ?? [];
  if (owners.length > 1) return deny(`node ${quoted(node)} can only create pods with a single owner reference set to itself`);
  const [owner] = owners;
  if (owner === undefined || owner.apiVersion !== 'v1' || owner.kind !== 'Node' || owner.name !== node)
    return deny(`node ${quoted(node)} can only create pods with an owner reference set to itself`);
  if (owner.controller !== true) return deny(`node ${quoted(node)} can only create pods with a controller owner reference set to itself`);
  if (owner.blockOwnerDeletion === true) return deny(`node ${quoted(node)} must not set blockOwnerDeletion on an owner reference`);
  let uid: string | undefined;
  try {
    ({ uid } = (await client.get(nodes, { name: node })).metadata ?? {});
  } catch (error) {
    if (!isStatus(error, 'NotFound')) throw error;
  }
  if (owner.uid !== uid) return deny(`node ${node} UID mismatch: expected ${owner.uid} got ${uid ?? ''}`);
  const referred = referenceOf({ spec });
  return referred === undefined ? allow : deny(`node ${quoted(node)} can not create pods that reference ${referred}`);
}

export function admitPodStatus(node: string, { operation, object, old }: AdmissionRequest): AdmissionDecision {
  if (operation !== 'UPDATE') return deny(`unexpected operation ${quoted(operation)}`);
  const before: Pod = old ?? {};
  const after: Pod = object ?? {};
  if (before.spec?.nodeName !== node)
    return deny(`node ${quoted(node)} can only update pod status for pods with spec.nodeName set to itself`);
  if (changedLabels(after.metadata?.labels, before.metadata?.labels).length > 0)
    return deny(`node ${quoted(node)} cannot update labels through pod status`);
  if (!jsonEqual(after.status?.resourceClaimStatuses ?? [], before.status?.resourceClaimStatuses ?? []))
    return deny(`node ${quoted(node)} cannot update resource claim statues`);
  return jsonEqual(after.status?.extendedResourceClaimStatus ?? {}, before.status?.extendedResourceClaimStatus ?? {})
    ? allow
    : deny(`node ${quoted(node)} cannot update extended resource claim status`);
}

export async function admitPodEviction(
  client: Client,
  node: string,
  { operation, namespace, name, object }: AdmissionRequest,
): Promise<AdmissionDecision> {
  if (operation !== 'CREATE') return deny(`unexpected operation ${operation}`);
  const found = await podOf(client, namespace, name === '' ? (object?.metadata?.name ?? '') : name);
  return found === undefined || found.spec?.nodeName === node
    ? allow
    : deny(`node ${node} can only evict pods with spec.nodeName set to itself`);
}

export async function admitServiceAccountToken(
  needs: { readonly client: Client; readonly authz: readonly Authorizer[]; readonly restrictsAudiences: boolean },
  node: string,
  request: AdmissionRequest,
): Promise<AdmissionDecision> {
  const { namespace, object } = request;
  const { boundObjectRef: ref, audiences = [] } = (object as TokenRequest | undefined)?.spec ?? {};
  if (ref === undefined || ref.apiVersion !== 'v1' || ref.kind !== 'Pod' || !ref.name)
    return deny('node requested token not bound to a pod');
  if (!ref.uid) return deny('node requested token with a pod binding without a uid');
  const found = await podOf(needs.client, namespace, ref.name);
  if (found === undefined) return deny(`pods ${quoted(ref.name)} not found`, { reason: 'NotFound' });
  if (found.metadata?.uid !== ref.uid)
    return deny(
      `the UID in the bound object reference (${ref.uid}) does not match the UID in record. The object might have been deleted and then recreated`,
    );
  if (found.spec?.nodeName !== node) return deny('node requested token bound to a pod scheduled on a different node');
  // the feature gate ServiceAccountNodeAudienceRestriction
  if (!needs.restrictsAudiences) return allow;
  return admitTokenAudience(needs, { admissionRequest: request, audiences, pod: found });
}
