import type { Kind } from '@oarlock/api/kinds';
import type { Resource } from '@oarlock/api/resource';
import type { Schema } from '@oarlock/api/schema/schema';
import type { JSONSchemaProps } from '@oarlock/api/types/apiextensions-v1';
import type { Printer } from '../endpoints/negotiation/table/printer.ts';

/** The description of a custom resource version that HTTP, OpenAPI and discovery use. */
export interface PublishedSchema {
  /** The GroupVersionResource; the same object for all requests. */
  readonly resource: Resource;
  /** The storage version. */
  readonly storageVersion: string;
  /** The OpenAPI schema of the version; undefined if it has none. */
  readonly schema: JSONSchemaProps | undefined;
  /** The fields that the schema declares, for strict decoding. Built on first use. */
  readonly fields: Schema;
  /** The table printer. Built on first use. */
  readonly printer: Printer;
  /** Returns a text that changes whenever the kind changes; part of the hash of OpenAPI documents. */
  toJSON(): string;
}
export interface PublishedKind extends Kind {
  readonly publishedSchema: PublishedSchema;
}

/** Returns the published description of a custom kind; undefined for a built-in kind. */
export function publishedSchemaOf(kind: Kind): PublishedSchema | undefined {
  return (kind as Partial<PublishedKind>).publishedSchema;
}
