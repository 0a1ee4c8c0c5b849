/** Words of the language itself. */
export const keywords: ReadonlySet<string> = new Set(['true', 'false', 'null', 'in']);
/** What CEL keeps for later: no identifiers. */
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
