import type { FieldError } from '@oarlock/api/field-error';
import type { KubeObject } from '@oarlock/api/object';
import type { JSONSchemaProps } from '@oarlock/api/types/apiextensions-v1';
import type { SchemaNode } from './schema-node.ts';

/** What is wrong with the rules (`x-kubernetes-validations`) of a schema. */
export function ruleErrors(_schema: JSONSchemaProps, _path: string, _old: JSONSchemaProps | undefined): readonly FieldError[] {
  return [];
}

/** The rules of a schema that an object breaks. */
export function checkRules(_schema: SchemaNode, _object: KubeObject, _old: KubeObject | undefined): readonly FieldError[] {
  return [];
}

/** The errors, and that rules were not looked at, where there are any. */
export function rulesSkipped(_schema: SchemaNode, errors: readonly FieldError[]): readonly FieldError[] {
  return errors;
}
