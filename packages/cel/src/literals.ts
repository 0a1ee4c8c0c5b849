import type { Expr } from './syntax/ast.ts';
import { CelError } from './values/cel-error.ts';
import type { Issue } from './syntax/issue.ts';
import { compilePattern } from './libraries/regex.ts';
import { parseDurationText, parseTimestampText } from './values/time-text.ts';

const checks: Readonly<Record<string, (text: string) => unknown>> = {
  matches: compilePattern,
  duration: parseDurationText,
  timestamp: parseTimestampText,
};

/** Returns an issue for each literal argument that is invalid, such as a malformed duration or regular expression. */
export function literalIssues(root: Expr): Issue[] {
  const issues: Issue[] = [];
  const visit = (expr: Expr): void => {
    if (expr.kind === 'call' && Object.hasOwn(checks, expr.fn)) {
      const argument = expr.fn === 'matches' ? expr.args.at(-1) : expr.target === undefined ? expr.args[0] : undefined;
      if (argument?.kind === 'const' && typeof argument.value === 'string') {
        try {
          checks[expr.fn]?.(argument.value);
        } catch (error) {
          if (!(error instanceof CelError)) throw error;
          issues.push({ at: argument.at, message: `invalid ${expr.fn} argument` });
        }
      }
    }
    for (const child of children(expr)) visit(child);
  };
  visit(root);
  return issues;
}

export function children(expr: Expr): readonly Expr[] {
  switch (expr.kind) {
    case 'const':
    case 'ident':
      return [];
    case 'select':
      return [expr.operand];
    case 'call':
      return expr.target === undefined ? expr.args : [expr.target, ...expr.args];
    case 'logic':
      return expr.terms;
    case 'list':
      return expr.elements;
    case 'map':
      return expr.entries.flatMap(({ key, value }) => [key, value]);
    case 'struct':
      return expr.fields.map(({ value }) => value);
    case 'comprehension':
      return expr.filter === undefined ? [expr.range, expr.body] : [expr.range, expr.filter, expr.body];
    case 'bind':
      return [expr.init, expr.body];
    case 'optional-map':
      return [expr.target, expr.body];
  }
}
