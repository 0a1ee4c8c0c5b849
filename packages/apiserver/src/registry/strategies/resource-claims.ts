import type { KubeObject } from '@oarlock/api/object';
import type { ResourceClaimStatus } from '@oarlock/api/types/resource-v1';
import { statusOf, withFields, type Strategy } from '../strategy.ts';
import { statusOnly } from '../status-only.ts';

interface DeviceReference {
  readonly driver: string;
  readonly pool: string;
  readonly device: string;
}

/** Returns the identity of a device within the cluster. */
export const deviceId = ({ driver, pool, device }: DeviceReference): string => JSON.stringify([driver, pool, device]);

const allocatedIds = ({ allocation }: ResourceClaimStatus): readonly string[] => (allocation?.devices?.results ?? []).map(deviceId);

/** Returns the ids of the devices that an update of the status deallocates. */
export function deallocatedDevices(next: ResourceClaimStatus, before: ResourceClaimStatus): ReadonlySet<string> {
  const kept = new Set(allocatedIds(next));
  return new Set(allocatedIds(before).filter((id) => !kept.has(id)));
}

/** Returns the claim without the status of devices that the update deallocates. */
function withoutDeallocated(object: KubeObject, old: KubeObject): KubeObject {
  const status = statusOf<ResourceClaimStatus>(object);
  const { devices = [] } = status;
  const deallocated = deallocatedDevices(status, statusOf<ResourceClaimStatus>(old));
  const kept = devices.filter((device) => !deallocated.has(deviceId(device)));
  if (kept.length === devices.length) return object;
  const { devices: _devices, ...rest } = status;
  return withFields(object, { status: kept.length === 0 ? rest : { ...rest, devices: kept } });
}

export const resourceClaims: Strategy = {
  returnsDeletedObject: true,
  subresources: {
    status: { prepareForUpdate: (object, old, context) => withoutDeallocated(statusOnly.prepareForUpdate(object, old, context), old) },
  },
};
