import { qosClass } from '@oarlock/api/pod-qos';
import { milliValue, parseQuantity, value } from '@oarlock/api/quantity';
import type { Pod } from '@oarlock/api/types/core-v1';
import { cpuQuota, cpuShares, hugepageSize, podLimit, podRequest } from '../resources.ts';
import type { CgroupBounds } from './cgroup-tree.ts';

const hugepages = 'hugepages-';

/** What a pod may take of huge pages as a whole, by the kernel's names of their sizes. */
function hugepagesOf(pod: Pod): Readonly<Record<string, number>> {
  const { containers = [], initContainers = [], resources } = pod.spec ?? {};
  const names = new Set(
    [resources, ...[...containers, ...initContainers].map((one) => one.resources)].flatMap((one) => Object.keys(one?.limits ?? {})),
  );
  return Object.fromEntries(
    [...names]
      .filter((name) => name.startsWith(hugepages))
      .map((name) => [hugepageSize(name.slice(hugepages.length)), value(podRequest(pod, name))]),
  );
}

/**
 * What bounds the cgroup of a pod: all it asks for, and all limits together where everything in it has one (KEP-2837).
 * `maxPids`: what the node lets any pod have.
 */
export function podBounds(pod: Pod, maxPids: number): Required<CgroupBounds> {
  const none = { cpuQuota: Infinity, memory: Infinity, pids: maxPids, hugepages: hugepagesOf(pod) };
  if (qosClass(pod.spec) === 'BestEffort') return { ...none, cpuShares: cpuShares(0) };
  const cpu = podLimit(pod, 'cpu');
  const memory = podLimit(pod, 'memory');
  return {
    ...none,
    cpuShares: cpuShares(milliValue(podRequest(pod, 'cpu'))),
    ...(cpu !== undefined && { cpuQuota: cpuQuota(milliValue(cpu)) }),
    ...(memory !== undefined && { memory: value(memory) }),
  };
}

/** What bounds all pods of a machine together: what it has without what is kept from them. */
export function nodeBounds(
  capacity: Readonly<Record<string, { toString(): string }>>,
  reserved: Readonly<Record<string, string>>,
): CgroupBounds {
  const left = (name: string, of: typeof value) =>
    of(parseQuantity(capacity[name]?.toString() ?? '0')) - of(parseQuantity(reserved[name] ?? '0'));
  const memory = left('memory', value);
  return { cpuShares: cpuShares(Math.max(0, left('cpu', milliValue))), memory: memory > 0 ? memory : Infinity };
}
