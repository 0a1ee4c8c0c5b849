import type { Call, Expr, Macro } from './ast.ts';
import { CelSyntaxError } from './issue.ts';

const oneVariable: Readonly<Record<string, Macro>> = { all: 'all', exists: 'exists', exists_one: 'existsOne', existsOne: 'existsOne' };
const twoVariables: Readonly<Record<string, Macro>> = {
  transformList: 'transformList',
  transformMap: 'transformMap',
  transformMapEntry: 'transformMapEntry',
};

export interface MacroOptions {
  /** True if the macro `cel.bind` is available. */
  readonly bindings: boolean;
}

/** Expands a macro; returns undefined if the call is not a macro. @throws CelSyntaxError if the macro has invalid arguments */
export function expandMacro({ at, fn, target, args }: Omit<Call, 'kind'>, { bindings }: MacroOptions): Expr | undefined {
  if (target === undefined) return fn === 'has' && args.length === 1 ? presence(args[0] as Expr) : undefined;
  if (bindings && fn === 'bind' && args.length === 3 && target.kind === 'ident' && target.name === 'cel') {
    const [variable, init, body] = args as [Expr, Expr, Expr];
    if (variable.kind !== 'ident') throw new CelSyntaxError(variable.at, 'cel.bind() variable names must be simple identifiers');
    return { kind: 'bind', at, name: variable.name, init, body };
  }
  if ((fn === 'optMap' || fn === 'optFlatMap') && args.length === 2) {
    const [variable, body] = args as [Expr, Expr];
    if (variable.kind !== 'ident') throw new CelSyntaxError(variable.at, `${fn}() variable name must be a simple identifier`);
    return { kind: 'optional-map', at, target, name: variable.name, body, flat: fn === 'optFlatMap' };
  }
  const quantifier = Object.hasOwn(oneVariable, fn) ? oneVariable[fn] : undefined;
  if (quantifier !== undefined && args.length === 2)
    return fold(at, quantifier, target, variable(args[0], 'argument must be a simple name'), undefined, undefined, args[1] as Expr);
  if (quantifier !== undefined && fn !== 'exists_one' && args.length === 3)
    return pair(at, quantifier, target, args, undefined, args[2] as Expr);
  if (fn === 'map' && (args.length === 2 || args.length === 3)) {
    const filter = args.length === 3 ? args[1] : undefined;
    return fold(at, 'map', target, variable(args[0], 'argument is not an identifier'), undefined, filter, args.at(-1) as Expr);
  }
  if (fn === 'filter' && args.length === 2)
    return fold(at, 'filter', target, variable(args[0], 'argument is not an identifier'), undefined, undefined, args[1] as Expr);
  if (fn === 'sortBy' && args.length === 2) return sortBy(at, target, args);
  const transform = Object.hasOwn(twoVariables, fn) ? twoVariables[fn] : undefined;
  if (transform !== undefined && (args.length === 3 || args.length === 4))
    return pair(at, transform, target, args, args.length === 4 ? args[2] : undefined, args.at(-1) as Expr);
  return undefined;
}

const sortByInput = '@__sortBy_input__';
const sortable: ReadonlySet<Expr['kind']> = new Set(['list', 'select', 'ident', 'comprehension', 'bind', 'call', 'logic', 'optional-map']);

/** Expands `list.sortBy(x, key)`: binds the list to a variable, then sorts it by the list of its keys. */
function sortBy(at: number, list: Expr, args: readonly Expr[]): Expr {
  if (!sortable.has(list.kind))
    throw new CelSyntaxError(list.at, 'sortBy can only be applied to a list, identifier, comprehension, call or select expression');
  const input: Expr = { kind: 'ident', at, name: sortByInput };
  const first = variable(args[0], 'argument is not an identifier');
  const keys: Expr = { kind: 'comprehension', at, macro: 'map', range: { ...input }, first, body: args[1] as Expr };
  return {
    kind: 'bind',
    at,
    name: sortByInput,
    init: list,
    body: { kind: 'call', at, fn: '@sortByAssociatedKeys', target: input, args: [keys] },
  };
}

function presence(argument: Expr): Expr {
  if (argument.kind !== 'select' || argument.test || argument.optional)
    throw new CelSyntaxError(argument.at, 'invalid argument to has() macro');
  return { ...argument, test: true };
}

function variable(argument: Expr | undefined, message: string): string {
  if (argument?.kind !== 'ident') throw new CelSyntaxError(argument?.at ?? 0, message);
  if (argument.name === '__result__') throw new CelSyntaxError(argument.at, 'iteration variable overwrites accumulator variable');
  return argument.name;
}

function pair(at: number, macro: Macro, range: Expr, args: readonly Expr[], filter: Expr | undefined, body: Expr): Expr {
  const [first, second] = [variable(args[0], 'argument must be a simple name'), variable(args[1], 'argument must be a simple name')];
  if (first === second) throw new CelSyntaxError(args[1]?.at ?? at, `duplicate variable name: ${second}`);
  return fold(at, macro, range, first, second, filter, body);
}

function fold(
  at: number,
  macro: Macro,
  range: Expr,
  first: string,
  second: string | undefined,
  filter: Expr | undefined,
  body: Expr,
): Expr {
  return {
    kind: 'comprehension',
    at,
    macro,
    range,
    first,
    body,
    ...(second !== undefined && { second }),
    ...(filter !== undefined && { filter }),
  };
}
