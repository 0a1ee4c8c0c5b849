import { parseQuantity, value } from '@oarlock/api/quantity';
import type { Pod } from '@oarlock/api/types/core-v1';
import { allContainers } from '../pods.ts';
import { podRequest, requestOf } from '../resources.ts';
import { configHash } from '../static/annotations.ts';
import type { PodUsage } from './pod-usage.ts';
import { shown, type Shortage, type ShortResource } from './thresholds.ts';

export interface Candidate {
  readonly pod: Pod;
  readonly usage: PodUsage;
}

const systemCritical = 2_000_000_000;

/** Pods that evictions spare: static ones, and those of a system priority class. */
export function isCritical({ metadata, spec }: Pod): boolean {
  // anybody may write annotations, but nobody chooses a uid
  const isStatic = metadata?.uid !== undefined && metadata.annotations?.[configHash] === metadata.uid;
  return isStatic || (spec?.priority ?? 0) >= systemCritical;
}

function excess({ pod, usage }: Candidate, resource: ShortResource): number {
  if (resource === 'memory') return usage.memory - value(podRequest(pod, 'memory'));
  if (resource === 'ephemeral-storage') return usage.disk - value(podRequest(pod, 'ephemeral-storage'));
  return resource === 'inodes' ? usage.inodes : (usage.processes ?? 0);
}

/** Who has to go first: who takes more than was asked for, then who matters less, then who takes most beyond it. */
export function evictionOrder(candidates: readonly Candidate[], resource: ShortResource): readonly Candidate[] {
  const counted = resource === 'memory' || resource === 'ephemeral-storage';
  const ranked = candidates.map((candidate) => {
    const over = excess(candidate, resource);
    return { candidate, over, exceeds: counted && over > 0 ? 0 : 1, priority: candidate.pod.spec?.priority ?? 0 };
  });
  ranked.sort((a, b) => a.exceeds - b.exceeds || a.priority - b.priority || b.over - a.over);
  return ranked.map(({ candidate }) => candidate);
}

/** Why a pod is evicted, in upstream's words. */
export function evictionMessage({ resource, limit, available }: Shortage, { pod, usage }: Candidate): string {
  let message = `The node was low on resource: ${resource}. Threshold quantity: ${limit}, available: ${available}. `;
  if (resource !== 'memory' && resource !== 'ephemeral-storage') return message;
  for (const { container } of allContainers(pod)) {
    const used = usage.containers.get(container.name);
    if (used === undefined) continue;
    const bytes = resource === 'memory' ? used.memory : used.disk;
    const request = requestOf(container.resources, resource);
    if (bytes > value(request))
      message += `Container ${container.name} was using ${shown(bytes, resource)}, request is ${request.toString()}, has larger consumption of ${resource}. `;
  }
  return message;
}

/** Why a pod takes more of the disk than its own limits allow; undefined: it does not. */
export function overOwnLimits({ pod, usage }: Candidate): string | undefined {
  for (const { name, emptyDir } of pod.spec?.volumes ?? []) {
    const limit = emptyDir?.sizeLimit;
    if (limit !== undefined && value(parseQuantity(limit)) > 0 && (usage.volumes.get(name) ?? 0) > value(parseQuantity(limit)))
      return `Usage of EmptyDir volume "${name}" exceeds the limit "${limit}". `;
  }
  let total = 0;
  let limited = true;
  for (const { name, resources } of pod.spec?.containers ?? []) {
    const limit = resources?.limits?.['ephemeral-storage'];
    if (limit === undefined) {
      limited = false;
      continue;
    }
    const bytes = value(parseQuantity(limit));
    if ((usage.containers.get(name)?.disk ?? 0) > bytes) return `Container ${name} exceeded its local ephemeral storage limit "${limit}". `;
    total += bytes;
  }
  if (limited && usage.disk > total)
    return `Pod ephemeral local storage usage exceeds the total limit of containers ${shown(total, 'ephemeral-storage')}. `;
  return undefined;
}

/** Whether a pod has any limit of its own on the disk. */
export function limitsDisk({ spec }: Pod): boolean {
  return (
    spec?.volumes?.some(({ emptyDir }) => emptyDir?.sizeLimit !== undefined && emptyDir.medium !== 'Memory') === true ||
    spec?.containers.some(({ resources }) => resources?.limits?.['ephemeral-storage'] !== undefined) === true
  );
}
