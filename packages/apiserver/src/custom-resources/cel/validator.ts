import { duplicate, fieldForbidden, invalid, invalidOmittingValue, required, type FieldError } from '@oarlock/api/field/field-error';
import { isObject, jsonEqual } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';
import { perCallLimit, runtimeBudget } from '@oarlock/cel/cost-estimate';
import type { CelError } from '@oarlock/cel/values/cel-error';
import type { Bindings } from '@oarlock/cel/interpreter/frame';
import { none, Optional } from '@oarlock/cel/values/value';
import { correlate, type CorrelatedOld } from '../schema/correlation.ts';
import { fieldPathNames } from './rule-validation.ts';
import type { RuleMetrics } from './rule-metrics.ts';
import { compileSchemaRules, type CompiledRule, type SchemaRules } from './compilation.ts';
import type { SchemaNode } from '../schema/schema-node.ts';

const maxMessageLength = 5 * 1024;
const unchecked =
  'some validation rules were not checked because the object was invalid; correct the existing errors to complete validation';

const compiledRules = new WeakMap<SchemaNode, SchemaRules | null>();
const schemasWithRules = new WeakMap<SchemaNode, boolean>();

/** Returns the compiled rules of a schema node; undefined if it has none. Compiles on first use. */
function rulesOf(schema: SchemaNode, metrics: RuleMetrics | undefined): SchemaRules | undefined {
  let rules = compiledRules.get(schema);
  if (rules === undefined) {
    const has = (schema.source['x-kubernetes-validations'] ?? []).length > 0;
    const compiles = () => compileSchemaRules(schema.source, schema.root);
    rules = has ? (metrics === undefined ? compiles() : metrics.timeCompilation(compiles)) : null;
    compiledRules.set(schema, rules);
  }
  return rules ?? undefined;
}

/** Returns true if the schema node or a node below it has rules. Values without rules are not traversed. */
function hasRules(schema: SchemaNode): boolean {
  let has = schemasWithRules.get(schema);
  if (has === undefined) {
    has =
      (schema.source['x-kubernetes-validations'] ?? []).length > 0 ||
      (schema.items !== undefined && hasRules(schema.items)) ||
      (schema.additionalSchema !== undefined && hasRules(schema.additionalSchema)) ||
      schema.propertyNames.some((name) => hasRules(schema.property(name) as SchemaNode));
    schemasWithRules.set(schema, has);
  }
  return has;
}

/**
 * Returns the errors of the validation rules for an object. Rules of unchanged values are skipped, except transition rules. All rules of
 * the object share Kubernetes' runtime cost budget.
 */
export function validateRules(
  schema: SchemaNode,
  { object, old }: { readonly object: KubeObject; readonly old: KubeObject | undefined },
  metrics?: RuleMetrics,
): readonly FieldError[] {
  if (!hasRules(schema)) return [];
  const evaluation = new RuleEvaluation(metrics);
  const run = () => evaluation.visit(schema, object, '', old && { value: old });
  if (metrics === undefined) run();
  else metrics.timeEvaluation(run);
  return evaluation.errors;
}

/** Adds the error that validation rules were not evaluated, if `errors` contains other errors and the schema has rules. */
export function skippedRulesError(schema: SchemaNode, errors: readonly FieldError[]): readonly FieldError[] {
  return hasRules(schema)
    ? [...errors, { type: 'FieldValueInvalid', field: '<nil>', message: `Invalid value: null: ${unchecked}` }]
    : errors;
}

/** A value in an object whose schema node has rules. */
interface RuleTarget {
  readonly schema: SchemaNode;
  readonly value: unknown;
  readonly path: string;
}

class RuleEvaluation {
  readonly errors: FieldError[] = [];
  readonly #metrics: RuleMetrics | undefined;
  #budget = runtimeBudget;

  constructor(metrics: RuleMetrics | undefined) {
    this.#metrics = metrics;
  }

  /** Evaluates the rules of a value and of the values inside of it. Returns false if the cost budget is exhausted. */
  visit(schema: SchemaNode, value: unknown, path: string, old: CorrelatedOld | undefined): boolean {
    if (value === undefined || value === null || !hasRules(schema)) return true;
    const rules = rulesOf(schema, this.#metrics);
    if (rules !== undefined && !this.#evaluateAt({ schema, value, path }, rules, old)) return false;
    if (Array.isArray(value)) {
      const { items } = schema;
      if (items === undefined || !hasRules(items)) return true;
      return value.every((item, i) => this.visit(items, item, `${path}[${i}]`, correlate.item(schema, old, value as unknown[], i)));
    }
    if (!isObject(value)) return true;
    const additional = schema.additionalSchema;
    for (const key of Object.keys(value)) {
      const property = schema.property(key);
      const below = property ?? additional;
      if (below === undefined) continue;
      const at = property === undefined ? `${path}[${key}]` : path === '' ? key : `${path}.${key}`;
      if (!this.visit(below, value[key], at, correlate.field(old, key))) return false;
    }
    return true;
  }

  #evaluateAt(target: RuleTarget, { type, rules }: SchemaRules, old: CorrelatedOld | undefined): boolean {
    const { schema, value, path } = target;
    const unchanged = old !== undefined && jsonEqual(old.value, value);
    const before = old?.value === undefined || old.value === null ? undefined : old.value;
    const self = type.value(value);
    for (const rule of rules) {
      const optional = rule.source.optionalOldSelf === true;
      if (rule.transition ? before === undefined && !optional : unchanged) continue;
      if (rule.program === undefined) {
        this.errors.push(invalid(fieldPathOf(path), typeOf(schema), `rule compile error: ${rule.ruleError ?? ''}`));
        continue;
      }
      const bindings: Bindings = rule.transition
        ? { self, oldSelf: optional ? (before === undefined ? none : new Optional(type.value(before))) : type.value(before) }
        : { self };
      const { value: isSatisfied, error, cost } = rule.program.evaluate(bindings, Math.min(perCallLimit, this.#budget));
      this.#budget -= cost;
      if (error !== undefined) {
        if (!this.#evaluationError(target, rule, error)) return false;
      } else if (isSatisfied !== true) {
        const text = this.#messageOf(rule, bindings);
        if (text === undefined) return this.#costExceededError(target);
        this.errors.push(ruleError(target, rule, text));
      }
    }
    return true;
  }

  /** Records an evaluation error of a rule. Returns false if evaluation must stop. */
  #evaluationError(target: RuleTarget, { source }: CompiledRule, error: CelError): boolean {
    const { schema, path } = target;
    if (error.code !== 'budget') {
      this.errors.push(invalid(fieldPathOf(path), typeOf(schema), `${error.message} evaluating rule: ${ruleLabel(source)}`));
      return true;
    }
    if (this.#budget <= 0) return this.#costExceededError(target);
    this.errors.push(
      invalid(fieldPathOf(path), typeOf(schema), `${error.message}: call cost exceeds limit for rule: ${ruleLabel(source)}`),
    );
    return false;
  }

  #costExceededError({ schema, path }: RuleTarget): false {
    this.errors.push(
      invalid(
        fieldPathOf(path),
        typeOf(schema),
        'validation failed due to running out of cost budget, no further validation rules will be run',
      ),
    );
    return false;
  }

  /** Returns the message of a rule that evaluated to false; undefined if messageExpression exceeds the cost budget. */
  #messageOf({ source, message }: CompiledRule, bindings: Bindings): string | undefined {
    const defaultMessage =
      source.message !== undefined && source.message !== '' ? source.message.trim() : `failed rule: ${source.rule.trim()}`;
    if (message === undefined) return defaultMessage;
    const { value, error, cost } = message.evaluate(bindings, Math.min(perCallLimit, this.#budget));
    this.#budget -= cost;
    if (error?.code === 'budget' && this.#budget <= 0) return undefined;
    if (error !== undefined || typeof value !== 'string') return defaultMessage;
    const text = value.trim();
    return text === '' || text.includes('\n') || text.length > maxMessageLength ? defaultMessage : text;
  }
}

const ruleLabel = ({ message, rule }: CompiledRule['source']) => (message !== undefined && message !== '' ? message : rule);

/** Returns a field path in upstream's format: `<nil>` for the object itself. */
const fieldPathOf = (path: string) => (path === '' ? '<nil>' : path);

/** Returns the schema type, which errors of a rule's compilation or evaluation show as the value. */
const typeOf = ({ source }: SchemaNode): string => source.type ?? '';

/** Returns true for maps and lists, which errors of failed rules do not contain. */
const isContainer = ({ source }: SchemaNode): boolean => source.type === 'object' || source.type === 'array';

/** Returns the form of a value in error messages: lists and maps, which may be large, are replaced by the name of their type. */
function displayValue({ source }: SchemaNode, value: unknown): unknown {
  return typeof value === 'object' && value !== null ? (source.type ?? 'object') : value;
}

function ruleError({ schema, value, path }: RuleTarget, { source }: CompiledRule, text: string): FieldError {
  const names = source.fieldPath === undefined || source.fieldPath === '' ? [] : (fieldPathNames(source.fieldPath) ?? []);
  const at = names.reduce(
    (before, name) => (before === '' ? name : /^[A-Za-z_][\w-]*$/.test(name) ? `${before}.${name}` : `${before}[${name}]`),
    path,
  );
  const field = fieldPathOf(at);
  switch (source.reason) {
    case 'FieldValueRequired':
      return required(field, text);
    case 'FieldValueForbidden':
      return fieldForbidden(field, text);
    case 'FieldValueDuplicate':
      return duplicate(field, displayValue(schema, value));
    default:
      return isContainer(schema) ? invalidOmittingValue(field, text) : invalid(field, value, text);
  }
}
