import { createHash } from 'node:crypto';
import { jsonEqual } from '@oarlock/api/json';
import { everything } from '@oarlock/api/label-selector';
import type { Labels } from '@oarlock/api/label-selector';
import type { NetworkPolicy } from '@oarlock/api/types/networking-v1';
import { MemberSet, selectionKey, type ElementSet, type PortName, type Selection } from './member-set.ts';
import type { PeerPod } from './peer-pod.ts';
import { directions, policyRules, type Block, type Direction, type PolicyRule, type PolicyRules, type PortRange } from './policy-rules.ts';

/** One way to be let through: all that is present has to hold. */
export interface Pass {
  /** The other end is in this set of addresses. */
  readonly peers?: string;
  readonly block?: Block;
  readonly ranges?: readonly PortRange[];
  /** The destination is in this set of addresses with protocol and port. */
  readonly doors?: string;
}

/** What a policy lets through in one direction. */
export interface Chain {
  readonly id: string;
  readonly direction: Direction;
  readonly passes: readonly Pass[];
}

/** The policies that isolate a pod in one direction: what none of the chains lets through is dropped. */
export interface Isolation {
  readonly id: string;
  readonly direction: Direction;
  readonly chains: readonly string[];
}

/** A pod of this node. */
export interface GuardedPod {
  readonly namespace: string;
  readonly labels: Labels;
  readonly ips: readonly string[];
}

/** What may be different since the last look. */
export interface Touched {
  readonly sets: ReadonlyMap<string, ReadonlySet<string>>;
  readonly chains: ReadonlySet<string>;
  readonly isolations: ReadonlySet<string>;
  readonly addresses: ReadonlySet<string>;
}

interface Known {
  readonly policy: NetworkPolicy;
  readonly rules: PolicyRules;
  readonly chains: Partial<Record<Direction, Chain>>;
  readonly release: readonly (() => void)[];
}

/** A pod of this node with the policies that select it, by their keys. */
interface Local {
  readonly pod: GuardedPod;
  readonly policies: Map<string, Known>;
}

const digest = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 16);

class Touches implements Touched {
  readonly sets = new Map<string, Set<string>>();
  readonly chains = new Set<string>();
  readonly isolations = new Set<string>();
  readonly addresses = new Set<string>();

  /** Also for a set without elements: it came or went. */
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
 * What the NetworkPolicies of a cluster mean for the pods of one node, kept up to date change by change: sets of addresses that follow the
 * pods of the whole cluster, chains that follow policies, and which chains isolate which address of this node. The names of the sets
 * and chains are the same in every process.
 */
export class PolicyEngine {
  readonly sets = new Map<string, ElementSet>();
  readonly chains = new Map<string, Chain>();
  readonly isolations = new Map<string, Isolation & { uses: number }>();
  /** Isolations by the address of a pod of this node. */
  readonly guarded: Readonly<Record<Direction, Map<string, string>>> = { ingress: new Map(), egress: new Map() };
  readonly #namespaces = new Map<string, Labels>();
  readonly #pods = new Map<string, Map<string, PeerPod>>();
  readonly #policies = new Map<string, Map<string, Known>>();
  readonly #members = new Map<string, MemberSet>();
  readonly #membersAt = new Map<string, Set<MemberSet>>();
  readonly #local = new Map<string, Local>();
  readonly #localAt = new Map<string, Map<string, Local>>();
  readonly #holders = new Map<string, string>();
  #touched = new Touches();

  /** What has changed since this was called last. */
  take(): Touched {
    const touched = this.#touched;
    this.#touched = new Touches();
    return touched;
  }

  /** Everything counts as changed: whoever takes next knows nothing yet. */
  touchAll(): void {
    for (const [id, { elements }] of this.sets) for (const element of elements) this.#touched.set(id).add(element);
    for (const id of this.sets.keys()) this.#touched.set(id);
    for (const id of this.chains.keys()) this.#touched.chains.add(id);
    for (const id of this.isolations.keys()) this.#touched.isolations.add(id);
    for (const guarded of Object.values(this.guarded)) for (const ip of guarded.keys()) this.#touched.addresses.add(ip);
  }

  setNamespace(name: string, labels: Labels | undefined): void {
    if (jsonEqual(this.#namespaces.get(name), labels)) return;
    if (labels === undefined) this.#namespaces.delete(name);
    else this.#namespaces.set(name, labels);
    const at = new Set<MemberSet>();
    for (const set of this.#members.values())
      if (labels === undefined ? set.selection.namespace === name : set.covers(name, labels)) at.add(set);
    const before = this.#membersAt.get(name) ?? new Set();
    this.#membersAt.set(name, at);
    for (const [key, pod] of this.#pods.get(name) ?? []) {
      for (const set of before) if (!at.has(set)) set.put(key, undefined);
      for (const set of at) if (!before.has(set)) set.put(key, pod);
    }
  }

  /** `key` is `namespace/name`. */
  setPod(key: string, namespace: string, pod: PeerPod | undefined): void {
    let pods = this.#pods.get(namespace);
    const before = pods?.get(key);
    if (jsonEqual(before, pod)) return;
    if (pods === undefined) this.#pods.set(namespace, (pods = new Map()));
    if (pod === undefined) pods.delete(key);
    else pods.set(key, pod);
    if (pods.size === 0) this.#pods.delete(namespace);
    for (const set of this.#membersAt.get(namespace) ?? []) set.put(key, pod);
  }

  setPolicy(key: string, namespace: string, policy: NetworkPolicy | undefined): void {
    let policies = this.#policies.get(namespace);
    const before = policies?.get(key);
    if (jsonEqual(before?.policy.spec, policy?.spec)) return;
    if (policies === undefined) this.#policies.set(namespace, (policies = new Map()));
    const known = policy && this.#learn(key, policy);
    if (known === undefined) policies.delete(key);
    else policies.set(key, known);
    if (policies.size === 0) this.#policies.delete(namespace);
    for (const direction of directions) {
      const old = before?.chains[direction];
      if (old !== undefined && known?.chains[direction] === undefined) this.chains.delete(old.id);
      if (old !== undefined) this.#touched.chains.add(old.id);
    }
    // what both have stays in use meanwhile
    for (const release of before?.release ?? []) release();
    for (const [id, local] of this.#localAt.get(namespace) ?? []) {
      const selected = known?.rules.pods.matches(local.pod.labels) === true;
      if (!selected && !local.policies.has(key)) continue;
      if (known !== undefined && selected) local.policies.set(key, known);
      else local.policies.delete(key);
      this.#isolate(id, local.pod, local);
    }
  }

  /** A pod of this node, `id` is its uid. From then on, until it is taken away again, its policies hold for its addresses. */
  setLocal(id: string, pod: GuardedPod | undefined): void {
    const before = this.#local.get(id)?.pod;
    if (jsonEqual(before, pod)) return;
    if (before !== undefined) this.#forgetLocal(id, before.namespace);
    const local = pod && this.#learnLocal(id, pod);
    this.#isolate(id, before, local);
  }

  #learnLocal(id: string, pod: GuardedPod): Local {
    const all = [...(this.#policies.get(pod.namespace) ?? [])];
    const local: Local = { pod, policies: new Map(all.filter(([, { rules }]) => rules.pods.matches(pod.labels))) };
    this.#local.set(id, local);
    let at = this.#localAt.get(pod.namespace);
    if (at === undefined) this.#localAt.set(pod.namespace, (at = new Map()));
    at.set(id, local);
    return local;
  }

  #forgetLocal(id: string, namespace: string): void {
    this.#local.delete(id);
    const at = this.#localAt.get(namespace);
    at?.delete(id);
    if (at?.size === 0) this.#localAt.delete(namespace);
  }

  #learn(key: string, policy: NetworkPolicy): Known {
    const rules = policyRules(policy);
    const release: (() => void)[] = [];
    const chains: Partial<Record<Direction, Chain>> = {};
    const targets: Selection = { namespace: rules.namespace, pods: rules.pods };
    for (const direction of directions) {
      const list = rules[direction];
      if (list === undefined) continue;
      const id = `${direction}-${digest(key)}`;
      const passes = list.flatMap((rule) => this.#passes(rule, direction, targets, release));
      const chain = { id, direction, passes };
      chains[direction] = chain;
      this.chains.set(id, chain);
      this.#touched.chains.add(id);
    }
    return { policy, rules, chains, release };
  }

  #passes({ peers, ports }: PolicyRule, direction: Direction, targets: Selection, release: (() => void)[]): Pass[] {
    const set = (selection: Selection, port?: PortName) => this.#acquire(selection, port, release);
    const ranges = ports !== undefined && ports.ranges.length > 0 ? { ranges: ports.ranges } : undefined;
    const numbered = ports === undefined ? [{}] : ranges === undefined ? [] : [ranges];
    const names = ports?.names ?? [];
    const ends: { readonly match: Pass; readonly selection?: Selection }[] =
      peers === undefined
        ? [{ match: {}, selection: { namespaces: everything, pods: everything } }]
        : [...peers.selections.map((selection) => ({ match: {}, selection })), ...peers.blocks.map((block) => ({ match: { block } }))];
    return ends.flatMap(({ match, selection }) => {
      const from =
        peers !== undefined && selection !== undefined && (numbered.length > 0 || direction === 'ingress')
          ? { peers: set(selection) }
          : match;
      const byNumber = numbered.map((port): Pass => ({ ...from, ...port }));
      // a name means what the pod that is reached calls so: the pod of the policy, or the peer; a block has no names
      const reached = direction === 'ingress' ? targets : selection;
      const byName =
        reached === undefined ? [] : names.map((name): Pass => ({ ...(direction === 'ingress' ? from : {}), doors: set(reached, name) }));
      return [...byNumber, ...byName];
    });
  }

  #acquire(selection: Selection, port: PortName | undefined, release: (() => void)[]): string {
    const key = selectionKey(selection);
    let members = this.#members.get(key);
    if (members === undefined) {
      members = new MemberSet(selection);
      this.#members.set(key, members);
      this.#fill(members);
    }
    const id = port === undefined ? `pods-${digest(key)}` : `doors-${digest(`${key} ${port.protocol} ${port.name}`)}`;
    if (!this.sets.has(id)) this.#touched.set(id);
    this.sets.set(
      id,
      members.acquire(id, port, (set, element) => this.#touched.set(set).add(element)),
    );
    const held = members;
    release.push(() => {
      const gone = this.sets.get(id);
      if (!held.release(id)) return;
      this.sets.delete(id);
      const touched = this.#touched.set(id);
      for (const element of gone?.elements ?? []) touched.add(element);
      if (!held.unused) return;
      this.#members.delete(key);
      for (const at of this.#membersAt.values()) at.delete(held);
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
      let at = this.#membersAt.get(name);
      if (at === undefined) this.#membersAt.set(name, (at = new Set()));
      at.add(members);
      for (const [key, pod] of this.#pods.get(name) ?? []) members.put(key, pod);
    }
  }

  #isolate(id: string, before: GuardedPod | undefined, now: Local | undefined): void {
    for (const ip of before?.ips ?? []) {
      if (this.#holders.get(ip) !== id || now?.pod.ips.includes(ip) === true) continue;
      this.#holders.delete(ip);
      for (const direction of directions) this.#guard(direction, ip, undefined);
    }
    if (now === undefined) return;
    const policies = [...now.policies.values()];
    for (const direction of directions) {
      const chains = policies.flatMap(({ chains: { [direction]: chain } }) => (chain === undefined ? [] : [chain.id])).sort();
      for (const ip of now.pod.ips) {
        // an address belongs to whoever got it last
        if (before?.ips.includes(ip) !== true) this.#holders.set(ip, id);
        if (this.#holders.get(ip) === id) this.#guard(direction, ip, chains.length === 0 ? undefined : chains);
      }
    }
  }

  #guard(direction: Direction, ip: string, chains: readonly string[] | undefined): void {
    const guarded = this.guarded[direction];
    const before = guarded.get(ip);
    const id = chains && `${direction}-pods-${digest(chains.join(' '))}`;
    if (before === id) return;
    this.#touched.addresses.add(ip);
    if (id === undefined) guarded.delete(ip);
    else {
      guarded.set(ip, id);
      const isolation = this.isolations.get(id);
      if (isolation !== undefined) isolation.uses++;
      else {
        this.isolations.set(id, { id, direction, chains: chains ?? [], uses: 1 });
        this.#touched.isolations.add(id);
      }
    }
    const old = before === undefined ? undefined : this.isolations.get(before);
    if (old === undefined || --old.uses > 0) return;
    this.isolations.delete(old.id);
    this.#touched.isolations.add(old.id);
  }
}
