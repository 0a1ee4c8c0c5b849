import { createHash } from 'node:crypto';
import { jsonEqual } from '@oarlock/api/json/json';
import { everything } from '@oarlock/api/selectors/label-selector';
import type { Labels } from '@oarlock/api/selectors/label-selector';
import type { NetworkPolicy } from '@oarlock/api/types/networking-v1';
import { MemberSet, selectionKey, type ElementSet, type PortName, type Selection } from './member-set.ts';
import type { PeerPod } from './peer-pod.ts';
import {
  directions,
  policyRules,
  type IPBlock,
  type Direction,
  type PolicyRule,
  type PolicyRules,
  type PortRange,
} from './policy-rules.ts';

/** A condition that allows a packet. All fields that are present must match. */
export interface AllowRule {
  /** Name of a set of addresses that must include the peer. */
  readonly peers?: string;
  readonly block?: IPBlock;
  readonly portRanges?: readonly PortRange[];
  /** Name of a set of endpoints (address, protocol and port) that must include the destination. */
  readonly endpoints?: string;
}

/** The rules of one NetworkPolicy in one direction: the packets that the policy allows. */
export interface Chain {
  readonly id: string;
  readonly direction: Direction;
  readonly rules: readonly AllowRule[];
}

/** The NetworkPolicies that isolate a pod in one direction. Packets that none of their chains allows are dropped. */
export interface Isolation {
  readonly id: string;
  readonly direction: Direction;
  readonly chains: readonly string[];
}

/** A pod of this node. */
export interface LocalPod {
  readonly namespace: string;
  readonly labels: Labels;
  readonly ips: readonly string[];
}

/** The parts of the state that may have changed since the last `takeChanges`. */
export interface PolicyChanges {
  readonly sets: ReadonlyMap<string, ReadonlySet<string>>;
  readonly chains: ReadonlySet<string>;
  readonly isolations: ReadonlySet<string>;
  readonly addresses: ReadonlySet<string>;
}

interface PolicyEntry {
  readonly policy: NetworkPolicy;
  readonly rules: PolicyRules;
  readonly chains: Partial<Record<Direction, Chain>>;
  readonly release: readonly (() => void)[];
}

/** A pod of this node, and the keys of the NetworkPolicies that select the pod. */
interface LocalPodEntry {
  readonly pod: LocalPod;
  readonly policies: Map<string, PolicyEntry>;
}

const digest = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 16);

class PendingChanges implements PolicyChanges {
  readonly sets = new Map<string, Set<string>>();
  readonly chains = new Set<string>();
  readonly isolations = new Set<string>();
  readonly addresses = new Set<string>();

  /** Returns the changed elements of a set and marks the set as changed. Also called for a set without elements that was created or removed. */
  set(id: string): Set<string> {
    let elements = this.sets.get(id);
    if (elements === undefined) {
      elements = new Set();
      this.sets.set(id, elements);
    }
    return elements;
  }
}

/**
 * Evaluates the NetworkPolicies of a cluster incrementally for the pods of one node. Maintains sets with the addresses of the pods of the whole
 * cluster, chains for policies, and the chains that isolate each pod address of this node. The names of sets and chains are the same in every
 * process.
 */
export class PolicyEngine {
  readonly sets = new Map<string, ElementSet>();
  readonly chains = new Map<string, Chain>();
  readonly isolations = new Map<string, Isolation & { uses: number }>();
  /** The isolation of each local pod address, by direction. */
  readonly isolationByAddress: Readonly<Record<Direction, Map<string, string>>> = { ingress: new Map(), egress: new Map() };
  readonly #namespaces = new Map<string, Labels>();
  readonly #pods = new Map<string, Map<string, PeerPod>>();
  readonly #policies = new Map<string, Map<string, PolicyEntry>>();
  readonly #memberSets = new Map<string, MemberSet>();
  readonly #memberSetsByNamespace = new Map<string, Set<MemberSet>>();
  readonly #localPods = new Map<string, LocalPodEntry>();
  readonly #localPodsByNamespace = new Map<string, Map<string, LocalPodEntry>>();
  /** The pods of this node with an address. The address belongs to the last of them, which got it last. */
  readonly #podsByAddress = new Map<string, string[]>();
  #changes = new PendingChanges();

  /** Returns what has changed since the last call. */
  takeChanges(): PolicyChanges {
    const touched = this.#changes;
    this.#changes = new PendingChanges();
    return touched;
  }

  /** Marks everything as changed, so that the next `takeChanges` returns the complete state. */
  markAllChanged(): void {
    for (const [id, { elements }] of this.sets) for (const element of elements) this.#changes.set(id).add(element);
    for (const id of this.sets.keys()) this.#changes.set(id);
    for (const id of this.chains.keys()) this.#changes.chains.add(id);
    for (const id of this.isolations.keys()) this.#changes.isolations.add(id);
    for (const guarded of Object.values(this.isolationByAddress)) for (const ip of guarded.keys()) this.#changes.addresses.add(ip);
  }

  setNamespace(name: string, labels: Labels | undefined): void {
    if (jsonEqual(this.#namespaces.get(name), labels)) return;
    if (labels === undefined) this.#namespaces.delete(name);
    else this.#namespaces.set(name, labels);
    const at = new Set<MemberSet>();
    for (const set of this.#memberSets.values())
      if (labels === undefined ? set.selection.namespace === name : set.covers(name, labels)) at.add(set);
    const before = this.#memberSetsByNamespace.get(name) ?? new Set();
    this.#memberSetsByNamespace.set(name, at);
    for (const [key, pod] of this.#pods.get(name) ?? []) {
      for (const set of before) if (!at.has(set)) set.put(key, undefined);
      for (const set of at) if (!before.has(set)) set.put(key, pod);
    }
  }

  /** Adds or updates a pod of the cluster, or removes the pod if `pod` is undefined. `key` is `namespace/name`. */
  setPod(key: string, namespace: string, pod: PeerPod | undefined): void {
    let pods = this.#pods.get(namespace);
    const before = pods?.get(key);
    if (jsonEqual(before, pod)) return;
    if (pods === undefined) this.#pods.set(namespace, (pods = new Map()));
    if (pod === undefined) pods.delete(key);
    else pods.set(key, pod);
    if (pods.size === 0) this.#pods.delete(namespace);
    for (const set of this.#memberSetsByNamespace.get(namespace) ?? []) set.put(key, pod);
  }

  setPolicy(key: string, namespace: string, policy: NetworkPolicy | undefined): void {
    let policies = this.#policies.get(namespace);
    const before = policies?.get(key);
    if (jsonEqual(before?.policy.spec, policy?.spec)) return;
    if (policies === undefined) this.#policies.set(namespace, (policies = new Map()));
    const known = policy && this.#compilePolicy(key, policy);
    if (known === undefined) policies.delete(key);
    else policies.set(key, known);
    if (policies.size === 0) this.#policies.delete(namespace);
    for (const direction of directions) {
      const old = before?.chains[direction];
      if (old !== undefined && known?.chains[direction] === undefined) this.chains.delete(old.id);
      if (old !== undefined) this.#changes.chains.add(old.id);
    }
    // sets that both versions use are not released in between
    for (const release of before?.release ?? []) release();
    for (const [id, local] of this.#localPodsByNamespace.get(namespace) ?? []) {
      const selected = known?.rules.pods.matches(local.pod.labels) === true;
      if (!selected && !local.policies.has(key)) continue;
      if (known !== undefined && selected) local.policies.set(key, known);
      else local.policies.delete(key);
      this.#updateIsolation(id, local.pod, local);
    }
  }

  /** Returns the addresses of a pod of this node. */
  localAddresses(id: string): readonly string[] {
    return this.#localPods.get(id)?.pod.ips ?? [];
  }

  /**
   * Adds or updates a pod of this node, or removes the pod if `pod` is undefined. `id` is the uid of the pod. NetworkPolicies apply to the pod's
   * addresses until the pod is removed.
   */
  setLocal(id: string, pod: LocalPod | undefined): void {
    const before = this.#localPods.get(id)?.pod;
    if (jsonEqual(before, pod)) return;
    if (before !== undefined) this.#removeLocalPod(id, before.namespace);
    const local = pod && this.#addLocalPod(id, pod);
    this.#updateIsolation(id, before, local);
  }

  #addLocalPod(id: string, pod: LocalPod): LocalPodEntry {
    const all = [...(this.#policies.get(pod.namespace) ?? [])];
    const local: LocalPodEntry = { pod, policies: new Map(all.filter(([, { rules }]) => rules.pods.matches(pod.labels))) };
    this.#localPods.set(id, local);
    let at = this.#localPodsByNamespace.get(pod.namespace);
    if (at === undefined) this.#localPodsByNamespace.set(pod.namespace, (at = new Map()));
    at.set(id, local);
    return local;
  }

  #removeLocalPod(id: string, namespace: string): void {
    this.#localPods.delete(id);
    const at = this.#localPodsByNamespace.get(namespace);
    at?.delete(id);
    if (at?.size === 0) this.#localPodsByNamespace.delete(namespace);
  }

  #compilePolicy(key: string, policy: NetworkPolicy): PolicyEntry {
    const rules = policyRules(policy);
    const release: (() => void)[] = [];
    const chains: Partial<Record<Direction, Chain>> = {};
    const targets: Selection = { namespace: rules.namespace, pods: rules.pods };
    for (const direction of directions) {
      const list = rules[direction];
      if (list === undefined) continue;
      const id = `${direction}-${digest(key)}`;
      const allowRules = list.flatMap((rule) => this.#allowRules(rule, { direction, targets, release }));
      const chain = { id, direction, rules: allowRules };
      chains[direction] = chain;
      this.chains.set(id, chain);
      this.#changes.chains.add(id);
    }
    return { policy, rules, chains, release };
  }

  #allowRules(
    { peers, ports }: PolicyRule,
    { direction, targets, release }: { readonly direction: Direction; readonly targets: Selection; readonly release: (() => void)[] },
  ): AllowRule[] {
    const set = (selection: Selection, port?: PortName) => this.#acquire(selection, port, release);
    const ranges = ports !== undefined && ports.ranges.length > 0 ? { portRanges: ports.ranges } : undefined;
    const numbered = ports === undefined ? [{}] : ranges === undefined ? [] : [ranges];
    const names = ports?.names ?? [];
    const ends: { readonly match: AllowRule; readonly selection?: Selection }[] =
      peers === undefined
        ? [{ match: {}, selection: { namespaces: everything, pods: everything } }]
        : [...peers.selections.map((selection) => ({ match: {}, selection })), ...peers.blocks.map((block) => ({ match: { block } }))];
    return ends.flatMap(({ match, selection }) => {
      const from =
        peers !== undefined && selection !== undefined && (numbered.length > 0 || direction === 'ingress')
          ? { peers: set(selection) }
          : match;
      const byNumber = numbered.map((port): AllowRule => ({ ...from, ...port }));
      // a port name is resolved by the destination pod: the pod of the policy, or the peer; a block has no names
      const reached = direction === 'ingress' ? targets : selection;
      const byName =
        reached === undefined
          ? []
          : names.map((name): AllowRule => ({ ...(direction === 'ingress' ? from : {}), endpoints: set(reached, name) }));
      return [...byNumber, ...byName];
    });
  }

  #acquire(selection: Selection, port: PortName | undefined, release: (() => void)[]): string {
    const key = selectionKey(selection);
    let members = this.#memberSets.get(key);
    if (members === undefined) {
      members = new MemberSet(selection);
      this.#memberSets.set(key, members);
      this.#fill(members);
    }
    const id = port === undefined ? `pods-${digest(key)}` : `doors-${digest(`${key} ${port.protocol} ${port.name}`)}`;
    if (!this.sets.has(id)) this.#changes.set(id);
    this.sets.set(
      id,
      members.acquire(id, port, (set, element) => this.#changes.set(set).add(element)),
    );
    const held = members;
    release.push(() => {
      const removedSet = this.sets.get(id);
      if (!held.release(id)) return;
      this.sets.delete(id);
      const touched = this.#changes.set(id);
      for (const element of removedSet?.elements ?? []) touched.add(element);
      if (!held.unused) return;
      this.#memberSets.delete(key);
      for (const at of this.#memberSetsByNamespace.values()) at.delete(held);
    });
    return id;
  }

  #fill(members: MemberSet): void {
    const { namespace } = members.selection;
    const names =
      namespace === undefined
        ? [...this.#namespaces].filter(([name, labels]) => members.covers(name, labels)).map(([name]) => name)
        : [namespace];
    for (const name of names) {
      let at = this.#memberSetsByNamespace.get(name);
      if (at === undefined) this.#memberSetsByNamespace.set(name, (at = new Set()));
      at.add(members);
      for (const [key, pod] of this.#pods.get(name) ?? []) members.put(key, pod);
    }
  }

  #updateIsolation(id: string, before: LocalPod | undefined, now: LocalPodEntry | undefined): void {
    for (const ip of before?.ips ?? []) if (now?.pod.ips.includes(ip) !== true) this.#releaseAddress(ip, id);
    for (const ip of now?.pod.ips ?? []) {
      const holders = this.#podsByAddress.get(ip) ?? [];
      if (before?.ips.includes(ip) !== true) this.#podsByAddress.set(ip, [...holders.filter((holder) => holder !== id), id]);
      this.#isolateAddress(ip);
    }
  }

  #releaseAddress(ip: string, id: string): void {
    const left = (this.#podsByAddress.get(ip) ?? []).filter((holder) => holder !== id);
    if (left.length === 0) this.#podsByAddress.delete(ip);
    else this.#podsByAddress.set(ip, left);
    this.#isolateAddress(ip);
  }

  /** Isolates an address as the policies of its pod require. */
  #isolateAddress(ip: string): void {
    const owner = this.#localPods.get(this.#podsByAddress.get(ip)?.at(-1) ?? '');
    const policies = [...(owner?.policies.values() ?? [])];
    for (const direction of directions) {
      const chains = policies.flatMap(({ chains: { [direction]: chain } }) => (chain === undefined ? [] : [chain.id])).sort();
      this.#setIsolation(direction, ip, chains.length === 0 ? undefined : chains);
    }
  }

  #setIsolation(direction: Direction, ip: string, chains: readonly string[] | undefined): void {
    const guarded = this.isolationByAddress[direction];
    const before = guarded.get(ip);
    const id = chains && `${direction}-pods-${digest(chains.join(' '))}`;
    if (before === id) return;
    this.#changes.addresses.add(ip);
    if (id === undefined) guarded.delete(ip);
    else {
      guarded.set(ip, id);
      const isolation = this.isolations.get(id);
      if (isolation !== undefined) isolation.uses++;
      else {
        this.isolations.set(id, { id, direction, chains: chains ?? [], uses: 1 });
        this.#changes.isolations.add(id);
      }
    }
    const old = before === undefined ? undefined : this.isolations.get(before);
    if (old === undefined || --old.uses > 0) return;
    this.isolations.delete(old.id);
    this.#changes.isolations.add(old.id);
  }
}
