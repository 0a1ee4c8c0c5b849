import { qosClass } from '@oarlock/api/pod-qos';
import { addQuantity, milliValue, parseQuantity, value, zero, type Amount } from '@oarlock/api/quantity';
import type { Container, EphemeralContainer, Pod, ResourceRequirements } from '@oarlock/api/types/core-v1';
import type { Quantity } from '@oarlock/api/types/meta-v1';
import type { LinuxResources, PodSandboxConfig } from '@oarlock/spi/runtime';
import { isSidecar } from './pods.ts';

export type Amounts = Readonly<Record<string, Amount>>;

/** What a container asks for; a limit without a request is one. */
export function requestOf(resources: ResourceRequirements | undefined, name: string): Amount {
  return parseQuantity(resources?.requests?.[name] ?? resources?.limits?.[name] ?? '0');
}

/** The larger of what runs together and of each step of initialization (KEP-753). */
function together(pod: Pod, of: (container: Container) => Amount): Amount {
  const { containers = [], initContainers = [] } = pod.spec ?? {};
  let total = zero;
  for (const container of containers) total = addQuantity(total, of(container));
  let sidecars = zero;
  let peak = zero;
  for (const container of initContainers) {
    const step = addQuantity(sidecars, of(container));
    if (isSidecar(container)) sidecars = step;
    if (step.compare(peak) > 0) peak = step;
  }
  total = addQuantity(total, sidecars);
  return peak.compare(total) > 0 ? peak : total;
}

const withOverhead = ({ spec }: Pod, name: string, total: Amount) =>
  spec?.overhead?.[name] === undefined ? total : addQuantity(total, spec.overhead[name]);

/** What a pod takes of a node, with overhead. */
export function podRequest(pod: Pod, name: string): Amount {
  const { resources } = pod.spec ?? {};
  const whole = resources?.requests?.[name] !== undefined || resources?.limits?.[name] !== undefined;
  return withOverhead(pod, name, whole ? requestOf(resources, name) : together(pod, (one) => requestOf(one.resources, name)));
}

/** What a pod may take as a whole, with overhead; undefined when one of its containers may take as much as there is. */
export function podLimit(pod: Pod, name: string): Amount | undefined {
  const { containers = [], initContainers = [], resources } = pod.spec ?? {};
  const limitOf = (one: ResourceRequirements | undefined) => parseQuantity(one?.limits?.[name] ?? '0');
  const whole = limitOf(resources);
  if (whole.sign > 0) return withOverhead(pod, name, whole);
  if ([...containers, ...initContainers].some((one) => limitOf(one.resources).sign <= 0)) return undefined;
  return withOverhead(
    pod,
    name,
    together(pod, (one) => limitOf(one.resources)),
  );
}

/** What all containers of a pod may take, and what its RuntimeClass adds: runtimes with a machine for each pod make it so large. */
export function sandboxResources(pod: Pod): Pick<PodSandboxConfig['linux'], 'resources' | 'overhead'> {
  const { overhead } = pod.spec ?? {};
  const bare: Pod = overhead === undefined || pod.spec === undefined ? pod : { ...pod, spec: { ...pod.spec, overhead: {} } };
  const [cpu, memory] = [podLimit(bare, 'cpu'), podLimit(bare, 'memory')];
  return {
    resources: { cpuShares: cpuShares(milliValue(podRequest(bare, 'cpu'))), ...bounded(cpu, memory) },
    ...(overhead && { overhead: bounded(overhead['cpu'], overhead['memory']) }),
  };
}

const bounded = (cpu: Quantity | Amount | undefined, memory: Quantity | Amount | undefined): LinuxResources => ({
  ...(cpu !== undefined && milliValue(cpu) > 0 && { cpuPeriod: period, cpuQuota: cpuQuota(milliValue(cpu)) }),
  ...(memory !== undefined && value(memory) > 0 && { memoryLimitBytes: value(memory) }),
});

const minShares = 2;
const maxShares = 262_144;
const period = 100_000;
const minQuota = 1000;

export function cpuShares(milliCpu: number): number {
  return milliCpu === 0 ? minShares : Math.min(maxShares, Math.max(minShares, Math.floor((milliCpu * 1024) / 1000)));
}
export function cpuQuota(milliCpu: number): number {
  return Math.max(minQuota, Math.floor((milliCpu * period) / 1000));
}

/** How soon the kernel kills a container when memory is short: -997 last, 1000 first. */
export function oomScoreAdjust(pod: Pod, container: Container | EphemeralContainer, memoryCapacity: number): number {
  if ((pod.spec?.priority ?? 0) >= 2_000_000_000) return -997;
  const qos = qosClass(pod.spec);
  if (qos === 'Guaranteed') return -997;
  if (qos === 'BestEffort') return 1000;
  const request = value(requestOf(container.resources, 'memory'));
  const adjust = memoryCapacity > 0 ? Math.trunc(1000 - (1000 * request) / memoryCapacity) : 999;
  return adjust < 3 ? 3 : Math.min(adjust, 999);
}

const hugepages = 'hugepages-';
/** `2Mi` as the kernel names files of huge pages: `2MB`. */
export const hugepageSize = (size: string): string => size.replace(/i$/, 'B');

function hugepageLimits({ limits: of = {} }: ResourceRequirements = {}): Pick<LinuxResources, 'hugepageLimits'> {
  const found = Object.entries(of).filter(([name]) => name.startsWith(hugepages));
  if (found.length === 0) return {};
  return { hugepageLimits: found.map(([name, limit]) => ({ pageSize: hugepageSize(name.slice(hugepages.length)), limit: value(limit) })) };
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
    ...bounded(cpuLimit, memoryLimit),
    ...hugepageLimits(container.resources),
    oomScoreAdj: oomScoreAdjust(pod, container, node.memoryCapacity),
    // all processes of a container die together rather than leave half of it
    ...(node.cgroupV2 && { unified: { 'memory.oom.group': '1' } }),
  };
}
