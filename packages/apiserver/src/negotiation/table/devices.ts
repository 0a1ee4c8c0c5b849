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
  columns: columnsOf('Name', { name: 'State', about: 'Whether it has its devices, and whether somebody may use them.' }, 'Age'),
  cells: (object, now) => [nameOf(object), claimState(object), ageOf(object, now)],
};

export const resourceSlicePrinter: Printer<ResourceSlice> = {
  columns: columnsOf(
    'Name',
    { name: 'Node', about: 'The node that has the devices.' },
    { name: 'Driver', about: 'The driver that offers them.' },
    { name: 'Pool', about: 'The pool that they are of.' },
    'Age',
  ),
  cells(object, now) {
    const spec: Partial<ResourceSlice['spec']> = object.spec ?? {};
    return [nameOf(object), spec.nodeName ?? '', spec.driver ?? '', spec.pool?.name ?? '', ageOf(object, now)];
  },
};
