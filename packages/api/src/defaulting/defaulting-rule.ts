import { isObject, own } from '../json/json.ts';

export type Fields = Readonly<Record<string, unknown>>;
/** Returns a value with its defaults, or the value itself if all are set. */
export type DefaultingRule = (value: Fields) => Fields;
type Default = string | number | boolean | Fields | readonly unknown[];

/** Combines rules; they are applied in order. */
export const chain =
  (...rules: readonly DefaultingRule[]): DefaultingRule =>
  (value) =>
    rules.reduce((current, rule) => rule(current), value);

export function withField(value: Fields, key: string, field: unknown): Fields {
  if (own(value, key) === field) return value;
  if (field !== undefined) return { ...value, [key]: field };
  const { [key]: _, ...rest } = value;
  return rest;
}

/**
 * Returns a rule that sets absent fields. An empty string counts as absent, as in Go, unless the default is the empty string.
 * A function computes the default from the object; undefined sets nothing.
 */
export function defaults(table: Readonly<Record<string, Default | ((value: Fields) => Default | undefined)>>): DefaultingRule {
  const entries = Object.entries(table);
  return (value) => {
    let result = value;
    for (const [key, defaultValue] of entries) {
      const current = own(result, key);
      if (current !== undefined && !(current === '' && defaultValue !== '')) continue;
      const field = typeof defaultValue === 'function' ? defaultValue(result) : defaultValue;
      if (field !== undefined && field !== current) result = { ...result, [key]: field };
    }
    return result;
  };
}

/** As `defaults` for numbers without a pointer in Go: 0 counts as absent. */
export function zeroDefaults(table: Readonly<Record<string, number>>): DefaultingRule {
  const entries = Object.entries(table);
  return (value) => {
    let result = value;
    for (const [key, defaultValue] of entries) if ((own(result, key) ?? 0) === 0) result = { ...result, [key]: defaultValue };
    return result;
  };
}

/** Applies a rule to the object in a field if it is present. */
export const atField =
  (key: string, rule: DefaultingRule): DefaultingRule =>
  (value) => {
    const field = own(value, key);
    return isObject(field) ? withField(value, key, rule(field)) : value;
  };

/** As `atField`, with an absent object as an empty one; an object that remains empty is not stored. */
export const atStruct =
  (key: string, rule: DefaultingRule): DefaultingRule =>
  (value) => {
    const field = own(value, key);
    const before = isObject(field) ? field : empty;
    const after = rule(before);
    return after === before ? value : withField(value, key, after);
  };
const empty: Fields = Object.freeze({});

/** Applies a rule to every object of a list. */
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
    return result === undefined ? value : { ...value, [key]: result };
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
