import type { KubeObject } from '../object.ts';
import type { FieldSet } from './field-set.ts';
import type { FieldType } from './field-type.ts';

/** One endpoint of a kind, the object itself or a subresource, in one version: its types, conversion and reset fields. */
export interface ManagedKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly apiVersion: string;
  /** '' for the object itself. */
  readonly subresource: string;
  /** Returns undefined if the version does not exist or is no longer served; fields managed in it lose their managers. */
  typeOf(apiVersion: string): FieldType | undefined;
  /** Converts an object of any version that has a type to another version. */
  convert(object: KubeObject, apiVersion: string): KubeObject;
  /** Fields that the server resets on writes to this endpoint, so they get no manager (resetFields upstream). Includes `unmanaged`. */
  resetFields(apiVersion: string): FieldSet;
  /** True if lists and maps may have become atomic since fields in them were managed, as in custom resources. */
  readonly mayChangeAtomicity: boolean;
  /** Finishes a merged object: types, canonical forms, defaults. @throws StatusError */
  complete(object: KubeObject): KubeObject;
}
