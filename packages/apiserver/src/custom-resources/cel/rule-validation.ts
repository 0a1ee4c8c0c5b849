import { fieldForbidden, invalid, notSupported, required, type FieldError } from '@oarlock/api/field/field-error';
import { jsonEqual } from '@oarlock/api/json/json';
import type { JSONSchemaProps, ValidationRule } from '@oarlock/api/types/apiextensions-v1';
import { estimateCost, maxDefinitionCost, maxRuleCost } from '@oarlock/cel/cost-estimate';
import { maxRequestBytes, type DeclaredSize } from '@oarlock/cel/types/declared-size';
import { compileSchemaRules, type CompiledRule, type StoredExpressions } from './compilation.ts';

type Errors = FieldError[];

const reasons = ['FieldValueDuplicate', 'FieldValueForbidden', 'FieldValueInvalid', 'FieldValueRequired'];
const costHint = 'try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared';
/** The maximum number of rules that are listed, most expensive first, if the total cost exceeds the limit. */
const maxReportedRules = 4;
/** The minimum cost of a rule that is listed. */
const minReportedCost = maxDefinitionCost / 100;

interface SchemaLocation {
  readonly path: string;
  /**
   * The maximum number of values of this schema node in one object: the product of maxItems and maxProperties of the lists and maps around it;
   * undefined if one of them has no limit.
   */
  readonly cardinality: number | undefined;
  /** The path of the nearest ancestor that makes it impossible to find the old value of a value, such as an atomic list (KEP-4008); undefined if old values can be found. */
  readonly uncorrelated: string | undefined;
  readonly isRoot: boolean;
}
interface CostEstimate {
  total: number;
  readonly rules: { readonly path: string; readonly cost: number }[];
}

/** What an update knows of the definition before it. */
export interface RuleContext {
  /** The schema before the update. */
  readonly old: JSONSchemaProps | undefined;
  readonly stored: StoredExpressions;
}

/**
 * Validates the rules of a schema: their compilation, the use of oldSelf, and the estimated cost. A rule that `old` contains unchanged at
 * the same path is exempt from the cost limit.
 */
export function validateRuleDefinitions(schema: JSONSchemaProps, path: string, { old, stored }: RuleContext): readonly FieldError[] {
  const validation = new RuleDefinitionValidation(stored);
  validation.visit(schema, { path, cardinality: 1, uncorrelated: undefined, isRoot: true }, old);
  const { errors, estimate } = validation;
  if (estimate.total <= maxDefinitionCost || (old !== undefined && jsonEqual(schema, old))) return errors;
  const mostExpensive = [...estimate.rules].sort((a, b) => b.cost - a.cost).slice(0, maxReportedRules);
  const detail = costError(
    'x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema',
    estimate.total,
    maxDefinitionCost,
  );
  return [
    ...errors,
    ...mostExpensive.map((rule) =>
      fieldForbidden(rule.path, 'contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema'),
    ),
    fieldForbidden(path, detail),
  ];
}

function costError(subject: string, cost: number, limit: number): string {
  const factor = cost / limit;
  // one digit would show a factor of 1.0 for a cost just above the limit
  const text = factor > 100 ? 'more than 100' : factor < 1.5 ? factor.toFixed(6) : factor.toFixed(1);
  return `${subject} exceeds budget by factor of ${text}x (${costHint})`;
}

/** Returns a rule as errors show it: with the names and the empty fields of upstream's internal type. */
const inErrors = ({ rule, message, messageExpression, reason, fieldPath, optionalOldSelf }: ValidationRule) => ({
  Rule: rule,
  Message: message ?? '',
  MessageExpression: messageExpression ?? '',
  Reason: reason ?? null,
  FieldPath: fieldPath ?? '',
  OptionalOldSelf: optionalOldSelf ?? null,
});

/** Collects the errors and the estimated costs of the rules of one schema. */
class RuleDefinitionValidation {
  readonly errors: Errors = [];
  readonly estimate: CostEstimate = { total: 0, rules: [] };
  readonly #stored: StoredExpressions;

  constructor(stored: StoredExpressions) {
    this.#stored = stored;
  }

  /** Validates the rules of a schema node and of its children. `old` is the node at the same path in the schema before the update. */
  visit(schema: JSONSchemaProps, location: SchemaLocation, old: JSONSchemaProps | undefined): void {
    if ((schema['x-kubernetes-validations'] ?? []).length > 0) this.#checkRules(schema, location, old);
    const { path } = location;
    const { items, additionalProperties, properties = {} } = schema;
    const elements = maxElements(schema);
    const cardinality = location.cardinality === undefined || elements === undefined ? undefined : location.cardinality * elements;
    const child = (name: string, uncorrelated: string | undefined): SchemaLocation => ({
      path: `${path}.${name}`,
      cardinality,
      uncorrelated,
      isRoot: false,
    });
    if (items !== undefined && !Array.isArray(items)) {
      const isKeyed = schema['x-kubernetes-list-type'] === 'map';
      const uncorrelated = location.uncorrelated ?? (isKeyed ? undefined : path);
      const before = Array.isArray(old?.items) ? undefined : (old?.items as JSONSchemaProps | undefined);
      this.visit(items as JSONSchemaProps, child('items', uncorrelated), before);
    }
    // a map of type atomic has no correlatable values
    const uncorrelated = location.uncorrelated ?? (schema['x-kubernetes-map-type'] === 'atomic' ? path : undefined);
    if (typeof additionalProperties === 'object') {
      const before = old?.additionalProperties;
      this.visit(additionalProperties, child('additionalProperties', uncorrelated), typeof before === 'object' ? before : undefined);
    }
    for (const [name, property] of Object.entries(properties))
      this.visit(property, child(`properties[${name}]`, uncorrelated), old?.properties?.[name]);
  }

  #checkRules(schema: JSONSchemaProps, location: SchemaLocation, old: JSONSchemaProps | undefined): void {
    const { type, rules } = compileSchemaRules(schema, location.isRoot, this.#stored);
    const before = old?.['x-kubernetes-validations'] ?? [];
    for (const [i, rule] of rules.entries()) {
      const path = `${location.path}.x-kubernetes-validations[${i}]`;
      const isUnchanged = old !== undefined && before.some((each) => jsonEqual(each, rule.source)) && jsonEqual(schema, old);
      checkMessage(this.errors, rule.source, path);
      if (rule.source.rule.trim() === '') continue;
      if (rule.ruleError !== undefined) this.errors.push(invalid(`${path}.rule`, inErrors(rule.source), rule.ruleError));
      if (rule.messageError !== undefined) this.errors.push(invalid(`${path}.messageExpression`, inErrors(rule.source), rule.messageError));
      const fieldPathError = checkFieldPath(schema, rule.source, path);
      if (fieldPathError !== undefined) this.errors.push(fieldPathError);
      if (rule.program === undefined) continue;
      this.#checkOldSelf(rule, path, location.uncorrelated);
      this.#checkCost(rule, {
        path,
        size: type.size,
        cardinality: location.cardinality ?? maxCardinality(type.minBytes),
        isUnchanged,
      });
    }
  }

  #checkOldSelf({ source, transition }: CompiledRule, path: string, uncorrelated: string | undefined): void {
    if (transition && uncorrelated !== undefined)
      this.errors.push(
        invalid(`${path}.rule`, source.rule, `oldSelf cannot be used on the uncorrelatable portion of the schema within ${uncorrelated}`),
      );
    if (!transition && source.optionalOldSelf !== undefined)
      this.errors.push(invalid(`${path}.optionalOldSelf`, source.optionalOldSelf, 'may not be set if oldSelf is not used in rule'));
  }

  #checkCost({ program, message }: CompiledRule, { path, size, cardinality, isUnchanged }: CostCheck): void {
    if (program !== undefined)
      this.#observeCost('estimated rule cost', { path: `${path}.rule`, cost: estimateCost(program, size).max * cardinality, isUnchanged });
    // a message is evaluated only for the first violation, so its cost is not multiplied by the number of values
    if (message !== undefined)
      this.#observeCost('estimated messageExpression cost', {
        path: `${path}.messageExpression`,
        cost: estimateCost(message, size).max,
        isUnchanged,
      });
  }

  #observeCost(subject: string, { path, cost, isUnchanged }: ExpressionCost): void {
    this.estimate.total += cost;
    if (cost >= minReportedCost) this.estimate.rules.push({ path, cost });
    if (cost > maxRuleCost && !isUnchanged) this.errors.push(fieldForbidden(path, costError(subject, cost, maxRuleCost)));
  }
}

/**
 * Returns the factor by which a schema node increases the number of values of its children: `maxItems` of a list, `maxProperties` of a map, 1 for
 * other values; undefined if the list or map has no limit.
 */
function maxElements({ type, additionalProperties, maxItems, maxProperties }: JSONSchemaProps): number | undefined {
  const isMap = type === 'object' && additionalProperties !== undefined;
  if (type !== 'array' && !isMap) return 1;
  const limit = isMap ? maxProperties : maxItems;
  return limit === undefined ? undefined : Math.max(0, limit);
}

/** Returns the maximum number of values of at least `minBytes` bytes that a request body can hold, separated by commas. */
const maxCardinality = (minBytes: number): number => Math.floor(maxRequestBytes / (minBytes + 1));

interface ExpressionCost {
  readonly path: string;
  readonly cost: number;
  readonly isUnchanged: boolean;
}
interface CostCheck {
  readonly path: string;
  readonly size: DeclaredSize;
  readonly cardinality: number;
  /** True if the rule existed before the update, which exempts it from the cost limit. */
  readonly isUnchanged: boolean;
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

/** Parses a fieldPath such as `.spec.x` or `.labels['a.b']` into property names; returns undefined if the path is invalid. */
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

function checkFieldPath(schema: JSONSchemaProps, { fieldPath = '' }: ValidationRule, path: string): FieldError | undefined {
  if (fieldPath === '') return undefined;
  const at = `${path}.fieldPath`;
  const names = fieldPath.trim() === '' ? undefined : fieldPathNames(fieldPath);
  if (names === undefined) return invalid(at, fieldPath, 'fieldPath must be a relative path of field names, such as .spec.name');
  let part: JSONSchemaProps | undefined = schema;
  for (const name of names) {
    const additional: JSONSchemaProps['additionalProperties'] = part?.additionalProperties;
    part = part?.properties?.[name] ?? (typeof additional === 'object' ? additional : undefined);
  }
  return part === undefined ? invalid(at, fieldPath, 'fieldPath must be a valid path: does not refer to a valid field') : undefined;
}
