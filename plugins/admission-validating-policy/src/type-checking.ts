import { kindOfResource } from '@oarlock/api/kinds';
import { schemaOf, type Schema } from '@oarlock/api/schema';
import type { ExpressionWarning, TypeChecking, ValidatingAdmissionPolicy } from '@oarlock/api/types/admissionregistration-v1';
import type { CustomResourceDefinition } from '@oarlock/api/types/apiextensions-v1';
import { admissionEnvironment, type ExpressionScope } from '@oarlock/admission-rules/environment';
import { PolicyVariables } from '@oarlock/admission-rules/policy-variables';
import { builtinType } from '@oarlock/cel/builtin-type';
import { compile } from '@oarlock/cel/program';
import { typeOfSchema, type StructuralSchema } from '@oarlock/cel/schema-type';
import { string, type Type } from '@oarlock/cel/type';

/** So many kinds of one policy are looked at. */
const maxKinds = 10;

/**
 * What the types of the kinds that a policy names by group, version and resource say against its expressions. Rules with wildcards say
 * nothing of types. As `status.typeChecking` of Kubernetes. `definitions` are those of custom resources, as far as there are any.
 */
export function typeChecking({ spec = {} }: ValidatingAdmissionPolicy, definitions: readonly CustomResourceDefinition[]): TypeChecking {
  const params = spec.paramKind !== undefined;
  const warnings: ExpressionWarning[] = [];
  const scopes = named(spec).flatMap((resource): { readonly title: string; readonly scope: ExpressionScope }[] => {
    const typed = builtinKind(resource) ?? customKind(resource, definitions);
    if (typed === undefined) return [];
    const { group, version } = resource;
    const title = `${group === '' ? '' : `${group}/`}${version}, Kind=${typed.kind}`;
    const scope = { params, object: typed.type };
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
  // a schema need not say what every object has
  const common = new Map<string, Type>([
    ['apiVersion', string],
    ['kind', string],
    ['metadata', builtinType(meta, 'ObjectMeta')],
  ]);
  const fields = () => new Set([...common.keys(), ...type.fields()]);
  return { kind, type: { ...type, field: (name) => common.get(name) ?? type.field(name), fields } };
}

/** The metadata of objects, as any kind of ours has it. */
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

/** The names of the definitions that a policy is about, if there are such: `foos.example.com`. */
export function customNames({ spec = {} }: ValidatingAdmissionPolicy): readonly string[] {
  const names = named(spec).filter((resource) => kindOfResource(resource) === undefined && resource.group.includes('.'));
  return [...new Set(names.map(({ group, resource }) => `${resource}.${group}`))];
}
