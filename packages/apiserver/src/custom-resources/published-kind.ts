import type { Kind } from '@oarlock/api/kinds';
import type { Resource } from '@oarlock/api/resource';
import type { Schema } from '@oarlock/api/schema/schema';
import type { JSONSchemaProps } from '@oarlock/api/types/apiextensions-v1';
import type { Printer } from '../negotiation/table/printer.ts';

/** What HTTP has to know of a kind that a CustomResourceDefinition makes. */
export interface PublishedSchema {
  /** The same for all requests. */
  readonly resource: Resource;
  /** In which its objects are stored. */
  readonly storageVersion: string;
  /** As the definition has it; undefined where it says nothing. */
  readonly schema: JSONSchemaProps | undefined;
  /** By which unknown and duplicate fields are found. Made when first needed. */
  readonly fields: Schema;
  /** How its objects look as rows. Made when first needed. */
  readonly printer: Printer;
  /** What stands for all of it where documents are compared: changes whenever anything of it does. */
  toJSON(): string;
}
export interface PublishedKind extends Kind {
  readonly publishedSchema: PublishedSchema;
}

/** Undefined for built-in kinds. */
export function publishedSchemaOf(kind: Kind): PublishedSchema | undefined {
  return (kind as Partial<PublishedKind>).publishedSchema;
}
