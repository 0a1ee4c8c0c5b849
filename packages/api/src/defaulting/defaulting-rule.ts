import { copyFields, withoutField } from '../json/copy-fields.ts';
import { isObject, own } from '../json/json.ts';

export type Fields = Readonly<Record<string, unknown>>;
/** A function that returns a value with its defaults applied, or the value itself if nothing is missing. */
export type DefaultingRule = (value: Fields) => Fields;
type Default = string | number | boolean | Fields | readonly unknown[];

/** Returns a rule that applies the given rules in order. */
export const chain =
  (...rules: readonly DefaultingRule[]): DefaultingRule =>
  (value) =>
    rules.reduce((current, rule) => rule(current), value);

export function withField(value: Fields, key: string, field: unknown): Fields {
  if (own(value, key) === field) return value;
  if (field === undefined) return withoutField(value, key);
  const result: Record<string, unknown> = copyFields(value);
  result[key] = field;
  return result;
}

/**
 * Returns a rule that sets the default of each absent field. An empty string counts as absent, as in Go, unless the default is the empty string. A
 * default can be a function of the object; the field stays absent if the function returns undefined.
 */
export function defaults(table: Readonly<Record<string, Default | ((value: Fields) => Default | undefined)>>): DefaultingRule {
  const entries = Object.entries(table);
  return (value) => {
    let result: Record<string, unknown> | undefined;
    for (const [key, defaultValue] of entries) {
      const current = own(result ?? value, key);
      if (current !== undefined && !(current === '' && defaultValue !== '')) continue;
      const field = typeof defaultValue === 'function' ? defaultValue(result ?? value) : defaultValue;
      if (field !== undefined && field !== current) (result ??= copyFields(value))[key] = field;
    }
    return result ?? value;
  };
}

/** Returns a rule that sets defaults of numeric fields for which 0 counts as absent, because they are not pointers in Go. */
export function zeroDefaults(table: Readonly<Record<string, number>>): DefaultingRule {
  const entries = Object.entries(table);
  return (value) => {
    let result: Record<string, unknown> | undefined;
    for (const [key, defaultValue] of entries) if ((own(value, key) ?? 0) === 0) (result ??= copyFields(value))[key] = defaultValue;
    return result ?? value;
  };
}

/** Returns a rule that applies another rule to the object in a field, if the field is present. */
export const atField =
  (key: string, rule: DefaultingRule): DefaultingRule =>
  (value) => {
    const field = own(value, key);
    return isObject(field) ? withField(value, key, rule(field)) : value;
  };

/** Returns a rule that applies another rule to the object in a field. An absent object counts as empty; an object that stays empty is not stored. */
export const atStruct =
  (key: string, rule: DefaultingRule): DefaultingRule =>
  (value) => {
    const field = own(value, key);
    const before = isObject(field) ? field : empty;
    const after = rule(before);
    return after === before ? value : withField(value, key, after);
  };
const empty: Fields = Object.freeze({});

/** Returns a rule that applies another rule to every object of a list. */
export const forEachItem =
  (key: string, rule: DefaultingRule): DefaultingRule =>
  (value) => {
    const list = own(value, key);
    if (!Array.isArray(list)) return value;
    let result: unknown[] | undefined;
    for (let i = 0; i < list.length; i++) {
      const before: unknown = list[i];
      if (!isObject(before)) continue;
      const after = rule(before);
      if (after !== before) (result ??= [...(list as unknown[])])[i] = after;
    }
    return result === undefined ? value : withField(value, key, result);
  };

export const when =
  (condition: (value: Fields) => boolean, rule: DefaultingRule): DefaultingRule =>
  (value) =>
    condition(value) ? rule(value) : value;
export const fieldEquals =
  (key: string, expected: string) =>
  (value: Fields): boolean =>
    own(value, key) === expected;

export const objectAt = (value: Fields, key: string): Fields => {
  const field = own(value, key);
  return isObject(field) ? field : empty;
};
export const listAt = (value: Fields, key: string): readonly Fields[] => {
  const field = own(value, key);
  return Array.isArray(field) ? (field as unknown[]).filter(isObject) : [];
};
export const textAt = (value: Fields, key: string): string => {
  const field = own(value, key);
  return typeof field === 'string' ? field : '';
};
