import { isSupportedPodLevelResource } from '@oarlock/api/component-helpers/pod-resources';
import { isRestartableInitContainer } from '@oarlock/api/component-helpers/restartable-init-container';
import { milliValue, quantityValue } from '@oarlock/api/values/quantity';
import type { Container, Pod, ResourceRequirements } from '@oarlock/api/types/core-v1';
import type { Quantity } from '@oarlock/api/types/meta-v1';
import { objectKey } from '@oarlock/api/object';
import type { Resources, PodInfo } from '@oarlock/spi/scheduling';
import { resizedRequests, type ResizedRequests } from '@oarlock/api/component-helpers/resized-requests';

type ResourceList = ResourceRequirements['requests'];

/** Default requests of a container for scoring. Without them, pods without requests would all be placed on one node. */
const defaultNonZeroRequests = { milliCpu: 100, memory: 200 * 1024 * 1024 } as const;
const none: ReadonlyMap<string, number> = new Map();

/** Mutable sums of resources. Adding a quantity does not modify the added quantity. */
export class ResourceTotals implements Resources {
  milliCpu = 0;
  memory = 0;
  ephemeralStorage = 0;
  pods = 0;
  #scalar: Map<string, number> | undefined;

  get scalar(): ReadonlyMap<string, number> {
    return this.#scalar ?? none;
  }

  add(other: Resources, sign: 1 | -1 = 1): this {
    this.milliCpu += sign * other.milliCpu;
    this.memory += sign * other.memory;
    this.ephemeralStorage += sign * other.ephemeralStorage;
    this.pods += sign * other.pods;
    for (const [name, amount] of other.scalar) this.#set(name, (this.#scalar?.get(name) ?? 0) + sign * amount);
    return this;
  }

  addResourceList(list: ResourceList, useDefaults = false): this {
    const cpu = list?.['cpu'];
    const memory = list?.['memory'];
    this.milliCpu += cpu === undefined ? (useDefaults ? defaultNonZeroRequests.milliCpu : 0) : milliValue(cpu);
    this.memory += memory === undefined ? (useDefaults ? defaultNonZeroRequests.memory : 0) : quantityValue(memory);
    for (const [name, amount] of Object.entries(list ?? {})) {
      if (name === 'cpu' || name === 'memory') continue;
      if (name === 'ephemeral-storage') this.ephemeralStorage += quantityValue(amount);
      else if (name === 'pods') this.pods += quantityValue(amount);
      else this.#set(name, (this.#scalar?.get(name) ?? 0) + quantityValue(amount));
    }
    return this;
  }

  replace(name: string, amount: Quantity): void {
    if (name === 'cpu') this.milliCpu = milliValue(amount);
    else if (name === 'memory') this.memory = quantityValue(amount);
    else this.#set(name, quantityValue(amount));
  }

  /** Sets each resource to the larger of the two values. */
  setMax(other: Resources): this {
    this.milliCpu = Math.max(this.milliCpu, other.milliCpu);
    this.memory = Math.max(this.memory, other.memory);
    this.ephemeralStorage = Math.max(this.ephemeralStorage, other.ephemeralStorage);
    for (const [name, amount] of other.scalar) this.#set(name, Math.max(this.#scalar?.get(name) ?? 0, amount));
    return this;
  }

  copy(): ResourceTotals {
    return new ResourceTotals().add(this);
  }
  #set(name: string, amount: number): void {
    (this.#scalar ??= new Map()).set(name, amount);
  }
}

/**
 * Returns the resources that the kubelet reserves for a pod (KEP-753): the larger of the sum over containers and sidecars, and the largest init
 * container together with the sidecars that are started before it. Pod-level requests replace this result (KEP-2837). The overhead is added.
 */
function podRequests({ spec }: Pod, useDefaults: boolean, resized?: ResizedRequests): ResourceTotals {
  const requestsOf = ({ name, resources }: Container) => resized?.containers.get(name) ?? resources?.requests;
  const running = new ResourceTotals();
  for (const container of spec?.containers ?? []) running.addResourceList(requestsOf(container), useDefaults);
  const sidecars = new ResourceTotals();
  const starting = new ResourceTotals();
  for (const container of spec?.initContainers ?? []) {
    const initContainer = new ResourceTotals().addResourceList(requestsOf(container), useDefaults);
    if (isRestartableInitContainer(container)) {
      sidecars.add(initContainer);
      starting.setMax(sidecars);
    } else {
      starting.setMax(initContainer.add(sidecars));
    }
  }
  const total = running.add(sidecars).setMax(starting);
  for (const [name, amount] of Object.entries(resized?.pod ?? spec?.resources?.requests ?? {}))
    if (isSupportedPodLevelResource(name)) total.replace(name, amount);
  if (spec?.overhead !== undefined) total.addResourceList(spec.overhead);
  total.pods = 1;
  return total;
}

// pods of one template share their spec object, and so their requests
const requestsBySpec = new WeakMap<object, { readonly requests: Resources; readonly nonZeroRequests: Resources }>();

export function newPodInfo(pod: Pod): PodInfo {
  const spec = pod.spec ?? {};
  const resized = resizedRequests(pod);
  if (resized !== undefined) {
    const resources = { requests: podRequests(pod, false, resized), nonZeroRequests: podRequests(pod, true, resized) };
    return { pod, key: objectKey(pod), ...resources };
  }
  let resources = requestsBySpec.get(spec);
  if (resources === undefined) {
    resources = { requests: podRequests(pod, false), nonZeroRequests: podRequests(pod, true) };
    requestsBySpec.set(spec, resources);
  }
  return { pod, key: objectKey(pod), ...resources };
}

export const allocatableResources = (list: ResourceList): ResourceTotals => new ResourceTotals().addResourceList(list);

export const priorityOf = ({ pod }: PodInfo): number => pod.spec?.priority ?? 0;
