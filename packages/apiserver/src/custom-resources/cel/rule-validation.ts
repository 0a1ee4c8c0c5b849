import { fieldForbidden, invalid, notSupported, required, type FieldError } from '@oarlock/api/field/field-error';
import { jsonEqual } from '@oarlock/api/json/json';
import type { JSONSchemaProps, ValidationRule } from '@oarlock/api/types/apiextensions-v1';
import { estimateCost, maxDefinitionCost, maxRuleCost } from '@oarlock/cel/cost-estimate';
import { maxElementsOf, type StructuralSchema } from '@oarlock/cel/types/schema-type';
import { compileSchemaRules, type CompiledRule, type SchemaRules } from './compilation.ts';

type Errors = FieldError[];

const reasons = ['FieldValueDuplicate', 'FieldValueForbidden', 'FieldValueInvalid', 'FieldValueRequired'];
const costHint = 'try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared';
/** The maximum number of expensive rules that are reported if the total cost exceeds the limit. */
const maxReportedRules = 4;

interface SchemaLocation {
  readonly path: string;
  /** The maximum cardinality of this node in one object. */
  readonly count: number;
  /** The path below which values have no correlated old value; undefined while they have one. */
  readonly uncorrelated: string | undefined;
}
interface CostEstimate {
  total: number;
  readonly rules: { readonly path: string; readonly cost: number }[];
}

/**
 * Validates the rules of a schema: compilation, use of oldSelf, and estimated cost. Rules that `old` contains at the same path are exempt
 * from the cost limit.
 */
export function validateRuleDefinitions(schema: JSONSchemaProps, path: string, old: JSONSchemaProps | undefined): readonly FieldError[] {
  const errors: Errors = [];
  const estimate: CostEstimate = { total: 0, rules: [] };
  visit(errors, schema, { path, count: 1, uncorrelated: undefined }, estimate, true, old);
  if (estimate.total > maxDefinitionCost && (old === undefined || !jsonEqual(schema, old))) {
    const most = [...estimate.rules].sort((a, b) => b.cost - a.cost).slice(0, maxReportedRules);
    for (const rule of most)
      errors.push(fieldForbidden(rule.path, 'contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema'));
    errors.push(
      fieldForbidden(
        path,
        costError('x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema', estimate.total, maxDefinitionCost),
      ),
    );
  }
  return errors;
}

function costError(what: string, cost: number, limit: number): string {
  const factor = cost / limit;
  return `${what} exceeds budget by factor of ${factor > 100 ? 'more than 100' : factor.toFixed(1)}x (${costHint})`;
}

function visit(
  errors: Errors,
  schema: JSONSchemaProps,
  place: SchemaLocation,
  spent: CostEstimate,
  root: boolean,
  old: JSONSchemaProps | undefined,
): void {
  if ((schema['x-kubernetes-validations'] ?? []).length > 0) checkRules(errors, schema, place, spent, root, old);
  const below = (
    part: JSONSchemaProps,
    path: string,
    count: number,
    uncorrelated: string | undefined,
    before: JSONSchemaProps | undefined,
  ) => visit(errors, part, { path, count: Math.min(place.count * count, Number.MAX_SAFE_INTEGER), uncorrelated }, spent, false, before);
  const elements = () => maxElementsOf(schema as StructuralSchema);
  const { items, additionalProperties, properties = {} } = schema;
  if (items !== undefined && !Array.isArray(items)) {
    const keyed = schema['x-kubernetes-list-type'] === 'map';
    below(
      items as JSONSchemaProps,
      `${place.path}.items`,
      elements(),
      place.uncorrelated ?? (keyed ? undefined : place.path),
      Array.isArray(old?.items) ? undefined : (old?.items as JSONSchemaProps | undefined),
    );
  }
  // a map of type atomic has no correlatable values
  const uncorrelated = place.uncorrelated ?? (schema['x-kubernetes-map-type'] === 'atomic' ? place.path : undefined);
  if (typeof additionalProperties === 'object') {
    const before = old?.additionalProperties;
    below(
      additionalProperties,
      `${place.path}.additionalProperties`,
      elements(),
      uncorrelated,
      typeof before === 'object' ? before : undefined,
    );
  }
  for (const [name, property] of Object.entries(properties))
    below(property, `${place.path}.properties[${name}]`, 1, uncorrelated, old?.properties?.[name]);
}

function checkRules(
  errors: Errors,
  schema: JSONSchemaProps,
  place: SchemaLocation,
  spent: CostEstimate,
  root: boolean,
  old: JSONSchemaProps | undefined,
): void {
  const compiled = compileSchemaRules(schema, root);
  const before = old?.['x-kubernetes-validations'] ?? [];
  for (const [i, rule] of compiled.rules.entries()) {
    const path = `${place.path}.x-kubernetes-validations[${i}]`;
    const isUnchanged = old !== undefined && before.some((each) => jsonEqual(each, rule.source)) && jsonEqual(schema, old);
    checkMessage(errors, rule.source, path);
    if (rule.source.rule.trim() === '') continue;
    if (rule.ruleError !== undefined) errors.push(invalid(`${path}.rule`, rule.source.rule, rule.ruleError));
    if (rule.messageError !== undefined)
      errors.push(invalid(`${path}.messageExpression`, rule.source.messageExpression ?? '', rule.messageError));
    checkFieldPath(errors, schema, rule.source, path);
    if (rule.program === undefined) continue;
    if (rule.transition && place.uncorrelated !== undefined)
      errors.push(
        invalid(
          `${path}.rule`,
          rule.source.rule,
          `oldSelf cannot be used on the uncorrelatable portion of the schema within ${place.uncorrelated}`,
        ),
      );
    if (!rule.transition && rule.source.optionalOldSelf !== undefined)
      errors.push(invalid(`${path}.optionalOldSelf`, rule.source.optionalOldSelf, 'may not be set if oldSelf is not used in rule'));
    checkCost(errors, compiled, rule, place, path, spent, isUnchanged);
  }
}

function checkCost(
  errors: Errors,
  { type }: SchemaRules,
  rule: CompiledRule,
  { count }: SchemaLocation,
  path: string,
  spent: CostEstimate,
  stood: boolean,
): void {
  const sizes = { self: type.sizes, oldSelf: type.sizes };
  for (const [name, program, what] of [
    ['rule', rule.program, 'estimated rule cost'],
    ['messageExpression', rule.message, 'estimated messageExpression cost'],
  ] as const) {
    if (program === undefined) continue;
    const cost = Math.min(estimateCost(program, sizes).max * count, Number.MAX_SAFE_INTEGER);
    if (name === 'rule') {
      spent.total += cost;
      spent.rules.push({ path: `${path}.rule`, cost });
    }
    if (cost > maxRuleCost && !stood) errors.push(fieldForbidden(`${path}.${name}`, costError(what, cost, maxRuleCost)));
  }
}

function checkMessage(errors: Errors, { rule, message, messageExpression, reason }: ValidationRule, path: string): void {
  if (rule.trim() === '') errors.push(required(`${path}.rule`, 'rule is not specified'));
  if (message !== undefined && message !== '' && message.trim() === '')
    errors.push(invalid(`${path}.message`, message, 'message must be non-empty if specified'));
  else if (message !== undefined && /[\n\r]/.test(message.trim()))
    errors.push(invalid(`${path}.message`, message, 'message must not contain line breaks'));
  else if (/[\n\r]/.test(rule.trim()) && (message ?? '') === '' && (messageExpression ?? '') === '')
    errors.push(required(`${path}.message`, 'message must be specified if rule contains line breaks'));
  if (messageExpression !== undefined && messageExpression !== '' && messageExpression.trim() === '')
    errors.push(required(`${path}.messageExpression`, 'messageExpression must be non-empty if specified'));
  if (reason !== undefined && reason !== '' && !reasons.includes(reason)) errors.push(notSupported(`${path}.reason`, reason, reasons));
}

/** Parses `.spec.x` or `.labels['a.b']` into names; returns undefined for an invalid path. */
export function fieldPathNames(path: string): readonly string[] | undefined {
  const names: string[] = [];
  let rest = path;
  while (rest !== '') {
    const found = /^\.([A-Za-z_][\w-]*)/.exec(rest) ?? /^\['((?:[^'\\]|\\.)*)'\]/.exec(rest);
    if (found?.[1] === undefined) return undefined;
    names.push(found[1]);
    rest = rest.slice(found[0].length);
  }
  return names.length === 0 ? undefined : names;
}

function checkFieldPath(errors: Errors, schema: JSONSchemaProps, { fieldPath = '' }: ValidationRule, path: string): void {
  if (fieldPath === '') return;
  const at = `${path}.fieldPath`;
  const names = fieldPath.trim() === '' ? undefined : fieldPathNames(fieldPath);
  if (names === undefined) {
    errors.push(invalid(at, fieldPath, 'fieldPath must be a relative path of field names, such as .spec.name'));
    return;
  }
  let part: JSONSchemaProps | undefined = schema;
  for (const name of names) {
    const additional: JSONSchemaProps['additionalProperties'] = part?.additionalProperties;
    part = part?.properties?.[name] ?? (typeof additional === 'object' ? additional : undefined);
  }
  if (part === undefined) errors.push(invalid(at, fieldPath, 'fieldPath must be a valid path: does not refer to a valid field'));
}
