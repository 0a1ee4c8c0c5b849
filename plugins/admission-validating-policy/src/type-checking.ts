import { kindOfResource, type Kind } from '@oarlock/api/kinds';
import { schemaOf } from '@oarlock/api/schema';
import type { ExpressionWarning, TypeChecking, ValidatingAdmissionPolicy } from '@oarlock/api/types/admissionregistration-v1';
import { admissionEnvironment, type ExpressionScope } from '@oarlock/admission-rules/environment';
import { PolicyVariables } from '@oarlock/admission-rules/policy-variables';
import { builtinType } from '@oarlock/cel/builtin-type';
import { compile } from '@oarlock/cel/program';

/** So many kinds of one policy are looked at. */
const maxKinds = 10;

/**
 * What the types of the kinds that a policy names by group, version and resource say against its expressions. Rules with wildcards say
 * nothing of types, and neither do custom resources here. As `status.typeChecking` of Kubernetes.
 */
export function typeChecking({ spec = {} }: ValidatingAdmissionPolicy): TypeChecking {
  const params = spec.paramKind !== undefined;
  const kinds = kindsOf(spec.matchConstraints?.resourceRules ?? []);
  const warnings: ExpressionWarning[] = [];
  const scopes = kinds.flatMap((kind): { readonly title: string; readonly scope: ExpressionScope }[] => {
    const schema = schemaOf(kind);
    if (schema === undefined) return [];
    const title = `${kind.group === '' ? '' : `${kind.group}/`}${kind.version}, Kind=${kind.kind}`;
    const scope = { params, object: builtinType(schema, kind.kind) };
    return [{ title, scope: { ...scope, variables: new PolicyVariables(spec.variables, scope).type } }];
  });
  const check = (fieldRef: string, expression: string) => {
    const found = scopes.flatMap(({ title, scope }) => {
      const { message } = compile(expression, admissionEnvironment(scope));
      return message === undefined ? [] : [`${title}: ${message}\n`];
    });
    if (found.length > 0) warnings.push({ fieldRef, warning: found.join('') });
  };
  (spec.validations ?? []).forEach(({ expression, messageExpression }, i) => {
    check(`spec.validations[${i}].expression`, expression);
    if (messageExpression) check(`spec.validations[${i}].messageExpression`, messageExpression);
  });
  return warnings.length === 0 ? {} : { expressionWarnings: warnings };
}

interface NamedRule {
  readonly apiGroups?: readonly string[];
  readonly apiVersions?: readonly string[];
  readonly resources?: readonly string[];
}

function kindsOf(rules: readonly NamedRule[]): readonly Kind[] {
  const found = new Set<Kind>();
  for (const { apiGroups = [], apiVersions = [], resources = [] } of rules)
    for (const group of apiGroups)
      for (const version of apiVersions)
        for (const resource of resources) {
          const kind = kindOfResource({ group, version, resource });
          if (kind !== undefined && found.size < maxKinds) found.add(kind);
        }
  return [...found];
}
