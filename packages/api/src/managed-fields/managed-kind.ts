import type { KubeObject } from '../object.ts';
import type { FieldSet } from './field-set.ts';
import type { FieldType } from './field-type.ts';

/** One way of writing objects of a kind: the object itself or a subresource, in one version. */
export interface ManagedKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly apiVersion: string;
  /** '' for the object itself. */
  readonly subresource: string;
  /** Undefined when there is no such version (any more): what was managed in it is managed by nobody. */
  typeOf(apiVersion: string): FieldType | undefined;
  /** An object of any version that has a type, in another one. */
  convert(object: KubeObject, apiVersion: string): KubeObject;
  /** What the server sets back when objects are written this way, so that nobody comes to manage it. Includes `unmanaged`. */
  resets(apiVersion: string): FieldSet;
  /** Whether lists and maps may have become atomic since fields were managed in them. */
  readonly evolves: boolean;
  /** Makes a merged object one of its kind: types, canonical forms, defaults. @throws StatusError */
  complete(object: KubeObject): KubeObject;
}
