/** Keywords of CEL. */
export const keywords: ReadonlySet<string> = new Set(['true', 'false', 'null', 'in']);
/** Words that CEL reserves for future use; they are not valid identifiers. */
export const reservedWords: ReadonlySet<string> = new Set([
  'as',
  'break',
  'const',
  'continue',
  'else',
  'for',
  'function',
  'if',
  'import',
  'let',
  'loop',
  'package',
  'namespace',
  'return',
  'var',
  'void',
  'while',
]);
