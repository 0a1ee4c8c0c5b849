import { hostPortConflicts, hostPorts } from '@oarlock/api/component-helpers/host-ports';
import { matchesRequiredNodeAffinity } from '@oarlock/api/component-helpers/node-affinity';
import { qosClass } from '@oarlock/api/component-helpers/qos-class';
import { isTolerated } from '@oarlock/api/component-helpers/tolerations';
import { milliValue, parseQuantity, quantityValue, type ParsedQuantity } from '@oarlock/api/values/quantity';
import type { Node, Pod } from '@oarlock/api/types/core-v1';
import type { AdmissionRejection } from '../pod-util/admission-rejection.ts';
import { noPressure, type NodePressure } from '../pod-util/node-pressure.ts';
import type { ResizeRejection } from '../pod-util/resize-status.ts';
import { isCriticalPod, podUid } from '../pod-util/pods.ts';
import { podRequest, type Resources } from '../pod-util/resources.ts';
import { forbiddenSysctl } from '../pod-util/sysctls.ts';

const standardResources = ['cpu', 'memory', 'ephemeral-storage'] as const;
/** The resources of the node that a pod uses: host ports, and quantities in millicores of CPU, bytes, or units of another resource. */
interface Usage {
  readonly resources: ReadonlyMap<string, number>;
  readonly ports: readonly string[];
}
const units = (name: string, amount: ParsedQuantity) => (name === 'cpu' ? milliValue(amount) : quantityValue(amount));

/**
 * Decides whether a pod that is bound to this node may run, and accounts for the resources of admitted pods. Rejects pods that the scheduler
 * did not check: pods that were bound manually, or bound while the node changed.
 */
export class NodeAdmission {
  readonly #pods = new Map<string, Usage>();
  readonly #used = new Map<string, number>();
  /** The number of pods that use each host port. The number may exceed 1, because pods found running at startup may conflict. */
  readonly #ports = new Map<string, number>();
  readonly #allocatable: () => Resources;
  readonly #node: () => Node | undefined;
  readonly #unsafeSysctls: readonly string[];
  readonly #pressure: () => NodePressure;
  readonly #shuttingDown: () => boolean;

  constructor(
    allocatable: () => Resources,
    node: () => Node | undefined,
    {
      unsafeSysctls = [],
      pressure = () => noPressure,
      shuttingDown = () => false,
    }: {
      readonly unsafeSysctls?: readonly string[] | undefined;
      readonly pressure?: () => NodePressure;
      readonly shuttingDown?: () => boolean;
    } = {},
  ) {
    this.#allocatable = allocatable;
    this.#node = node;
    this.#unsafeSysctls = unsafeSysctls;
    this.#pressure = pressure;
    this.#shuttingDown = shuttingDown;
  }

  get pods(): number {
    return this.#pods.size;
  }
  /** Returns true if the pod's resources are accounted for. */
  has(uid: string): boolean {
    return this.#pods.has(uid);
  }

  /** Admits the pod and accounts for its resources, or returns why the pod is rejected. */
  admit(pod: Pod): AdmissionRejection | undefined {
    if (this.#shuttingDown()) return { reason: 'NodeShutdown', message: 'Pod was rejected as the node is shutting down.' };
    const usage = usageOf(pod);
    const allocatable = this.#allocatable();
    const pods = parseQuantity(allocatable['pods'] ?? '0').scaled(1);
    if (this.#pods.size + 1 > pods) return outOfResource('pods', { requested: 1, used: this.#pods.size, capacity: pods });
    for (const [name, requested] of usage.resources) {
      const capacity = this.#capacityOf(name);
      if (capacity !== undefined && requested > 0 && this.#usedOf(name) + requested > capacity)
        return outOfResource(name, { requested, used: this.#usedOf(name), capacity });
    }
    const node = this.#node();
    if (node && !matchesRequiredNodeAffinity(pod.spec, node))
      return {
        reason: 'NodeAffinity',
        message: "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
      };
    if (usage.ports.some((port) => hostPortConflicts(port, this.#ports)))
      return {
        reason: 'NodePorts',
        message: "Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
      };
    const taint = node?.spec?.taints?.find((one) => one.effect === 'NoExecute' && !isTolerated(one, pod.spec?.tolerations ?? []));
    if (taint)
      return {
        reason: 'TaintToleration',
        message: "Pod was rejected: Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate",
      };
    if (pod.spec?.os?.name !== undefined && pod.spec.os.name !== 'linux')
      return { reason: 'PodOSNotSupported', message: "Pod was rejected: Failed to admit pod as the OS field doesn't match node OS" };
    // a runtime without this feature would add the image's groups nevertheless (KEP-3619)
    if (
      pod.spec?.securityContext?.supplementalGroupsPolicy === 'Strict' &&
      this.#node()?.status?.features?.supplementalGroupsPolicy !== true
    )
      return {
        reason: 'SupplementalGroupsPolicyNotSupported',
        message: 'Pod was rejected: SupplementalGroupsPolicy=Strict is not supported in this node',
      };
    const pressureCondition = underPressure(pod, this.#pressure());
    if (pressureCondition !== undefined) return { reason: 'Evicted', message: `The node had condition: [${pressureCondition}]. ` };
    const forbidden = forbiddenSysctl(pod, this.#unsafeSysctls);
    if (forbidden !== undefined) return { reason: 'SysctlForbidden', message: `Pod was rejected: ${forbidden}` };
    this.#add(pod, usage);
    return undefined;
  }

  /** Returns the quantity of each resource that the node lacks to run the pod. */
  insufficientResources(pod: Pod): ReadonlyMap<string, number> {
    const insufficient = new Map<string, number>();
    for (const [name, requested] of [...usageOf(pod).resources, ['pods', 1] as const]) {
      const used = name === 'pods' ? this.#pods.size : this.#usedOf(name);
      const missing = requested === 0 ? 0 : used + requested - (this.#capacityOf(name) ?? Infinity);
      if (missing > 0) insufficient.set(name, missing);
    }
    return insufficient;
  }

  /** Returns the node's allocatable quantity, or undefined if the node lacks the resource: a device plugin may have gone after the pod was bound. */
  #capacityOf(name: string): number | undefined {
    const own = this.#allocatable()[name];
    if (isStandardResource(name)) return own === undefined ? 0 : units(name, own);
    // the device manager accounts the resources of device plugins
    if (own !== undefined) return undefined;
    const advertised = this.#node()?.status?.allocatable?.[name];
    return advertised === undefined ? undefined : quantityValue(advertised);
  }
  #usedOf(name: string): number {
    return this.#used.get(name) ?? 0;
  }

  /** Accounts for the resized resources of an admitted pod, or returns why the resize is rejected. A decrease is always accepted. */
  resize(pod: Pod): ResizeRejection | undefined {
    const usage = usageOf(pod);
    const accounted = this.#pods.get(podUid(pod)) ?? noUsage;
    const larger = standardResources
      .map((name) => ({
        name,
        requested: usage.resources.get(name) ?? 0,
        has: accounted.resources.get(name) ?? 0,
        capacity: this.#capacityOf(name) ?? 0,
      }))
      .filter(({ requested, has }) => requested > has);
    for (const { name, requested, capacity } of larger)
      if (requested > capacity)
        return {
          reason: 'Infeasible',
          message: `Node didn't have enough capacity: ${name}, requested: ${requested}, capacity: ${capacity}`,
        };
    for (const { name, requested, has, capacity } of larger) {
      const used = this.#usedOf(name) - has;
      if (used + requested > capacity)
        return {
          reason: 'Deferred',
          message: `Node didn't have enough resource: ${insufficientMessage(name, { requested, used, capacity })}`,
        };
    }
    this.release(podUid(pod));
    this.#add(pod, usage);
    return undefined;
  }

  /** Accounts for the resources of a pod that already runs, without admission checks. */
  addRunningPod(pod: Pod): void {
    if (!this.#pods.has(podUid(pod))) this.#add(pod, usageOf(pod));
  }

  release(uid: string): void {
    const usage = this.#pods.get(uid);
    if (!usage) return;
    this.#pods.delete(uid);
    for (const [name, amount] of usage.resources) this.#used.set(name, this.#usedOf(name) - amount);
    for (const port of usage.ports) {
      const holders = this.#ports.get(port) ?? 0;
      if (holders > 1) this.#ports.set(port, holders - 1);
      else this.#ports.delete(port);
    }
  }

  #add(pod: Pod, usage: Usage): void {
    this.#pods.set(podUid(pod), usage);
    for (const [name, amount] of usage.resources) this.#used.set(name, this.#usedOf(name) + amount);
    for (const port of usage.ports) this.#ports.set(port, (this.#ports.get(port) ?? 0) + 1);
  }
}

/** Returns the pressure condition that prevents the pod's admission, or undefined. Memory pressure prevents only BestEffort pods. */
function underPressure(pod: Pod, { memory, disk, pids }: NodePressure): string | undefined {
  if ((!memory && !disk && !pids) || isCriticalPod(pod)) return undefined;
  if (disk) return 'DiskPressure';
  if (pids) return 'PIDPressure';
  const tolerates = isTolerated({ key: 'node.kubernetes.io/memory-pressure', effect: 'NoSchedule' }, pod.spec?.tolerations ?? []);
  return qosClass(pod.spec) === 'BestEffort' && !tolerates ? 'MemoryPressure' : undefined;
}

/** Returns true for resources that the node itself reports, as opposed to extended resources. */
const isStandardResource = (name: string) =>
  name === 'pods' || (standardResources as readonly string[]).includes(name) || name.startsWith('hugepages-');

function usageOf(pod: Pod): Usage {
  const { containers = [], initContainers = [], resources } = pod.spec ?? {};
  const names = new Set<string>(standardResources);
  for (const one of [resources, ...containers.map((each) => each.resources), ...initContainers.map((each) => each.resources)])
    for (const name of Object.keys({ ...one?.requests, ...one?.limits })) names.add(name);
  return { resources: new Map([...names].map((name) => [name, units(name, podRequest(pod, name))])), ports: hostPorts(pod) };
}

const noUsage: Usage = { resources: new Map(), ports: [] };
const insufficientMessage = (
  name: string,
  { requested, used, capacity }: { readonly requested: number; readonly used: number; readonly capacity: number },
) => `${name}, requested: ${requested}, used: ${used}, capacity: ${capacity}`;
const outOfResource = (
  name: string,
  { requested, used, capacity }: { readonly requested: number; readonly used: number; readonly capacity: number },
): AdmissionRejection => ({
  reason: `OutOf${name}`,
  message: `Pod was rejected: Node didn't have enough resource: ${insufficientMessage(name, { requested, used, capacity })}`,
});
