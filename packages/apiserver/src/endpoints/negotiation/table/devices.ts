import type { ResourceClaim, ResourceSlice } from '@oarlock/api/types/resource-v1';
import { ageOf, nameOf } from './cells.ts';
import { columnsOf, type Printer } from './printer.ts';

function claimState({ metadata, status }: ResourceClaim): string {
  const deleted = metadata?.deletionTimestamp !== undefined;
  const states = deleted ? ['deleted'] : [];
  if (status?.allocation === undefined) return [...states, ...(deleted ? [] : ['pending'])].join(',');
  return [...states, 'allocated', ...((status.reservedFor ?? []).length > 0 ? ['reserved'] : [])].join(',');
}

export const resourceClaimPrinter: Printer<ResourceClaim> = {
  columns: columnsOf('Name', { name: 'State', description: 'The allocation and reservation state of the claim.' }, 'Age'),
  cells: (object, now) => [nameOf(object), claimState(object), ageOf(object, now)],
};

export const resourceSlicePrinter: Printer<ResourceSlice> = {
  columns: columnsOf(
    'Name',
    { name: 'Node', description: 'The node that the devices are attached to.' },
    { name: 'Driver', description: 'The DRA driver that publishes the slice.' },
    { name: 'Pool', description: 'The pool that the devices belong to.' },
    'Age',
  ),
  cells(object, now) {
    const spec: Partial<ResourceSlice['spec']> = object.spec ?? {};
    return [nameOf(object), spec.nodeName ?? '', spec.driver ?? '', spec.pool?.name ?? '', ageOf(object, now)];
  },
};
