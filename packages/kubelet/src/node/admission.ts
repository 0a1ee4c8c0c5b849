import { collides, hostPorts } from '@oarlock/api/host-ports';
import { qosClass } from '@oarlock/api/pod-qos';
import { milliValue, parseQuantity, value, type Amount } from '@oarlock/api/quantity';
import type { Node, NodeSelectorRequirement, NodeSelectorTerm, Pod, Taint, Toleration } from '@oarlock/api/types/core-v1';
import type { ResizeRefusal } from '../pod-resize.ts';
import { podUid } from '../pods.ts';
import { podRequest, type Amounts } from '../resources.ts';
import { isCritical } from './eviction-order.ts';
import { forbiddenSysctl } from './sysctls.ts';
import { noPressure, type Pressure } from './thresholds.ts';

export interface Refusal {
  readonly reason: string;
  readonly message: string;
}

const counted = ['cpu', 'memory', 'ephemeral-storage'] as const;
/** What a pod takes: thousandths of a cpu, bytes, or pieces of what only some nodes have; and host ports. */
interface Usage {
  readonly amounts: ReadonlyMap<string, number>;
  readonly ports: readonly string[];
}
const units = (name: string, amount: Amount) => (name === 'cpu' ? milliValue(amount) : value(amount));

/**
 * Whether a pod that was bound to the node may run on it. The scheduler has looked already; this catches what it could not know: pods bound by
 * hand, or bound while something changed. Also keeps the books of what pods take.
 */
export class NodeAdmission {
  readonly #pods = new Map<string, Usage>();
  readonly #used = new Map<string, number>();
  /** How many pods hold each: pods that were found running may collide. */
  readonly #ports = new Map<string, number>();
  readonly #allocatable: () => Amounts;
  readonly #node: () => Node | undefined;
  readonly #unsafeSysctls: readonly string[];
  readonly #pressure: () => Pressure;
  readonly #goingDown: () => boolean;

  constructor(
    allocatable: () => Amounts,
    node: () => Node | undefined,
    unsafeSysctls: readonly string[] = [],
    pressure: () => Pressure = () => noPressure,
    goingDown: () => boolean = () => false,
  ) {
    this.#allocatable = allocatable;
    this.#node = node;
    this.#unsafeSysctls = unsafeSysctls;
    this.#pressure = pressure;
    this.#goingDown = goingDown;
  }

  get pods(): number {
    return this.#pods.size;
  }
  /** Whether a pod counts. */
  has(uid: string): boolean {
    return this.#pods.has(uid);
  }

  /** Takes the pod in, or says why not. */
  admit(pod: Pod): Refusal | undefined {
    if (this.#goingDown()) return { reason: 'NodeShutdown', message: 'Pod was rejected as the node is shutting down.' };
    const usage = usageOf(pod);
    const allocatable = this.#allocatable();
    const pods = parseQuantity(allocatable['pods'] ?? '0').scaled(1);
    if (this.#pods.size + 1 > pods) return outOf('pods', 1, this.#pods.size, pods);
    for (const [name, asked] of usage.amounts) {
      const capacity = this.#capacityOf(name);
      if (capacity !== undefined && asked > 0 && this.#usedOf(name) + asked > capacity)
        return outOf(name, asked, this.#usedOf(name), capacity);
    }
    const node = this.#node();
    if (node && !matchesNode(pod, node))
      return {
        reason: 'NodeAffinity',
        message: "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
      };
    if (usage.ports.some((port) => collides(port, this.#ports)))
      return {
        reason: 'NodePorts',
        message: "Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
      };
    const taint = node?.spec?.taints?.find((one) => one.effect === 'NoExecute' && !tolerated(one, pod.spec?.tolerations ?? []));
    if (taint)
      return {
        reason: 'TaintToleration',
        message: "Pod was rejected: Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate",
      };
    if (pod.spec?.os?.name !== undefined && pod.spec.os.name !== 'linux')
      return { reason: 'PodOSNotSupported', message: "Pod was rejected: Failed to admit pod as the OS field doesn't match node OS" };
    // the groups of the image would be added nevertheless (KEP-3619)
    if (
      pod.spec?.securityContext?.supplementalGroupsPolicy === 'Strict' &&
      this.#node()?.status?.features?.supplementalGroupsPolicy !== true
    )
      return {
        reason: 'SupplementalGroupsPolicyNotSupported',
        message: 'Pod was rejected: SupplementalGroupsPolicy=Strict is not supported in this node',
      };
    const pressed = underPressure(pod, this.#pressure());
    if (pressed !== undefined) return { reason: 'Evicted', message: `The node had condition: [${pressed}]. ` };
    const forbidden = forbiddenSysctl(pod, this.#unsafeSysctls);
    if (forbidden !== undefined) return { reason: 'SysctlForbidden', message: `Pod was rejected: ${forbidden}` };
    this.#take(pod, usage);
    return undefined;
  }

  /** How much the node has too little of for a pod. */
  lackFor(pod: Pod): ReadonlyMap<string, number> {
    const lack = new Map<string, number>();
    for (const [name, asked] of [...usageOf(pod).amounts, ['pods', 1] as const]) {
      const used = name === 'pods' ? this.#pods.size : this.#usedOf(name);
      const missing = asked === 0 ? 0 : used + asked - (this.#capacityOf(name) ?? Infinity);
      if (missing > 0) lack.set(name, missing);
    }
    return lack;
  }

  /** Undefined for what this node does not know: it may have been taken away since the pod was bound. */
  #capacityOf(name: string): number | undefined {
    const own = this.#allocatable()[name];
    if (isBasic(name)) return own === undefined ? 0 : units(name, own);
    // of what plugins have told the manager of devices keeps the books
    if (own !== undefined) return undefined;
    const told = this.#node()?.status?.allocatable?.[name];
    return told === undefined ? undefined : value(told);
  }
  #usedOf(name: string): number {
    return this.#used.get(name) ?? 0;
  }

  /** Gives a pod that was taken in other resources, or says why not. What is made smaller always fits. */
  resize(pod: Pod): ResizeRefusal | undefined {
    const usage = usageOf(pod);
    const held = this.#pods.get(podUid(pod)) ?? nothing;
    const larger = counted
      .map((name) => ({
        name,
        asked: usage.amounts.get(name) ?? 0,
        has: held.amounts.get(name) ?? 0,
        capacity: this.#capacityOf(name) ?? 0,
      }))
      .filter(({ asked, has }) => asked > has);
    for (const { name, asked, capacity } of larger)
      if (asked > capacity)
        return { reason: 'Infeasible', message: `Node didn't have enough capacity: ${name}, requested: ${asked}, capacity: ${capacity}` };
    for (const { name, asked, has, capacity } of larger) {
      const used = this.#usedOf(name) - has;
      if (used + asked > capacity)
        return { reason: 'Deferred', message: `Node didn't have enough resource: ${lack(name, asked, used, capacity)}` };
    }
    this.release(podUid(pod));
    this.#take(pod, usage);
    return undefined;
  }

  /** Counts a pod that runs already. */
  adopt(pod: Pod): void {
    if (!this.#pods.has(podUid(pod))) this.#take(pod, usageOf(pod));
  }

  release(uid: string): void {
    const usage = this.#pods.get(uid);
    if (!usage) return;
    this.#pods.delete(uid);
    for (const [name, amount] of usage.amounts) this.#used.set(name, this.#usedOf(name) - amount);
    for (const port of usage.ports) {
      const holders = this.#ports.get(port) ?? 0;
      if (holders > 1) this.#ports.set(port, holders - 1);
      else this.#ports.delete(port);
    }
  }

  #take(pod: Pod, usage: Usage): void {
    this.#pods.set(podUid(pod), usage);
    for (const [name, amount] of usage.amounts) this.#used.set(name, this.#usedOf(name) + amount);
    for (const port of usage.ports) this.#ports.set(port, (this.#ports.get(port) ?? 0) + 1);
  }
}

/** The condition for which a node takes no more such pods. Short of memory it still takes those that say how much they need. */
function underPressure(pod: Pod, { memory, disk, pids }: Pressure): string | undefined {
  if ((!memory && !disk && !pids) || isCritical(pod)) return undefined;
  if (disk) return 'DiskPressure';
  if (pids) return 'PIDPressure';
  const tolerates = tolerated({ key: 'node.kubernetes.io/memory-pressure', effect: 'NoSchedule' }, pod.spec?.tolerations ?? []);
  return qosClass(pod.spec) === 'BestEffort' && !tolerates ? 'MemoryPressure' : undefined;
}

/** What every node has, or would have said that it has. */
const isBasic = (name: string) => name === 'pods' || (counted as readonly string[]).includes(name) || name.startsWith('hugepages-');

function usageOf(pod: Pod): Usage {
  const { containers = [], initContainers = [], resources } = pod.spec ?? {};
  const names = new Set<string>(counted);
  for (const one of [resources, ...containers.map((each) => each.resources), ...initContainers.map((each) => each.resources)])
    for (const name of Object.keys({ ...one?.requests, ...one?.limits })) names.add(name);
  return { amounts: new Map([...names].map((name) => [name, units(name, podRequest(pod, name))])), ports: hostPorts(pod) };
}

const nothing: Usage = { amounts: new Map(), ports: [] };
const lack = (name: string, requested: number, used: number, capacity: number) =>
  `${name}, requested: ${requested}, used: ${used}, capacity: ${capacity}`;
const outOf = (name: string, requested: number, used: number, capacity: number): Refusal => ({
  reason: `OutOf${name}`,
  message: `Pod was rejected: Node didn't have enough resource: ${lack(name, requested, used, capacity)}`,
});

/** `nodeSelector` and the required node affinity. */
export function matchesNode(pod: Pod, node: Node): boolean {
  const { nodeSelector = {}, affinity } = pod.spec ?? {};
  const labels = node.metadata?.labels ?? {};
  if (Object.entries(nodeSelector).some(([key, wanted]) => labels[key] !== wanted)) return false;
  const terms = affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms;
  return terms === undefined || terms.some((term) => matchesTerm(term, labels, node.metadata?.name ?? ''));
}

function matchesTerm(
  { matchExpressions = [], matchFields = [] }: NodeSelectorTerm,
  labels: Readonly<Record<string, string>>,
  name: string,
): boolean {
  if (matchExpressions.length + matchFields.length === 0) return false;
  return (
    matchExpressions.every((one) => matchesRequirement(one, labels[one.key])) &&
    matchFields.every((one) => matchesRequirement(one, one.key === 'metadata.name' ? name : undefined))
  );
}

function matchesRequirement({ operator, values = [] }: NodeSelectorRequirement, label: string | undefined): boolean {
  const [first = ''] = values;
  switch (operator) {
    case 'In':
      return label !== undefined && values.includes(label);
    case 'NotIn':
      return label === undefined || !values.includes(label);
    case 'Exists':
      return label !== undefined;
    case 'DoesNotExist':
      return label === undefined;
    case 'Gt':
      return label !== undefined && Number(label) > Number(first);
    case 'Lt':
      return label !== undefined && Number(label) < Number(first);
    default:
      return false;
  }
}

function tolerated(taint: Taint, tolerations: readonly Toleration[]): boolean {
  return tolerations.some(
    ({ key = '', operator = 'Equal', value: wanted = '', effect = '' }) =>
      (effect === '' || effect === taint.effect) &&
      (key === '' ? operator === 'Exists' : key === taint.key) &&
      (operator === 'Exists' || wanted === (taint.value ?? '')),
  );
}
