import { isObject, own } from '../json.ts';

export type Fields = Readonly<Record<string, unknown>>;
/** Gives a value with its defaults; the value itself when it has them all. */
export type Rule = (value: Fields) => Fields;
type Default = string | number | boolean | Fields | readonly unknown[];

/** Applies rules one after the other. */
export const chain =
  (...rules: readonly Rule[]): Rule =>
  (value) =>
    rules.reduce((current, rule) => rule(current), value);

export function withField(value: Fields, key: string, field: unknown): Fields {
  if (own(value, key) === field) return value;
  if (field !== undefined) return { ...value, [key]: field };
  const { [key]: _, ...rest } = value;
  return rest;
}

/**
 * Fills in fields that are absent. An empty string counts as absent, as Go has it, unless the default is one itself.
 * A function computes the default from the object; undefined leaves the field alone.
 */
export function defaults(table: Readonly<Record<string, Default | ((value: Fields) => Default | undefined)>>): Rule {
  const entries = Object.entries(table);
  return (value) => {
    let result = value;
    for (const [key, given] of entries) {
      const current = own(result, key);
      if (current !== undefined && !(current === '' && given !== '')) continue;
      const field = typeof given === 'function' ? given(result) : given;
      if (field !== undefined && field !== current) result = { ...result, [key]: field };
    }
    return result;
  };
}

/** As `defaults` for numbers that Go keeps without a pointer: 0 counts as absent. */
export function zeroDefaults(table: Readonly<Record<string, number>>): Rule {
  const entries = Object.entries(table);
  return (value) => {
    let result = value;
    for (const [key, given] of entries) if ((own(result, key) ?? 0) === 0) result = { ...result, [key]: given };
    return result;
  };
}

/** Applies a rule to the object in a field, where there is one. */
export const at =
  (key: string, rule: Rule): Rule =>
  (value) => {
    const field = own(value, key);
    return isObject(field) ? withField(value, key, rule(field)) : value;
  };

/** As `at`, where an absent object counts as an empty one; one that stays empty is not stored. */
export const within =
  (key: string, rule: Rule): Rule =>
  (value) => {
    const field = own(value, key);
    const before = isObject(field) ? field : empty;
    const after = rule(before);
    return after === before ? value : withField(value, key, after);
  };
const empty: Fields = Object.freeze({});

/** Applies a rule to every object of a list. */
export const each =
  (key: string, rule: Rule): Rule =>
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
  (condition: (value: Fields) => boolean, rule: Rule): Rule =>
  (value) =>
    condition(value) ? rule(value) : value;
export const is =
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
