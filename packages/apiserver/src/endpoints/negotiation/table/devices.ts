import type { ResourceClaim, ResourceSlice } from '@oarlock/api/types/resource-v1';
import type { DeviceTaintRule } from '@oarlock/api/types/resource-v1beta2';
import { ageOf, nameOf } from './cells.ts';
import { since } from './duration.ts';
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

/** Prints DeviceTaintRules. The selector is not printed, because it may be long and is often empty. */
export const deviceTaintRulePrinter: Printer<DeviceTaintRule> = {
  columns: columnsOf(
    'Name',
    { name: 'Key', description: 'The key of the taint.' },
    { name: 'Value', description: 'The value of the taint.' },
    { name: 'Effect', description: 'The effect of the taint on claims and pods.' },
    { name: 'TimeAdded', description: 'The time since the taint was added.' },
    'Age',
  ),
  cells(object, now) {
    const taint: Partial<DeviceTaintRule['spec']['taint']> = object.spec?.taint ?? {};
    const { key = '', value = '', effect = '', timeAdded } = taint;
    return [nameOf(object), key, value, effect, timeAdded === undefined ? '' : since(timeAdded, now), ageOf(object, now)];
  },
};
