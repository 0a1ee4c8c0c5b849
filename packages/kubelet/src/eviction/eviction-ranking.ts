import { parseQuantity, quantityValue } from '@oarlock/api/values/quantity';
import type { Pod } from '@oarlock/api/types/core-v1';
import { allContainers } from '../pod-util/pods.ts';
import { podRequest, requestOf } from '../pod-util/resources.ts';
import type { PodUsage } from '../stats/pod-usage.ts';
import { formatResource, type MetThreshold, type ReclaimableResource } from './thresholds.ts';

export interface EvictionCandidate {
  readonly pod: Pod;
  readonly usage: PodUsage;
}

function excess({ pod, usage }: EvictionCandidate, resource: ReclaimableResource): number {
  if (resource === 'memory') return usage.memory - quantityValue(podRequest(pod, 'memory'));
  if (resource === 'ephemeral-storage') return usage.disk - quantityValue(podRequest(pod, 'ephemeral-storage'));
  return resource === 'inodes' ? usage.inodes : (usage.processes ?? 0);
}

/** Returns the pods in eviction order: pods whose usage exceeds their requests first, then by lower priority, then by higher usage above requests. */
export function rankPodsForEviction(candidates: readonly EvictionCandidate[], resource: ReclaimableResource): readonly EvictionCandidate[] {
  const counted = resource === 'memory' || resource === 'ephemeral-storage';
  const ranked = candidates.map((candidate) => {
    const over = excess(candidate, resource);
    return { candidate, over, exceeds: counted && over > 0 ? 0 : 1, priority: candidate.pod.spec?.priority ?? 0 };
  });
  ranked.sort((a, b) => a.exceeds - b.exceeds || a.priority - b.priority || b.over - a.over);
  return ranked.map(({ candidate }) => candidate);
}

/** Returns the message of the pod's eviction, in upstream's words. */
export function evictionMessage({ resource, limit, available }: MetThreshold, { pod, usage }: EvictionCandidate): string {
  let message = `The node was low on resource: ${resource}. Threshold quantity: ${limit}, available: ${available}. `;
  if (resource !== 'memory' && resource !== 'ephemeral-storage') return message;
  for (const { container } of allContainers(pod)) {
    const used = usage.containers.get(container.name);
    if (used === undefined) continue;
    const bytes = resource === 'memory' ? used.memory : used.disk;
    const request = requestOf(container.resources, resource);
    if (bytes > quantityValue(request))
      message += `Container ${container.name} was using ${formatResource(bytes, resource)}, request is ${request.toString()}, has larger consumption of ${resource}. `;
  }
  return message;
}

/** A limit of local storage that a pod exceeds: upstream's eviction signal, and the message of the eviction. */
export interface ExceededLimit {
  readonly signal: 'emptydirfs.limit' | 'ephemeralcontainerfs.limit' | 'ephemeralpodfs.limit';
  readonly message: string;
}

/** Returns which limit of local storage the pod exceeds; undefined if the pod exceeds none. */
export function localStorageLimitExceeded({ pod, usage }: EvictionCandidate): ExceededLimit | undefined {
  for (const { name, emptyDir } of pod.spec?.volumes ?? []) {
    const limit = emptyDir?.sizeLimit;
    if (
      limit !== undefined &&
      quantityValue(parseQuantity(limit)) > 0 &&
      (usage.volumes.get(name) ?? 0) > quantityValue(parseQuantity(limit))
    )
      return { signal: 'emptydirfs.limit', message: `Usage of EmptyDir volume "${name}" exceeds the limit "${limit}". ` };
  }
  let total = 0;
  let limited = true;
  for (const { name, resources } of pod.spec?.containers ?? []) {
    const limit = resources?.limits?.['ephemeral-storage'];
    if (limit === undefined) {
      limited = false;
      continue;
    }
    const bytes = quantityValue(parseQuantity(limit));
    if ((usage.containers.get(name)?.disk ?? 0) > bytes)
      return { signal: 'ephemeralcontainerfs.limit', message: `Container ${name} exceeded its local ephemeral storage limit "${limit}". ` };
    total += bytes;
  }
  if (limited && usage.disk > total)
    return {
      signal: 'ephemeralpodfs.limit',
      message: `Pod ephemeral local storage usage exceeds the total limit of containers ${formatResource(total, 'ephemeral-storage')}. `,
    };
  return undefined;
}

/** Returns true if the pod has a size limit of an emptyDir volume or a container limit of ephemeral-storage. */
export function hasLocalStorageLimits({ spec }: Pod): boolean {
  return (
    spec?.volumes?.some(({ emptyDir }) => emptyDir?.sizeLimit !== undefined && emptyDir.medium !== 'Memory') === true ||
    spec?.containers.some(({ resources }) => resources?.limits?.['ephemeral-storage'] !== undefined) === true
  );
}
