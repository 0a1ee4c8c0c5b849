import { qosClass } from '@oarlock/api/component-helpers/qos-class';
import { milliValue, parseQuantity, quantityValue } from '@oarlock/api/values/quantity';
import type { Pod } from '@oarlock/api/types/core-v1';
import { cpuQuota, cpuShares, hugepageSize, podLimit, podRequest } from '../pod-util/resources.ts';
import type { ResourceConfig } from './cgroupfs-manager.ts';

const hugepages = 'hugepages-';

/** Returns the pod's huge page limits in bytes, keyed by the kernel's name of the page size. */
function hugepagesOf(pod: Pod): Readonly<Record<string, number>> {
  const { containers = [], initContainers = [], resources } = pod.spec ?? {};
  const names = new Set(
    [resources, ...[...containers, ...initContainers].map((one) => one.resources)].flatMap((one) => Object.keys(one?.limits ?? {})),
  );
  return Object.fromEntries(
    [...names]
      .filter((name) => name.startsWith(hugepages))
      .map((name) => [hugepageSize(name.slice(hugepages.length)), quantityValue(podRequest(pod, name))]),
  );
}

/**
 * Returns the limits of a pod's cgroup from its pod-level resources (KEP-2837), or else from the sum of its containers' requests, and of their
 * limits if every container has one. `maxPids` is the node's limit per pod.
 */
export function podResourceConfig(pod: Pod, maxPids: number): Required<ResourceConfig> {
  const none = { cpuQuota: Infinity, memory: Infinity, pids: maxPids, hugepages: hugepagesOf(pod) };
  if (qosClass(pod.spec) === 'BestEffort') return { ...none, cpuShares: cpuShares(0) };
  const cpu = podLimit(pod, 'cpu');
  const memory = podLimit(pod, 'memory');
  return {
    ...none,
    cpuShares: cpuShares(milliValue(podRequest(pod, 'cpu'))),
    ...(cpu !== undefined && { cpuQuota: cpuQuota(milliValue(cpu)) }),
    ...(memory !== undefined && { memory: quantityValue(memory) }),
  };
}

/** Returns the limits of the cgroup of all pods: the machine's capacity minus the reserved resources. */
export function nodeResourceConfig(
  capacity: Readonly<Record<string, { toString(): string }>>,
  reserved: Readonly<Record<string, string>>,
): ResourceConfig {
  const left = (name: string, of: typeof quantityValue) =>
    of(parseQuantity(capacity[name]?.toString() ?? '0')) - of(parseQuantity(reserved[name] ?? '0'));
  const memory = left('memory', quantityValue);
  return { cpuShares: cpuShares(Math.max(0, left('cpu', milliValue))), memory: memory > 0 ? memory : Infinity };
}
