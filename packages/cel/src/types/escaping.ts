import { keywords, reservedWords } from '../syntax/reserved-words.ts';

const symbols: Readonly<Record<string, string>> = { '.': '__dot__', '-': '__dash__', '/': '__slash__', __: '__underscores__' };

/**
 * Returns the CEL identifier of a property: `a__dot__b` for `a.b`, `__in__` for `in`; undefined if the property has no CEL identifier.
 * Follows the escaping rules of CustomResourceDefinitions.
 */
export function escapeName(property: string): string | undefined {
  if (keywords.has(property) || reservedWords.has(property)) return `__${property}__`;
  if (!/^[A-Za-z_.\-/][A-Za-z0-9_.\-/]*$/.test(property)) return undefined;
  return property.replace(/__|[.\-/]/g, (part) => symbols[part] ?? part);
}
