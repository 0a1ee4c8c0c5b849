import { FieldSet } from './field-set.ts';

const names = [
  'name',
  'namespace',
  'creationTimestamp',
  'deletionTimestamp',
  'deletionGracePeriodSeconds',
  'selfLink',
  'uid',
  'clusterName',
  'generation',
  'managedFields',
  'resourceVersion',
];

/** Fields of every object that nobody manages. */
export const unmanaged: FieldSet = FieldSet.of(['f:apiVersion'], ['f:kind'], ...names.map((name) => ['f:metadata', `f:${name}`]));

/** Setting a field of the metadata is not managing them as a whole. */
export const metadataItself: FieldSet = FieldSet.of(['f:metadata']);
