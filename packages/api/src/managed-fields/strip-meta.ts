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

/** Fields of every object that have no manager. */
export const stripSet: FieldSet = FieldSet.of(['f:apiVersion'], ['f:kind'], ...names.map((name) => ['f:metadata', `f:${name}`]));

/** Setting one field of the metadata does not make its writer the owner of `metadata`. */
export const metadataField: FieldSet = FieldSet.of(['f:metadata']);
