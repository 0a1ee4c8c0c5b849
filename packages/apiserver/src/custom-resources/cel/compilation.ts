import { isObject } from '@oarlock/api/json/json';
import type { JSONSchemaProps, ValidationRule } from '@oarlock/api/types/apiextensions-v1';
import { kubernetesEnvironment, type Environment } from '@oarlock/cel/checker/environment';
import { compile, type Program } from '@oarlock/cel/program';
import { typeOfSchema, type SchemaType, type StructuralSchema } from '@oarlock/cel/types/schema-type';
import { bool, optional, string } from '@oarlock/cel/types/type';

/** A validation rule of a schema (`x-kubernetes-validations`, KEP-2876): the compiled program, or the compilation error. */
export interface CompiledRule {
  readonly source: ValidationRule;
  readonly program: Program | undefined;
  readonly message: Program | undefined;
  /** True for a transition rule, which refers to oldSelf. The rule is evaluated only if an old value exists, unless optionalOldSelf is set. */
  readonly transition: boolean;
  /** The compilation error of the rule or of its messageExpression; undefined if both compile. */
  readonly ruleError: string | undefined;
  readonly messageError: string | undefined;
}

/** The validation rules of one schema node, and the CEL type of its values. */
export interface SchemaRules {
  readonly type: SchemaType;
  readonly rules: readonly CompiledRule[];
}

/** Compiles the rules of one schema node. Never throws: compilation errors are part of the result. */
export function compileSchemaRules(schema: JSONSchemaProps, root: boolean): SchemaRules {
  const type = typeOfSchema(schema as StructuralSchema, { name: 'self', resource: root });
  const plain = kubernetesEnvironment({ variables: { self: type.type, oldSelf: type.type } });
  let lenient: Environment | undefined;
  const rules = (schema['x-kubernetes-validations'] ?? []).map((source): CompiledRule => {
    const { rule, messageExpression = '', optionalOldSelf } = source;
    if (optionalOldSelf === true) lenient ??= kubernetesEnvironment({ variables: { self: type.type, oldSelf: optional(type.type) } });
    const env = optionalOldSelf === true && lenient !== undefined ? lenient : plain;
    const compiled = compile(rule, env);
    const wrong =
      compiled.program === undefined
        ? `compilation failed: ${compiled.message}`
        : compiled.program.type.kind === bool.kind
          ? undefined
          : 'cel expression must evaluate to a bool';
    const message = messageExpression.trim() === '' ? undefined : compile(messageExpression, env);
    const messageError =
      message === undefined
        ? undefined
        : message.program === undefined
          ? `messageExpression compilation failed: ${message.message}`
          : message.program.type.kind === string.kind
            ? undefined
            : 'messageExpression must evaluate to a string';
    return {
      source,
      program: wrong === undefined ? compiled.program : undefined,
      message: messageError === undefined ? message?.program : undefined,
      transition: compiled.program !== undefined && names(compiled.program, 'oldSelf'),
      ruleError: wrong,
      messageError,
    };
  });
  return { type, rules };
}

/** Returns true if the expression refers to the variable. */
function names(program: Program, variable: string): boolean {
  if (!program.source.includes(variable)) return false;
  const { checked } = program;
  const visit = (node: unknown): boolean => {
    if (Array.isArray(node)) return node.some(visit);
    if (node instanceof Map) return [...(node as Map<unknown, unknown>).values()].some(visit);
    if (!isObject(node)) return false;
    if (node['kind'] === 'ident' && node['name'] === variable) {
      const reference = checked.reference(node as never);
      return reference === undefined || reference.to === 'variable';
    }
    return Object.values(node).some(visit);
  };
  return visit(checked.expr);
}
