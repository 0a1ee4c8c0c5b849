import { controllerOf, controllerRef, isControlledBy, objectKey, type ObjectKey } from '@oarlock/api/object';
import { pods as podResource, resourceClaims, resourceClaimTemplates } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Pod, PodResourceClaim, PodResourceClaimStatus } from '@oarlock/api/types/core-v1';
import type { ResourceClaim, ResourceClaimTemplate } from '@oarlock/api/types/resource-v1';
import { Events, Informers, type Client, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext } from '@oarlock/spi/controller';
import { z } from 'zod';
import { claimsByConsumerIndex, consumerUids } from '../../indexes/resource-claims-by-consumer.ts';
import { addOwnerIndexes, controlledBy } from '../../ownership/controller-ref-manager.ts';
import { isTerminal, isTerminating } from '../../pods/pod-state.ts';
import { objectName, withTypeMeta } from '../../objects/object-identity.ts';

const podClaimKey = 'resource.kubernetes.io/pod-claim-name';
const finalizer = 'resource.kubernetes.io/delete-protection';
const podPrefix = 'pod:';
/** The manager of `status.resourceClaimStatuses` in the managedFields of pods. */
const fieldManager = 'ResourceClaimController';
const byTemplate = 'pods-of-claim-template';

const templatesOf = (pod: Pod) =>
  (pod.spec?.resourceClaims ?? []).flatMap(({ resourceClaimTemplateName: name }) =>
    name === undefined ? [] : [`${pod.metadata?.namespace}/${name}`],
  );
/** The length of a prefix that leaves space for a hyphen and five random characters in a name of 63 characters. */
const maxPrefixLength = 57;

/** Returns the prefix of claim names. As upstream, shortens the names of the pod and of its claim in proportion, so that the result shows both. */
function claimNamePrefix(podName: string, claimName: string): string {
  const prefix = `${podName}-${claimName}-`;
  if (prefix.length <= maxPrefixLength) return prefix;
  const shorten = (name: string) => name.slice(0, Math.floor((name.length * maxPrefixLength) / prefix.length));
  return `${shorten(podName)}-${shorten(claimName)}`;
}

/** Returns true if the pod will not use its ResourceClaims any more: it is terminal, or was deleted before it was scheduled. */
const isPodDone = (pod: Pod) => isTerminal(pod) || (isTerminating(pod) && !pod.spec?.nodeName);

interface ResourceClaimControllerOptions {
  readonly pods: Informer<Pod>;
  readonly claims: Informer<ResourceClaim>;
  readonly templates: Informer<ResourceClaimTemplate>;
  readonly recorder: EventRecorder;
}

/** Creates ResourceClaims from ResourceClaimTemplates for pods, and deallocates ResourceClaims whose pods are done. */
export class ResourceClaimController implements Controller {
  readonly name = 'resource-claim';
  readonly watches;
  readonly #options: ResourceClaimControllerOptions;

  constructor(options: ResourceClaimControllerOptions) {
    this.#options = options;
    const { pods, claims, templates } = options;
    addOwnerIndexes(claims);
    claims.addIndexer(claimsByConsumerIndex, consumerUids);
    pods.addIndexer(byTemplate, templatesOf);
    this.watches = [
      watch(pods, (pod) => {
        if ((pod.spec?.resourceClaims ?? []).length === 0 && pod.status?.extendedResourceClaimStatus === undefined) return [];
        const reserved = claims.byIndex(claimsByConsumerIndex, pod.metadata?.uid ?? '').map(objectKey);
        const owned = controlledBy(claims, pod.metadata?.uid ?? '').map(objectKey);
        return [`${podPrefix}${objectKey(pod)}`, ...reserved, ...owned];
      }),
      watch(claims, (claim) => {
        const owner = controllerOf(claim);
        return [objectKey(claim), ...(owner?.kind === 'Pod' ? [`${podPrefix}${claim.metadata?.namespace}/${owner.name}`] : [])];
      }),
      watch(templates, (template) => pods.byIndex(byTemplate, objectKey(template)).map((pod) => `${podPrefix}${objectKey(pod)}`)),
    ];
  }

  async reconcile(key: ObjectKey, { client }: ReconcileContext): Promise<void> {
    if (!key.startsWith(podPrefix)) {
      const claim = this.#options.claims.get(key);
      if (claim !== undefined) await this.#release(claim, client);
      return;
    }
    const pod = this.#options.pods.get(key.slice(podPrefix.length));
    if (pod !== undefined && !isTerminating(pod) && !isTerminal(pod)) await this.#createClaims(pod, client);
  }

  async #createClaims(pod: Pod, client: Client): Promise<void> {
    const statuses: PodResourceClaimStatus[] = [];
    for (const podClaim of pod.spec?.resourceClaims ?? []) {
      if (podClaim.resourceClaimTemplateName === undefined) continue;
      const known = pod.status?.resourceClaimStatuses?.find(({ name }) => name === podClaim.name);
      // an existing status entry is final: a deleted claim is not created again
      if (known !== undefined) statuses.push(known);
      else statuses.push({ name: podClaim.name, resourceClaimName: await this.#claimFor(pod, podClaim, client) });
    }
    if (statuses.length === (pod.status?.resourceClaimStatuses ?? []).length) return;
    const { namespace = '', name = '', uid } = pod.metadata ?? {};
    const applied = {
      apiVersion: 'v1',
      kind: 'Pod',
      // the uid prevents the creation of the status for another pod of the same name
      metadata: { namespace, name, ...(uid !== undefined && { uid }) },
      status: { resourceClaimStatuses: statuses },
    };
    try {
      await client.patch(podResource, { namespace, name }, 'apply', applied, { subresource: 'status', fieldManager, force: true });
    } catch (error) {
      if (!isStatus(error, 'NotFound', 'Conflict')) throw error;
    }
  }

  async #claimFor(pod: Pod, { name, resourceClaimTemplateName = '' }: PodResourceClaim, client: Client): Promise<string> {
    const { claims, templates, recorder } = this.#options;
    const namespace = pod.metadata?.namespace ?? '';
    const isFor = ({ metadata }: ResourceClaim) => metadata?.annotations?.[podClaimKey] === name;
    // may have been created before a crash and not be in the cache yet
    let existing = controlledBy(claims, pod.metadata?.uid ?? '').find(isFor);
    if (existing === undefined) {
      const { items } = await client.list(resourceClaims, { namespace });
      existing = items.find((claim) => isControlledBy(claim, pod) && isFor(claim));
    }
    if (existing !== undefined) return existing.metadata?.name ?? '';
    const template = templates.get(`${namespace}/${resourceClaimTemplateName}`);
    try {
      if (template === undefined) throw new Error(`resource claim template "${resourceClaimTemplateName}" not found`);
      const { metadata, spec } = template.spec;
      const claim = await client.create(resourceClaims, {
        apiVersion: 'resource.k8s.io/v1',
        kind: 'ResourceClaim',
        metadata: {
          generateName: claimNamePrefix(pod.metadata?.name ?? '', name),
          namespace,
          ...(metadata?.labels && { labels: metadata.labels }),
          annotations: { ...metadata?.annotations, [podClaimKey]: name },
          ownerReferences: [controllerRef(withTypeMeta(podResource, pod))],
        },
        spec,
      });
      return claim.metadata?.name ?? '';
    } catch (error) {
      recorder.event(pod, 'Warning', 'FailedResourceClaimCreation', `PodResourceClaim ${name}: ${(error as Error).message}`);
      throw error;
    }
  }

  /**
   * Removes pods that are deleted or done from `status.reservedFor`. When no pod is left, deallocates the claim. Deletes a claim that was created
   * for a pod when that pod is done.
   */
  async #release(claim: ResourceClaim, client: Client): Promise<void> {
    const reserved = claim.status?.reservedFor ?? [];
    const remaining = [];
    for (const consumer of reserved)
      if (
        consumer.resource !== 'pods' ||
        (consumer.apiGroup ?? '') !== '' ||
        (await this.#isInUseBy(claim, { name: consumer.name, uid: consumer.uid, client }))
      )
        remaining.push(consumer);
    let current = claim;
    if (
      remaining.length < reserved.length ||
      (remaining.length === 0 && claim.status?.allocation !== undefined && this.#isBeingDeleted(claim))
    ) {
      const { allocation, reservedFor: _all, ...rest } = claim.status ?? {};
      const status = remaining.length > 0 ? { ...rest, ...(allocation && { allocation }), reservedFor: remaining } : rest;
      current = await client.update(resourceClaims, { ...withTypeMeta(resourceClaims, claim), status }, { subresource: 'status' });
    }
    const finalizers = current.metadata?.finalizers ?? [];
    // the scheduler adds the finalizer before it allocates: keep it while an allocation may be in progress
    const isUnused = current !== claim || this.#isBeingDeleted(current);
    if (current.status?.allocation === undefined && finalizers.includes(finalizer) && isUnused)
      current = await client.update(resourceClaims, {
        ...withTypeMeta(resourceClaims, current),
        metadata: { ...current.metadata, finalizers: finalizers.filter((each) => each !== finalizer) },
      });
    const owner = controllerOf(current);
    if (owner?.kind !== 'Pod' || current.metadata?.deletionTimestamp !== undefined) return;
    const pod = this.#options.pods.get(`${current.metadata?.namespace}/${owner.name}`);
    if (pod?.metadata?.uid === owner.uid && isPodDone(pod)) {
      try {
        await client.delete(resourceClaims, objectName(current), { preconditions: { uid: current.metadata?.uid ?? '' } });
      } catch (error) {
        if (!isStatus(error, 'NotFound', 'Conflict')) throw error;
      }
    }
  }

  /** Returns true if the claim is being deleted; such a claim is deallocated when it has no more consumers. */
  #isBeingDeleted({ metadata }: ResourceClaim): boolean {
    return metadata?.deletionTimestamp !== undefined;
  }

  async #isInUseBy(
    claim: ResourceClaim,
    { name, uid, client }: { readonly name: string; readonly uid: string; readonly client: Client },
  ): Promise<boolean> {
    const namespace = claim.metadata?.namespace ?? '';
    const cached = this.#options.pods.get(`${namespace}/${name}`);
    if (cached?.metadata?.uid === uid) return !isPodDone(cached);
    try {
      // the reservation may be newer than the pod cache
      const live = await client.get(podResource, { namespace, name });
      return live.metadata?.uid === uid && !isPodDone(live);
    } catch (error) {
      if (isStatus(error, 'NotFound')) return false;
      throw error;
    }
  }
}

export default Controllers.plugin({
  id: 'controller-resource-claim',
  declares: { loop: 'resource-claim' },
  config: z.strictObject({}),
  needs: { informers: Informers, events: Events },
  create: ({ informers, events }) =>
    new ResourceClaimController({
      pods: informers.forResource(podResource),
      claims: informers.forResource(resourceClaims),
      templates: informers.forResource(resourceClaimTemplates),
      recorder: events.recorder('resource_claim'),
    }),
});
