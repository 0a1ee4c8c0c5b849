import type { Selector } from '@oarlock/api/label-selector';
import type { NamedPort, PeerPod, Protocol } from './peer-pod.ts';

/** Which pods: those that `pods` selects, in one namespace or in those that `namespaces` selects. */
export interface Selection {
  readonly namespace?: string;
  readonly namespaces?: Selector;
  readonly pods: Selector;
}

export const selectionKey = ({ namespace, namespaces, pods }: Selection): string =>
  namespace === undefined
    ? `in ${namespaces?.none === true ? '!' : String(namespaces)} of ${text(pods)}`
    : `at ${namespace} of ${text(pods)}`;
const text = (selector: Selector) => (selector.none ? '!' : String(selector));

export interface PortName {
  readonly name: string;
  readonly protocol: Protocol;
}

/** Told of every element that may have come or gone. */
export type Touch = (set: string, element: string) => void;

/** Elements of pods, counted: two pods may have the same for a moment, when an address goes from one to the next. */
export class ElementSet {
  readonly id: string;
  readonly #counts = new Map<string, number>();
  readonly #elementsOf: (pod: PeerPod) => readonly string[];
  readonly #touch: Touch;
  uses = 0;

  constructor(id: string, elementsOf: (pod: PeerPod) => readonly string[], touch: Touch) {
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

/** The pods of a selection, with the sets of addresses and of named ports that rules ask for. */
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

  /** Whether a namespace with these labels has pods of the selection. */
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

  /** The set that holds `output` of these pods: their addresses, or where they listen under a name. To be let go of with `release`. */
  acquire(id: string, port: PortName | undefined, touch: Touch): ElementSet {
    let output = this.#outputs.get(id);
    if (output === undefined) {
      output = new ElementSet(id, port === undefined ? addressesOf : (pod) => doorsOf(pod, port), touch);
      this.#outputs.set(id, output);
      for (const pod of this.#members.values()) output.replace(undefined, pod);
    }
    output.uses++;
    return output;
  }

  /** Whether nobody has the set any more. */
  release(id: string): boolean {
    const output = this.#outputs.get(id);
    if (output === undefined || --output.uses > 0) return false;
    return this.#outputs.delete(id);
  }
}

const addressesOf = ({ ips }: PeerPod) => ips;
const doorsOf = ({ ips, ports }: PeerPod, { name, protocol }: PortName): readonly string[] =>
  ports
    .filter((port: NamedPort) => port.name === name && port.protocol === protocol)
    .flatMap(({ port }) => ips.map((ip) => door(ip, protocol, port)));

/** An address with a protocol and a port, as an element of a set. */
export const door = (ip: string, protocol: Protocol, port: number): string => `${ip} . ${protocol.toLowerCase()} . ${port}`;
