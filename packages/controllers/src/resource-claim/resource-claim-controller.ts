import { controllerOf, controllerRef, objectKey, type ObjectKey } from '@oarlock/api/object';
import { pods as podResource, resourceClaims, resourceClaimTemplates } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Pod, PodResourceClaim, PodResourceClaimStatus } from '@oarlock/api/types/core-v1';
import type { ResourceClaim, ResourceClaimTemplate } from '@oarlock/api/types/resource-v1';
import { Events, Informers, type Client, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext } from '@oarlock/spi/controller';
import { z } from 'zod';
import { byConsumer, consumersOf } from '../claims-by-consumer.ts';
import { indexByOwner, ownedBy } from '../ownership.ts';
import { isTerminal, isTerminating } from '../pod-state.ts';
import { nameOf, typed } from '../pod-template.ts';

const podClaimKey = 'resource.kubernetes.io/pod-claim-name';
const finalizer = 'resource.kubernetes.io/delete-protection';
const podPrefix = 'pod:';
const byTemplate = 'pods-of-claim-template';

const templatesOf = (pod: Pod) =>
  (pod.spec?.resourceClaims ?? []).flatMap(({ resourceClaimTemplateName: name }) =>
    name === undefined ? [] : [`${pod.metadata?.namespace}/${name}`],
  );
/** It uses nothing any more, and will not. */
const isDone = (pod: Pod) => isTerminal(pod) || (isTerminating(pod) && !pod.spec?.nodeName);

interface Parts {
  readonly pods: Informer<Pod>;
  readonly claims: Informer<ResourceClaim>;
  readonly templates: Informer<ResourceClaimTemplate>;
  readonly recorder: EventRecorder;
}

/** Makes the claims of pods that ask for devices by a template, and frees what pods that are done have reserved. */
export class ResourceClaimController implements Controller {
  readonly name = 'resource-claim';
  readonly watches;
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
    const { pods, claims, templates } = parts;
    indexByOwner(claims);
    claims.addIndex(byConsumer, consumersOf);
    pods.addIndex(byTemplate, templatesOf);
    this.watches = [
      watch(pods, (pod) => {
        if ((pod.spec?.resourceClaims ?? []).length === 0 && pod.status?.extendedResourceClaimStatus === undefined) return [];
        const held = claims.byIndex(byConsumer, pod.metadata?.uid ?? '').map(objectKey);
        const own = ownedBy(claims, pod.metadata?.uid ?? '').map(objectKey);
        return [`${podPrefix}${objectKey(pod)}`, ...held, ...own];
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
      const claim = this.#parts.claims.get(key);
      if (claim !== undefined) await this.#release(claim, client);
      return;
    }
    const pod = this.#parts.pods.get(key.slice(podPrefix.length));
    if (pod !== undefined && !isTerminating(pod) && !isTerminal(pod)) await this.#provide(pod, client);
  }

  async #provide(pod: Pod, client: Client): Promise<void> {
    const statuses: PodResourceClaimStatus[] = [];
    for (const wanted of pod.spec?.resourceClaims ?? []) {
      if (wanted.resourceClaimTemplateName === undefined) continue;
      const known = pod.status?.resourceClaimStatuses?.find(({ name }) => name === wanted.name);
      // a name is settled once: what became of the claim is not ours to repair
      if (known !== undefined) statuses.push(known);
      else statuses.push({ name: wanted.name, resourceClaimName: await this.#claimFor(pod, wanted, client) });
    }
    if (statuses.length === (pod.status?.resourceClaimStatuses ?? []).length) return;
    try {
      await client.update(
        podResource,
        { ...typed(podResource, pod), status: { ...pod.status, resourceClaimStatuses: statuses } },
        { subresource: 'status' },
      );
    } catch (error) {
      if (!isStatus(error, 'NotFound')) throw error;
    }
  }

  async #claimFor(pod: Pod, { name, resourceClaimTemplateName = '' }: PodResourceClaim, client: Client): Promise<string> {
    const { claims, templates, recorder } = this.#parts;
    const namespace = pod.metadata?.namespace ?? '';
    const isFor = ({ metadata }: ResourceClaim) => metadata?.annotations?.[podClaimKey] === name;
    // made before we were cut off, and perhaps not in the cache yet
    let made = ownedBy(claims, pod.metadata?.uid ?? '').find(isFor);
    if (made === undefined) {
      const { items } = await client.list(resourceClaims, { namespace });
      made = items.find((claim) => controllerOf(claim)?.uid === pod.metadata?.uid && isFor(claim));
    }
    if (made !== undefined) return made.metadata?.name ?? '';
    const template = templates.get(`${namespace}/${resourceClaimTemplateName}`);
    try {
      if (template === undefined) throw new Error(`resource claim template "${resourceClaimTemplateName}" not found`);
      const { metadata, spec } = template.spec;
      const claim = await client.create(resourceClaims, {
        apiVersion: 'resource.k8s.io/v1',
        kind: 'ResourceClaim',
        metadata: {
          generateName: `${pod.metadata?.name}-${name}-`,
          namespace,
          ...(metadata?.labels && { labels: metadata.labels }),
          annotations: { ...metadata?.annotations, [podClaimKey]: name },
          ownerReferences: [controllerRef(typed(podResource, pod))],
        },
        spec,
      });
      return claim.metadata?.name ?? '';
    } catch (error) {
      recorder.event(pod, 'Warning', 'FailedResourceClaimCreation', `PodResourceClaim ${name}: ${(error as Error).message}`);
      throw error;
    }
  }

  /** Consumers that are gone or done are struck off; after the last the devices are free, and a claim of the pod's own goes. */
  async #release(claim: ResourceClaim, client: Client): Promise<void> {
    const reserved = claim.status?.reservedFor ?? [];
    const kept = [];
    for (const consumer of reserved)
      if (
        consumer.resource !== 'pods' ||
        (consumer.apiGroup ?? '') !== '' ||
        (await this.#uses(claim, consumer.name, consumer.uid, client))
      )
        kept.push(consumer);
    let current = claim;
    if (kept.length < reserved.length || (kept.length === 0 && claim.status?.allocation !== undefined && this.#isLeft(claim))) {
      const { allocation, reservedFor: _all, ...rest } = claim.status ?? {};
      const status = kept.length > 0 ? { ...rest, ...(allocation && { allocation }), reservedFor: kept } : rest;
      current = await client.update(resourceClaims, { ...typed(resourceClaims, claim), status }, { subresource: 'status' });
    }
    const finalizers = current.metadata?.finalizers ?? [];
    // a scheduler writes it before it allocates: what it has just begun is not over
    const isOver = current !== claim || this.#isLeft(current);
    if (current.status?.allocation === undefined && finalizers.includes(finalizer) && isOver)
      current = await client.update(resourceClaims, {
        ...typed(resourceClaims, current),
        metadata: { ...current.metadata, finalizers: finalizers.filter((each) => each !== finalizer) },
      });
    const owner = controllerOf(current);
    if (owner?.kind !== 'Pod' || current.metadata?.deletionTimestamp !== undefined) return;
    const pod = this.#parts.pods.get(`${current.metadata?.namespace}/${owner.name}`);
    if (pod?.metadata?.uid === owner.uid && isDone(pod)) {
      try {
        await client.delete(resourceClaims, nameOf(current), { preconditions: { uid: current.metadata?.uid ?? '' } });
      } catch (error) {
        if (!isStatus(error, 'NotFound', 'Conflict')) throw error;
      }
    }
  }

  /** Deleted, and nobody uses it: then what is allocated is given back. */
  #isLeft({ metadata }: ResourceClaim): boolean {
    return metadata?.deletionTimestamp !== undefined;
  }

  async #uses(claim: ResourceClaim, name: string, uid: string, client: Client): Promise<boolean> {
    const namespace = claim.metadata?.namespace ?? '';
    const cached = this.#parts.pods.get(`${namespace}/${name}`);
    if (cached?.metadata?.uid === uid) return !isDone(cached);
    try {
      // the reservation may be newer than the cache
      const live = await client.get(podResource, { namespace, name });
      return live.metadata?.uid === uid && !isDone(live);
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
      pods: informers.of(podResource),
      claims: informers.of(resourceClaims),
      templates: informers.of(resourceClaimTemplates),
      recorder: events.recorder('resource_claim'),
    }),
});
