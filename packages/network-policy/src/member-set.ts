import type { Selector } from '@oarlock/api/selectors/label-selector';
import type { NamedPort, PeerPod, Protocol } from './peer-pod.ts';

/** A selection of pods: the pods that `pods` selects, in one namespace or in the namespaces that `namespaces` selects. */
export interface Selection {
  readonly namespace?: string;
  readonly namespaces?: Selector;
  readonly pods: Selector;
}

export const selectionKey = ({ namespace, namespaces, pods }: Selection): string =>
  namespace === undefined
    ? `in ${namespaces?.matchesNothing === true ? '!' : String(namespaces)} of ${text(pods)}`
    : `at ${namespace} of ${text(pods)}`;
const text = (selector: Selector) => (selector.matchesNothing ? '!' : String(selector));

export interface PortName {
  readonly name: string;
  readonly protocol: Protocol;
}

/** Callback for every element of a set that may have been added or removed. */
export type ElementListener = (set: string, element: string) => void;

/** Elements of a set with reference counts: two pods may briefly have the same address when the address is reassigned. */
export class ElementSet {
  readonly id: string;
  readonly #counts = new Map<string, number>();
  readonly #elementsOf: (pod: PeerPod) => readonly string[];
  readonly #touch: ElementListener;
  uses = 0;

  constructor(id: string, elementsOf: (pod: PeerPod) => readonly string[], touch: ElementListener) {
    this.id = id;
    this.#elementsOf = elementsOf;
    this.#touch = touch;
  }

  has(element: string): boolean {
    return this.#counts.has(element);
  }
  get elements(): Iterable<string> {
    return this.#counts.keys();
  }

  replace(before: PeerPod | undefined, now: PeerPod | undefined): void {
    if (now) for (const element of this.#elementsOf(now)) this.#count(element, 1);
    if (before) for (const element of this.#elementsOf(before)) this.#count(element, -1);
  }

  #count(element: string, by: 1 | -1): void {
    const count = (this.#counts.get(element) ?? 0) + by;
    if (count === 0) this.#counts.delete(element);
    else this.#counts.set(element, count);
    if (count === 0 || (count === 1 && by === 1)) this.#touch(this.id, element);
  }
}

/** The pods of a selection, with the sets of addresses and of named ports that rules use. */
export class MemberSet {
  readonly selection: Selection;
  readonly #members = new Map<string, PeerPod>();
  readonly #outputs = new Map<string, ElementSet>();

  constructor(selection: Selection) {
    this.selection = selection;
  }

  get unused(): boolean {
    return this.#outputs.size === 0;
  }

  /** Returns true if the selection includes pods of a namespace with this name and these labels. */
  covers(namespace: string, labels: Readonly<Record<string, string>>): boolean {
    const { namespace: only, namespaces } = this.selection;
    return only === undefined ? namespaces?.matches(labels) === true : only === namespace;
  }

  put(key: string, pod: PeerPod | undefined): void {
    const before = this.#members.get(key);
    const now = pod && this.selection.pods.matches(pod.labels) ? pod : undefined;
    if (before === now) return;
    if (now) this.#members.set(key, now);
    else this.#members.delete(key);
    for (const output of this.#outputs.values()) output.replace(before, now);
  }

  /** Returns the addresses of the selected pods, or with `port` the named ports of these pods, as a set. The caller must `release` the set. */
  acquire(id: string, port: PortName | undefined, touch: ElementListener): ElementSet {
    let output = this.#outputs.get(id);
    if (output === undefined) {
      output = new ElementSet(id, port === undefined ? addressesOf : (pod) => endpointsOf(pod, port), touch);
      this.#outputs.set(id, output);
      for (const pod of this.#members.values()) output.replace(undefined, pod);
    }
    output.uses++;
    return output;
  }

  /** Releases a set. Returns true if the set has no more users. */
  release(id: string): boolean {
    const output = this.#outputs.get(id);
    if (output === undefined || --output.uses > 0) return false;
    return this.#outputs.delete(id);
  }
}

const addressesOf = ({ ips }: PeerPod) => ips;
const endpointsOf = ({ ips, ports }: PeerPod, { name, protocol }: PortName): readonly string[] =>
  ports
    .filter((port: NamedPort) => port.name === name && port.protocol === protocol)
    .flatMap(({ port }) => ips.map((ip) => endpointElement(ip, protocol, port)));

/** Formats an address, protocol and port as an element of a set. */
export const endpointElement = (ip: string, protocol: Protocol, port: number): string => `${ip} . ${protocol.toLowerCase()} . ${port}`;
