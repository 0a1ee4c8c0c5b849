import type { AllocatedDeviceStatus, DeviceRequestAllocationResult, ResourceClaim } from '@oarlock/api/types/resource-v1';

// Devices of an allocation that become ready only after the allocation, such as devices that are attached to the node (KEP-5007).

const withConditions = ({ status }: ResourceClaim): readonly DeviceRequestAllocationResult[] =>
  (status?.allocation?.devices?.results ?? []).filter(({ bindingConditions }) => (bindingConditions?.length ?? 0) > 0);

const statusOf = ({ status }: ResourceClaim, { driver, pool, device }: DeviceRequestAllocationResult): AllocatedDeviceStatus | undefined =>
  status?.devices?.find((each) => each.driver === driver && each.pool === pool && each.device === device);

const trueCondition = (status: AllocatedDeviceStatus | undefined, type: string) =>
  status?.conditions?.find((each) => each.type === type && each.status === 'True');

/** Returns true if a device of the claim's allocation has binding conditions. */
export const hasBindingConditions = (claim: ResourceClaim): boolean => withConditions(claim).length > 0;

/** Returns upstream's message if a binding failure condition of a device is true, otherwise undefined. */
export function bindingFailure(claim: ResourceClaim): string | undefined {
  for (const result of withConditions(claim)) {
    const status = statusOf(claim, result);
    for (const type of result.bindingFailureConditions ?? []) {
      const condition = trueCondition(status, type);
      if (condition !== undefined)
        return `claim ${claim.metadata?.name} binding failed: reason=${condition.reason}, message=${JSON.stringify(condition.message)}`;
    }
  }
  return undefined;
}

/** Returns true if the claim is allocated and all binding conditions of its devices are true. */
export const isReadyForBinding = (claim: ResourceClaim): boolean =>
  claim.status?.allocation !== undefined &&
  withConditions(claim).every((result) =>
    (result.bindingConditions ?? []).every((type) => trueCondition(statusOf(claim, result), type) !== undefined),
  );

/** Returns true if the devices of the claim did not become ready within `timeoutMs` after the allocation. `now` is in milliseconds since the epoch. */
export function isBindingTimedOut(claim: ResourceClaim, now: number, timeoutMs: number): boolean {
  const allocatedAt = claim.status?.allocation?.allocationTimestamp;
  if (allocatedAt === undefined || allocatedAt === null || !hasBindingConditions(claim) || isReadyForBinding(claim)) return false;
  return Date.parse(allocatedAt) + timeoutMs < now;
}
