import { isRestartableInitContainer } from '../component-helpers/restartable-init-container.ts';
import { podResources } from '../component-helpers/pod-resources.ts';
import type { Pod } from '../generated/types/core-v1.ts';
import type { DeviceClass, DeviceRequest, ResourceClaim } from '../generated/types/resource-v1.ts';
import { controllerOf } from '../object.ts';
import { addQuantity, zeroQuantity, type ParsedQuantity } from '../values/quantity.ts';

export const deviceClassSuffix = '.deviceclass.resource.k8s.io/devices';
const implicitPrefix = 'requests.deviceclass.resource.kubernetes.io/';
const extendedClaimAnnotation = 'resource.kubernetes.io/extended-resource-claim';
/** The number of devices that a request for all devices counts for, which is the maximum of an allocation. */
const maxAllocatedDevices = 32;

/** What the usage of a ResourceClaim depends on besides the claim (KEP-5004). */
export interface DeviceQuotaContext {
  /** Returns the extended resource that a DeviceClass backs, or undefined. */
  extendedResourceOf(deviceClass: string): string | undefined;
  /** Returns a pod by namespace and name, or undefined. */
  pod(namespace: string, name: string): Pod | undefined;
}

/** Returns the context for these DeviceClasses and pods. */
export function deviceQuotaContext(classes: readonly DeviceClass[], pod: DeviceQuotaContext['pod']): DeviceQuotaContext {
  const names = new Map(classes.map(({ metadata, spec }) => [metadata?.name ?? '', spec.extendedResourceName]));
  return { extendedResourceOf: (deviceClass) => names.get(deviceClass), pod };
}

/** Returns true if devices count for a quota resource name as an extended resource: `requests.example.com/gpu`. */
export const countsExtendedResource = (name: string): boolean => name.startsWith('requests.') && name.includes('/') && !isStorageName(name);
const isStorageName = (name: string) => name.includes('.storageclass.storage.k8s.io/');

/** Returns true for a claim that the scheduler has created for the extended resources of a pod. */
export const isExtendedResourceClaim = ({ metadata }: ResourceClaim): boolean =>
  metadata?.annotations?.[extendedClaimAnnotation] === 'true';

/** An amount of an extended resource that a pod is charged for, by quota resource name. */
interface PodRequest {
  readonly name: string;
  readonly amount: ParsedQuantity;
}

/**
 * Adds the devices that a ResourceClaim requests to `used`, by device class; of alternatives, the largest number for each class (KEP-4381).
 *
 * The devices also count as the extended resources of their class, the implicit one and that of the DeviceClass (KEP-5004). A claim for the
 * extended resources of a pod does not count for the name under which the pod is charged already.
 */
export function addDeviceUsage(claim: ResourceClaim, used: Map<string, ParsedQuantity>, context: DeviceQuotaContext | undefined): void {
  const charged = context === undefined ? [] : chargedToPod(claim, context);
  const add = (name: string, amount: ParsedQuantity) => used.set(name, addQuantity(used.get(name) ?? zeroQuantity, amount));
  for (const request of claim.spec?.devices?.requests ?? [])
    for (const [deviceClass, count] of devicesByClass(request)) {
      const amount = addQuantity(count, 0);
      add(`${deviceClass}${deviceClassSuffix}`, amount);
      const extended = context?.extendedResourceOf(deviceClass);
      const names = [`${implicitPrefix}${deviceClass}`, ...(extended === undefined ? [] : [`requests.${extended}`])];
      const own = names.find((name) => removeRequest(charged, name, amount));
      for (const name of names) if (name !== own) add(name, amount);
    }
}

function devicesByClass({ exactly, firstAvailable = [] }: DeviceRequest): ReadonlyMap<string, number> {
  const most = new Map<string, number>();
  const alternatives = exactly === undefined ? firstAvailable : [exactly];
  for (const { deviceClassName, allocationMode, count = 0 } of alternatives) {
    const devices = allocationMode === 'All' ? maxAllocatedDevices : allocationMode === 'ExactCount' ? count : 0;
    most.set(deviceClassName, Math.max(most.get(deviceClassName) ?? 0, devices));
  }
  return most;
}

/** Removes a request of this name and amount. Returns false if there is none. */
function removeRequest(requests: PodRequest[], name: string, amount: ParsedQuantity): boolean {
  const index = requests.findIndex((each) => each.name === name && each.amount.compare(amount) === 0);
  if (index >= 0) requests.splice(index, 1);
  return index >= 0;
}

/**
 * Returns the amounts that the pod of a claim for extended resources is charged for: one for each container that keeps running, and one for what init
 * containers need beyond these. Returns none for other claims.
 */
function chargedToPod(claim: ResourceClaim, context: DeviceQuotaContext): PodRequest[] {
  const owner = controllerOf(claim);
  if (!isExtendedResourceClaim(claim) || owner?.kind !== 'Pod' || owner.apiVersion !== 'v1') return [];
  const pod = context.pod(claim.metadata?.namespace ?? '', owner.name);
  const named = pod?.status?.extendedResourceClaimStatus?.resourceClaimName;
  if (pod === undefined || pod.metadata?.uid !== owner.uid || (named !== undefined && named !== claim.metadata?.name)) return [];
  const requests: PodRequest[] = [];
  const sums = new Map<string, ParsedQuantity>();
  for (const { resources } of [...(pod.spec?.initContainers ?? []).filter(isRestartableInitContainer), ...(pod.spec?.containers ?? [])])
    for (const [name, quantity] of Object.entries(resources?.requests ?? {})) {
      if (!name.includes('/')) continue;
      const amount = addQuantity(quantity, 0);
      requests.push({ name: `requests.${name}`, amount });
      sums.set(name, addQuantity(sums.get(name) ?? zeroQuantity, amount));
    }
  for (const [name, total] of podResources(pod, 'requests')) {
    const rest = name.includes('/') ? total.minus(sums.get(name) ?? zeroQuantity) : zeroQuantity;
    if (rest.compare(zeroQuantity) > 0) requests.push({ name: `requests.${name}`, amount: rest });
  }
  return requests;
}
