import { isObject } from '@oarlock/api/json/json';
import type { JSONSchemaProps, ValidationRule } from '@oarlock/api/types/apiextensions-v1';
import { kubernetesEnvironment, storedEnvironment, type Environment } from '@oarlock/cel/checker/environment';
import { compile, type Compiled, type Program } from '@oarlock/cel/program';
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

/** The expressions that are stored already. They compile in the environment of stored expressions, all others in the one of new expressions. */
export interface StoredExpressions {
  readonly isStoredRule: (rule: string) => boolean;
  readonly isStoredMessage: (messageExpression: string) => boolean;
}
/** For definitions that are read from storage. */
const allStored: StoredExpressions = { isStoredRule: () => true, isStoredMessage: () => true };

/** Compiles the rules of one schema node. Never throws: compilation errors are part of the result. */
export function compileSchemaRules(schema: JSONSchemaProps, root: boolean, stored: StoredExpressions = allStored): SchemaRules {
  const type = typeOfSchema(schema as StructuralSchema, { name: 'self', resource: root });
  const environment = (isStored: boolean, optionalOldSelf: boolean): Environment => {
    const variables = { self: type.type, oldSelf: optionalOldSelf ? optional(type.type) : type.type };
    return isStored ? storedEnvironment({ variables }) : kubernetesEnvironment({ variables });
  };
  const rules = (schema['x-kubernetes-validations'] ?? []).map((source): CompiledRule => {
    const { rule, messageExpression = '', optionalOldSelf = false } = source;
    const compiled = compile(rule, environment(stored.isStoredRule(rule), optionalOldSelf));
    const message =
      messageExpression.trim() === ''
        ? undefined
        : compile(messageExpression, environment(stored.isStoredMessage(messageExpression), optionalOldSelf));
    const ruleError = errorOfRule(compiled);
    const messageError = message && errorOfMessage(message);
    return {
      source,
      program: ruleError === undefined ? compiled.program : undefined,
      message: messageError === undefined ? message?.program : undefined,
      transition: compiled.program !== undefined && names(compiled.program, 'oldSelf'),
      ruleError,
      messageError,
    };
  });
  return { type, rules };
}

function errorOfRule({ program, message }: Compiled): string | undefined {
  if (program === undefined) return `compilation failed: ${message}`;
  return program.type.kind === bool.kind ? undefined : 'cel expression must evaluate to a bool';
}

function errorOfMessage({ program, message }: Compiled): string | undefined {
  if (program === undefined) return `messageExpression compilation failed: ${message}`;
  return program.type.kind === string.kind ? undefined : 'messageExpression must evaluate to a string';
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
