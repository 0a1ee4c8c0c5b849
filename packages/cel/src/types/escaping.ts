import { keywords, reservedWords } from '../syntax/reserved-words.ts';

const symbols: Readonly<Record<string, string>> = { '.': '__dot__', '-': '__dash__', '/': '__slash__', __: '__underscores__' };

/**
 * Returns the identifier of a property in expressions: `a.b` is `a__dot__b`, `in` is `__in__`; undefined if the property has none.
 * Rules of the CEL OpenAPI declarations of Kubernetes' CustomResourceDefinitions.
 */
export function escapeName(property: string): string | undefined {
  if (keywords.has(property) || reservedWords.has(property)) return `__${property}__`;
  if (!/^[A-Za-z_.\-/][A-Za-z0-9_.\-/]*$/.test(property)) return undefined;
  return property.replace(/__|[.\-/]/g, (part) => symbols[part] ?? part);
}
