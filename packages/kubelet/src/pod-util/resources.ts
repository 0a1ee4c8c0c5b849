import { podResources } from '@oarlock/api/component-helpers/pod-resources';
import { qosClass } from '@oarlock/api/component-helpers/qos-class';
import { milliValue, parseQuantity, quantityValue, zeroQuantity, type ParsedQuantity } from '@oarlock/api/values/quantity';
import type { Container, EphemeralContainer, Pod, ResourceRequirements } from '@oarlock/api/types/core-v1';
import type { Quantity } from '@oarlock/api/types/meta-v1';
import type { LinuxResources, PodSandboxConfig } from '@oarlock/spi/runtime';

export type Resources = Readonly<Record<string, ParsedQuantity>>;

/** Returns a container's request of a resource, which defaults to the container's limit. */
export function requestOf(resources: ResourceRequirements | undefined, name: string): ParsedQuantity {
  return parseQuantity(resources?.requests?.[name] ?? resources?.limits?.[name] ?? '0');
}

/** Returns the pod's total request of a resource, including the pod overhead. */
export const podRequest = (pod: Pod, name: string): ParsedQuantity => podResources(pod, 'requests').get(name) ?? zeroQuantity;

/** Returns the pod's total limit of a resource, including the pod overhead; undefined if a container has no limit. */
export function podLimit(pod: Pod, name: string): ParsedQuantity | undefined {
  const { containers = [], initContainers = [], resources } = pod.spec ?? {};
  const hasLimit = (one: ResourceRequirements | undefined) => parseQuantity(one?.limits?.[name] ?? '0').sign > 0;
  if (!hasLimit(resources) && ![...containers, ...initContainers].every((one) => hasLimit(one.resources))) return undefined;
  return podResources(pod, 'limits').get(name);
}

/** Returns the CRI resources of a sandbox, for runtimes that run one virtual machine per pod. */
export function sandboxResources(pod: Pod): Pick<PodSandboxConfig['linux'], 'resources' | 'overhead'> {
  const { overhead } = pod.spec ?? {};
  const bare: Pod = overhead === undefined || pod.spec === undefined ? pod : { ...pod, spec: { ...pod.spec, overhead: {} } };
  const [cpu, memory] = [podLimit(bare, 'cpu'), podLimit(bare, 'memory')];
  return {
    resources: { cpuShares: cpuShares(milliValue(podRequest(bare, 'cpu'))), ...cpuAndMemoryLimits(cpu, memory) },
    ...(overhead && { overhead: cpuAndMemoryLimits(overhead['cpu'], overhead['memory']) }),
  };
}

const cpuAndMemoryLimits = (cpu: Quantity | ParsedQuantity | undefined, memory: Quantity | ParsedQuantity | undefined): LinuxResources => ({
  ...(cpu !== undefined && milliValue(cpu) > 0 && { cpuPeriod: period, cpuQuota: cpuQuota(milliValue(cpu)) }),
  ...(memory !== undefined && quantityValue(memory) > 0 && { memoryLimitBytes: quantityValue(memory) }),
});

const minShares = 2;
const maxShares = 262_144;
const period = 100_000;
/** The smallest CPU quota that the kernel accepts. Microseconds. */
const minQuota = 1000;

export function cpuShares(milliCpu: number): number {
  return milliCpu === 0 ? minShares : Math.min(maxShares, Math.max(minShares, Math.floor((milliCpu * 1024) / 1000)));
}
export function cpuQuota(milliCpu: number): number {
  return Math.max(minQuota, Math.floor((milliCpu * period) / 1000));
}

/** Returns the OOM score adjustment of a container. The kernel kills containers with 1000 first and containers with -997 last. */
export function oomScoreAdjust(pod: Pod, container: Container | EphemeralContainer, memoryCapacity: number): number {
  if ((pod.spec?.priority ?? 0) >= 2_000_000_000) return -997;
  const qos = qosClass(pod.spec);
  if (qos === 'Guaranteed') return -997;
  if (qos === 'BestEffort') return 1000;
  const request = quantityValue(requestOf(container.resources, 'memory'));
  const adjust = memoryCapacity > 0 ? Math.trunc(1000 - (1000 * request) / memoryCapacity) : 999;
  return adjust < 3 ? 3 : Math.min(adjust, 999);
}

const hugepages = 'hugepages-';
/** Returns the kernel's name of a huge page size, for example `2MB` for `2Mi`. */
export const hugepageSize = (size: string): string => size.replace(/i$/, 'B');

function hugepageLimits({ limits: of = {} }: ResourceRequirements = {}): Pick<LinuxResources, 'hugepageLimits'> {
  const found = Object.entries(of).filter(([name]) => name.startsWith(hugepages));
  if (found.length === 0) return {};
  return {
    hugepageLimits: found.map(([name, limit]) => ({ pageSize: hugepageSize(name.slice(hugepages.length)), limit: quantityValue(limit) })),
  };
}

export function linuxResources(
  pod: Pod,
  container: Container | EphemeralContainer,
  node: { readonly memoryCapacity: number; readonly cgroupV2: boolean },
): LinuxResources {
  const { limits, requests } = container.resources ?? {};
  const cpuLimit = limits?.['cpu'] ?? pod.spec?.resources?.limits?.['cpu'];
  const memoryLimit = limits?.['memory'] ?? pod.spec?.resources?.limits?.['memory'];
  const milliRequest =
    requests?.['cpu'] === undefined && limits?.['cpu'] !== undefined ? milliValue(limits['cpu']) : milliValue(requests?.['cpu'] ?? '0');
  return {
    cpuShares: cpuShares(milliRequest),
    ...cpuAndMemoryLimits(cpuLimit, memoryLimit),
    ...hugepageLimits(container.resources),
    oomScoreAdj: oomScoreAdjust(pod, container, node.memoryCapacity),
    // the OOM killer kills all processes of a container together
    ...(node.cgroupV2 && { unified: { 'memory.oom.group': '1' } }),
  };
}
