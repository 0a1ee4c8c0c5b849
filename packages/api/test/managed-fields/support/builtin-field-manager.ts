import { BuiltinTypes } from '../../../src/managed-fields/builtin-type.ts';
import { FieldManager } from '../../../src/managed-fields/field-manager.ts';
import { stripSet } from '../../../src/managed-fields/strip-meta.ts';
import type { GroupVersionKind } from '../../../src/kinds.ts';
import { apiVersionOf } from '../../../src/resource.ts';
import { schemaOf, type Schema } from '../../../src/schema/schema.ts';

const types = new BuiltinTypes();

/** Returns the field manager of a built-in kind that has one version and no defaults. */
export function builtinFieldManager({ group, version, kind }: GroupVersionKind): FieldManager {
  const type = types.of(schemaOf({ group, version, kind }) as Schema);
  const apiVersion = apiVersionOf({ group, version });
  return new FieldManager({
    group,
    version,
    kind,
    apiVersion,
    subresource: '',
    typeOf: (at) => (at === apiVersion ? type : undefined),
    convert: (object) => object,
    resetFields: () => stripSet,
    mayChangeAtomicity: false,
    complete: (object) => object,
  });
}
