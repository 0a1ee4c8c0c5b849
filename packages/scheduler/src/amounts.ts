import { milliValue, value } from '@oarlock/api/quantity';
import type { Container, Pod, ResourceRequirements } from '@oarlock/api/types/core-v1';
import { objectKey } from '@oarlock/api/object';
import type { Amounts, PodInfo } from '@oarlock/spi/scheduling';
import { resizedRequests } from './resized-requests.ts';

type List = ResourceRequirements['requests'];

/** What a container counts for in spreading when it asks for nothing: otherwise such pods would all go to one node. */
const unstated = { milliCpu: 100, memory: 200 * 1024 * 1024 } as const;
const none: ReadonlyMap<string, number> = new Map();

/** Sums that are added to and taken from. Amounts handed out are never changed. */
export class Tally implements Amounts {
  milliCpu = 0;
  memory = 0;
  ephemeralStorage = 0;
  pods = 0;
  #scalar: Map<string, number> | undefined;

  get scalar(): ReadonlyMap<string, number> {
    return this.#scalar ?? none;
  }

  add(other: Amounts, sign: 1 | -1 = 1): this {
    this.milliCpu += sign * other.milliCpu;
    this.memory += sign * other.memory;
    this.ephemeralStorage += sign * other.ephemeralStorage;
    this.pods += sign * other.pods;
    for (const [name, amount] of other.scalar) this.#set(name, (this.#scalar?.get(name) ?? 0) + sign * amount);
    return this;
  }

  addList(list: List, unstatedToo = false): this {
    const cpu = list?.['cpu'];
    const memory = list?.['memory'];
    this.milliCpu += cpu === undefined ? (unstatedToo ? unstated.milliCpu : 0) : milliValue(cpu);
    this.memory += memory === undefined ? (unstatedToo ? unstated.memory : 0) : value(memory);
    for (const [name, amount] of Object.entries(list ?? {})) {
      if (name === 'cpu' || name === 'memory') continue;
      if (name === 'ephemeral-storage') this.ephemeralStorage += value(amount);
      else if (name === 'pods') this.pods += value(amount);
      else this.#set(name, (this.#scalar?.get(name) ?? 0) + value(amount));
    }
    return this;
  }

  /** The larger of each. */
  raise(other: Amounts): this {
    this.milliCpu = Math.max(this.milliCpu, other.milliCpu);
    this.memory = Math.max(this.memory, other.memory);
    this.ephemeralStorage = Math.max(this.ephemeralStorage, other.ephemeralStorage);
    for (const [name, amount] of other.scalar) this.#set(name, Math.max(this.#scalar?.get(name) ?? 0, amount));
    return this;
  }

  copy(): Tally {
    return new Tally().add(this);
  }
  #set(name: string, amount: number): void {
    (this.#scalar ??= new Map()).set(name, amount);
  }
}

const isSidecar = (container: Container) => container.restartPolicy === 'Always';

/**
 * What the kubelet will reserve for a pod: its containers and sidecars together, or the largest init container with the sidecars that
 * started before it, whichever is more; then overhead (KEP-753).
 */
function podRequests({ spec }: Pod, unstatedToo: boolean, resized?: ReturnType<typeof resizedRequests>): Tally {
  const of = ({ name, resources }: Container) => resized?.get(name) ?? resources?.requests;
  const running = new Tally();
  for (const container of spec?.containers ?? []) running.addList(of(container), unstatedToo);
  const sidecars = new Tally();
  const starting = new Tally();
  for (const container of spec?.initContainers ?? []) {
    const own = new Tally().addList(of(container), unstatedToo);
    if (isSidecar(container)) {
      sidecars.add(own);
      starting.raise(sidecars);
    } else {
      starting.raise(own.add(sidecars));
    }
  }
  const total = running.add(sidecars).raise(starting);
  if (spec?.resources?.requests !== undefined) total.raise(new Tally().addList(spec.resources.requests));
  if (spec?.overhead !== undefined) total.addList(spec.overhead);
  total.pods = 1;
  return total;
}

// most pods of a cluster share a few templates: equal requests share one tally
const known = new WeakMap<object, { readonly requests: Amounts; readonly nonZeroRequests: Amounts }>();

export function podInfo(pod: Pod): PodInfo {
  const spec = pod.spec ?? {};
  const resized = resizedRequests(pod);
  if (resized !== undefined) {
    const amounts = { requests: podRequests(pod, false, resized), nonZeroRequests: podRequests(pod, true, resized) };
    return { pod, key: objectKey(pod), ...amounts };
  }
  let amounts = known.get(spec);
  if (amounts === undefined) {
    amounts = { requests: podRequests(pod, false), nonZeroRequests: podRequests(pod, true) };
    known.set(spec, amounts);
  }
  return { pod, key: objectKey(pod), ...amounts };
}

export const allocatableOf = (list: List): Tally => new Tally().addList(list);
