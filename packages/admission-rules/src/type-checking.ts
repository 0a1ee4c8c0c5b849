import { kindOfResource } from '@oarlock/api/kinds';
import { schemaOf, type Schema } from '@oarlock/api/schema/schema';
import type { ExpressionWarning, TypeChecking, ValidatingAdmissionPolicy } from '@oarlock/api/types/admissionregistration-v1';
import type { CustomResourceDefinition } from '@oarlock/api/types/apiextensions-v1';
import { admissionEnvironment, type ExpressionScope } from './admission-environment.ts';
import { PolicyVariables } from './policy-variables.ts';
import { builtinType } from '@oarlock/cel/types/builtin-type';
import { compile } from '@oarlock/cel/program';
import { typeOfSchema, type StructuralSchema } from '@oarlock/cel/types/schema-type';
import { string, type Type } from '@oarlock/cel/types/type';

/** The maximum number of kinds that are checked per policy. */
const maxKinds = 10;

/**
 * Type-checks the CEL expressions of a policy against the kinds in the policy's rules, for `status.typeChecking`. Rules with wildcards are not
 * checked. `definitions` are the CustomResourceDefinitions, which provide the schemas of custom resources.
 */
export function typeChecking({ spec = {} }: ValidatingAdmissionPolicy, definitions: readonly CustomResourceDefinition[]): TypeChecking {
  const params = spec.paramKind !== undefined;
  const warnings: ExpressionWarning[] = [];
  const scopes = named(spec).flatMap((resource): { readonly title: string; readonly scope: ExpressionScope }[] => {
    const typed = builtinKind(resource) ?? customKind(resource, definitions);
    if (typed === undefined) return [];
    const { group, version } = resource;
    const title = `${group === '' ? '' : `${group}/`}${version}, Kind=${typed.kind}`;
    const scope = { params, object: typed.type, stored: true };
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

interface Named {
  readonly group: string;
  readonly version: string;
  readonly resource: string;
}
interface Typed {
  readonly kind: string;
  readonly type: Type;
}

function builtinKind(resource: Named): Typed | undefined {
  const kind = kindOfResource(resource);
  const schema = kind && schemaOf(kind);
  return kind && schema && { kind: kind.kind, type: builtinType(schema, kind.kind) };
}

function customKind({ group, version, resource }: Named, definitions: readonly CustomResourceDefinition[]): Typed | undefined {
  const definition = definitions.find(({ spec }) => spec.group === group && spec.names.plural === resource);
  const schema = definition?.spec.versions.find(({ name }) => name === version)?.schema?.openAPIV3Schema;
  if (definition === undefined || schema === undefined) return undefined;
  const { kind } = definition.spec.names;
  const { type } = typeOfSchema(schema as StructuralSchema, { name: kind });
  const meta = podMetadata();
  if (type.kind !== 'object' || meta === undefined) return { kind, type };
  // schemas of custom resources need not declare the fields that every object has
  const common = new Map<string, Type>([
    ['apiVersion', string],
    ['kind', string],
    ['metadata', builtinType(meta, 'ObjectMeta')],
  ]);
  const fields = () => new Set([...common.keys(), ...type.fields()]);
  return { kind, type: { ...type, field: (name) => common.get(name) ?? type.field(name), fields } };
}

/** Returns the schema of ObjectMeta, which is taken from the schema of Pod. */
const podMetadata = (): Schema | undefined => schemaOf({ group: '', version: 'v1', kind: 'Pod' })?.properties?.get('metadata');

interface NamedRule {
  readonly apiGroups?: readonly string[];
  readonly apiVersions?: readonly string[];
  readonly resources?: readonly string[];
}

function named({ matchConstraints }: NonNullable<ValidatingAdmissionPolicy['spec']>): readonly Named[] {
  const found = new Map<string, Named>();
  const rules: readonly NamedRule[] = matchConstraints?.resourceRules ?? [];
  for (const { apiGroups = [], apiVersions = [], resources = [] } of rules)
    for (const group of apiGroups)
      for (const version of apiVersions)
        for (const resource of resources)
          if (![group, version, resource].includes('*') && !resource.includes('/') && found.size < maxKinds)
            found.set(`${group}/${version}/${resource}`, { group, version, resource });
  return [...found.values()];
}

/** Returns the possible names of the CustomResourceDefinitions that a policy matches, such as `foos.example.com`. */
export function customNames({ spec = {} }: ValidatingAdmissionPolicy): readonly string[] {
  const names = named(spec).filter((resource) => kindOfResource(resource) === undefined && resource.group.includes('.'));
  return [...new Set(names.map(({ group, resource }) => `${resource}.${group}`))];
}
