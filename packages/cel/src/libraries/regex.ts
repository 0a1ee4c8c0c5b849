import { RE2JS, RE2JSException } from 're2js';
import { CelError } from '../values/cel-error.ts';
import { fn, regexCost, type Library } from './library.ts';

const compiled = new Map<string, RE2JS>();
const maxCompiled = 1000;

/** Compiles an RE2 pattern, or returns it from a cache. @throws CelError with code `invalid-argument` if the pattern is invalid */
export function compilePattern(pattern: string): RE2JS {
  const known = compiled.get(pattern);
  if (known !== undefined) return known;
  let compiledRegex: RE2JS;
  try {
    compiledRegex = RE2JS.compile(pattern);
  } catch (error) {
    if (error instanceof RE2JSException) throw new CelError('invalid-argument', error.message, { cause: error });
    throw error;
  }
  if (compiled.size >= maxCompiled) compiled.delete(compiled.keys().next().value ?? '');
  compiled.set(pattern, compiledRegex);
  return compiledRegex;
}

const matches = (text: string, pattern: string) => compilePattern(pattern).matcher(text).find();

function find(text: string, pattern: string): string {
  const matcher = compilePattern(pattern).matcher(text);
  return matcher.find() ? (matcher.group() ?? '') : '';
}

function findAll(text: string, pattern: string, limit: number | bigint = -1): readonly string[] {
  const most = Number(limit) < 0 ? Number.POSITIVE_INFINITY : Number(limit);
  const matcher = compilePattern(pattern).matcher(text);
  const found: string[] = [];
  while (found.length < most && matcher.find()) found.push(matcher.group() ?? '');
  return found;
}

const rules = { cost: regexCost };

/** The library of CEL's `matches` and of Kubernetes' `find` and `findAll`. */
export const regex: Library = {
  name: 'regex',
  functions: [
    fn(['(string).matches(string): bool', 'matches(string, string): bool'], matches, rules),
    fn('(string).find(string): string', find, rules),
    fn(['(string).findAll(string): list<string>', '(string).findAll(string, int): list<string>'], findAll, rules),
  ],
};
