import type { KubeObject } from '../object.ts';
import type { FieldSet } from './field-set.ts';
import type { FieldType } from './field-type.ts';

/** An endpoint of a kind (the object itself or a subresource) in one version, as server-side apply sees it: types, conversion and reset fields. */
export interface ManagedKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly apiVersion: string;
  /** The subresource; '' for the object itself. */
  readonly subresource: string;
  /**
   * Returns the type of an API version; undefined if the version does not exist or is not served any more. Fields that are managed in such a version
   * lose their managers.
   */
  typeOf(apiVersion: string): FieldType | undefined;
  /** Converts an object to another API version. Both versions must have a type. */
  convert(object: KubeObject, apiVersion: string): KubeObject;
  /** Returns the fields that the server resets on writes to this endpoint, which therefore have no manager (resetFields upstream). */
  resetFields(apiVersion: string): FieldSet;
  /** True if lists and maps may have become atomic after managers owned fields inside of them, as in custom resources. */
  readonly mayChangeAtomicity: boolean;
  /** Returns a merged object with correct types, canonical forms and defaults. @throws StatusError if the object is invalid */
  complete(object: KubeObject, now: number): KubeObject;
}
