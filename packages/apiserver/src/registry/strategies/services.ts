import type { FieldError } from '@oarlock/api/field/field-error';
import { invalidStatus } from '@oarlock/api/field/invalid-status';
import type { KubeObject } from '@oarlock/api/object';
import type { Service, ServiceSpec } from '@oarlock/api/types/core-v1';
import { statusOf, withFields, type AllocatedObject, type Allocation, type Strategy, type StrategyContext } from '../strategy.ts';
import { allocateClusterIPs, allocateNodePorts, type ServiceAllocation } from './service-allocations.ts';
import type { AllocationOwner, ServiceAllocator } from './service-allocator.ts';
import { initIPFamilyFields } from './service-ip-families.ts';
import { ipsOf, isHeadless, needsIP, portsOf, specOfService, type MutableServiceSpec } from './service-spec.ts';
import { dropTypeDependentFields, normalizeClusterIPs, patchAllocatedValues } from './service-update.ts';

/** Returns the strategy of Services, which allocates cluster IPs and node ports. */
export function servicesStrategy(allocator: ServiceAllocator): Strategy {
  return {
    fields: {
      'spec.clusterIP': (object) => (object as Service).spec?.clusterIP ?? '',
      'spec.type': (object) => (object as Service).spec?.type ?? '',
    },
    allowCreateOnUpdate: true,
    returnsDeletedObject: true,
    subresources: { status: { prepareForUpdate: (object, old) => withFields(object, { spec: specOfService(old) }) } },
    allocate(object, old, context) {
      const before = old && specOfService(old);
      return object === undefined
        ? { object: old ?? {}, reservation: releaseAll({ allocator, before, context }) }
        : allocate({ allocator, before, context }, object, old);
    },
  };
}

type AllocationInput = Omit<ServiceAllocation, 'spec'>;

/** Allocates the cluster IPs and node ports of a Service on create and update. */
function allocate(input: AllocationInput, object: KubeObject, old: KubeObject | undefined): AllocatedObject {
  const { before } = input;
  const { name = '', namespace = '' } = object.metadata ?? {};
  const spec: MutableServiceSpec = { ...specOfService(object) };
  if (before !== undefined) {
    patchAllocatedValues(spec, before);
    dropTypeDependentFields(spec, before);
  }
  normalizeClusterIPs(spec, before);
  const allocation: ServiceAllocation = { ...input, spec };
  if (needsIP(spec)) {
    throwIfInvalid(name, initIPFamilyFields(allocation));
    if (!isHeadless(spec)) throwIfInvalid(name, allocateClusterIPs(allocation));
  }
  throwIfInvalid(name, allocateNodePorts(allocation));
  // an update keeps status.loadBalancer
  const status = before === undefined ? { loadBalancer: {} } : statusOf(old);
  return { object: withFields(object, { spec, status }), reservation: reservationOf(allocation, { namespace, name }) };
}

function throwIfInvalid(name: string, errors: readonly FieldError[]): void {
  if (errors.length > 0) throw invalidStatus({ group: '', kind: 'Service', name }, errors);
}

/** Returns the writes that release all allocations of a Service. */
function releaseAll(input: AllocationInput): Allocation | undefined {
  return changeReservations(input, { keys: new Set(), owner: { namespace: '', name: '' } });
}

/** Returns the writes that acquire the allocations of the new spec and release those that only the old spec contains. */
function reservationOf({ spec, ...input }: ServiceAllocation, owner: AllocationOwner): Allocation | undefined {
  return changeReservations(input, { keys: keysOf(input.allocator, spec), owner });
}

const keysOf = (allocator: ServiceAllocator, spec: ServiceSpec): ReadonlySet<string> =>
  new Set([...ipsOf(spec).map((ip) => allocator.ipKey(ip)), ...portsOf(spec).map((port) => allocator.portKey(port))]);

interface Reservations {
  readonly keys: ReadonlySet<string>;
  readonly owner: AllocationOwner;
}

function changeReservations({ allocator, before, context }: AllocationInput, { keys, owner }: Reservations): Allocation | undefined {
  const { takenReservations, now }: StrategyContext = context;
  const heldKeys: ReadonlySet<string> = before === undefined ? new Set() : keysOf(allocator, before);
  const acquired = [...keys].filter((key) => !heldKeys.has(key));
  const released = [...heldKeys].filter((key) => !keys.has(key));
  if (acquired.length === 0 && released.length === 0) return undefined;
  return {
    writes: [
      ...acquired.map((key) => ({ key, value: allocator.valueOf(key, owner, now) })),
      ...released.map((key) => ({ key, value: null })),
    ],
    expect: acquired.map((key) => ({ key, revision: 0 })),
    onConflict(key) {
      takenReservations.add(key);
      allocator.setAllocated(key, true);
    },
  };
}
