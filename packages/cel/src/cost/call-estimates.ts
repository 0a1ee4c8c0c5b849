import type { Type } from '../types/type.ts';
import { sizeOf, type CallEstimate, type CallOperands, type CallRule } from './call-rule.ts';
import { listRules } from './list-estimates.ts';
import {
  add,
  fixed,
  largest,
  listCreationCost,
  multiply,
  range,
  regexFactor,
  scale,
  structCreationCost,
  traversalFactor,
  union,
  unknownEstimate,
  type Estimate,
} from './estimates.ts';

const traversed = (size: Estimate): Estimate => scale(size, traversalFactor);
const nominal: CallEstimate = { cost: fixed(1) };

/** The cost of one authorization check, which allows two checks per expression. */
const checkCost = 350_000;
/** The largest size of a named format and of its regular expression that upstream assumes. */
const maxFormatSize = 64;
const maxFormatRegexSize = 128;
/** The sizes of an IP address in bytes. */
const addressBytes = range(4, 16);
/** The opaque types whose values upstream compares at a constant cost. Only `==` has this cost, not `!=`. */
const constantComparison: ReadonlySet<string> = new Set([
  'net.IP',
  'net.CIDR',
  'kubernetes.Quantity',
  'kubernetes.Semver',
  ...['Authorizer', 'PathCheck', 'GroupCheck', 'ResourceCheck', 'Decision'].map((name) => `kubernetes.authorization.${name}`),
]);

const elementType = (type: Type): Type | undefined => (type.kind === 'list' ? type.element : undefined);
const isText = (type: Type | undefined): boolean => type?.kind === 'string' || type?.kind === 'bytes';

/** Returns the cost of parsing a selector: one requirement for every two characters, with a struct and a list. */
function selectorCost(length: Estimate): Estimate {
  return add(fixed(listCreationCost), traversed(length), scale(scale(length, 0.5), listCreationCost + structCreationCost));
}

const listScan: CallRule = ({ target }) => {
  if (target === undefined) return undefined;
  const element = elementType(target.type);
  if (element === undefined) return { cost: traversed(sizeOf(target)) };
  const comparison = isText(element) ? add(fixed(1), traversed(target.elementSize() ?? unknownEstimate)) : fixed(1);
  return { cost: multiply(sizeOf(target), comparison) };
};

const textCopy: CallRule = ({ target }) => target && { cost: traversed(sizeOf(target)), size: sizeOf(target) };

/** Returns the number of replacements and the retained characters in the worst case and in the best case. */
function replacedSize(text: Estimate, old: Estimate, by: Estimate): Estimate {
  const most =
    old.min === 0
      ? { count: Math.min(text.max + 1, largest), retained: text.max }
      : by.max <= old.min
        ? { count: 0, retained: text.max }
        : { count: Math.ceil(text.max / old.min), retained: 0 };
  const least =
    old.max === 0
      ? { count: text.min + 1, retained: text.min }
      : old.max <= by.min
        ? { count: 0, retained: text.min }
        : { count: Math.ceil(text.min / old.max), retained: 0 };
  return add(multiply(range(least.count, most.count), by), range(least.retained, most.retained));
}

const replace: CallRule = ({ target, args: [old, by] }) => {
  if (target === undefined || old === undefined || by === undefined) return undefined;
  const text = sizeOf(target);
  return { cost: scale(text, 2 * traversalFactor), size: replacedSize(text, sizeOf(old), sizeOf(by)) };
};

const split: CallRule = ({ target, args: [, limit] }) => {
  if (target === undefined) return undefined;
  const text = sizeOf(target);
  const parts = limit?.expr.kind === 'const' ? limit.expr.value : undefined;
  // a negative limit is unlimited, and a huge unsigned number upstream
  const max = typeof parts === 'bigint' || typeof parts === 'number' ? (Number(parts) < 0 ? largest : Number(parts)) : text.max;
  return { cost: scale(text, 2 * traversalFactor), size: range(0, max) };
};

const join: CallRule = ({ target, args: [separator] }) => {
  if (target === undefined) return undefined;
  const list = sizeOf(target);
  const elements = elementType(target.type) === undefined ? fixed(0) : multiply(list, target.elementSize() ?? unknownEstimate);
  const separators = range(Math.max(0, list.min - 1), Math.max(0, list.max - 1));
  const size = separator === undefined ? elements : add(elements, multiply(sizeOf(separator), separators));
  return { cost: traversed(size), size };
};

function regexCost(text: Estimate, pattern: Estimate): Estimate {
  // an empty text counts as one character, because the pattern can be expensive
  return multiply(traversed(add(text, fixed(1))), scale(pattern, regexFactor));
}
const find: CallRule = ({ target, args: [pattern] }) =>
  target && pattern && { cost: regexCost(sizeOf(target), sizeOf(pattern)), size: range(0, sizeOf(target).max) };

const containsAddress =
  (maskCost: Estimate): CallRule =>
  ({ target, args: [other], overload }) => {
    if (target === undefined || other === undefined) return undefined;
    const parsing = overload.params[1]?.kind === 'string' ? traversed(sizeOf(other)) : fixed(0);
    return { cost: add(traversed(add(addressBytes, addressBytes)), maskCost, parsing) };
  };

const parsedText: CallRule = ({ target, args: [text] }) =>
  target === undefined && text !== undefined ? { cost: traversed(sizeOf(text)), size: sizeOf(text) } : undefined;

const setOperation =
  (factor: number): CallRule =>
  ({ args: [a, b] }) => ({ cost: add(scale(multiply(sizeOf(a), sizeOf(b)), factor), fixed(1)) });

const selector: CallRule = ({ args: [text] }) => text && { cost: selectorCost(sizeOf(text)) };

/** The functions of Kubernetes' libraries whose calls have a nominal cost. */
const nominalFunctions = [
  ['serviceAccount', 'path', 'group', 'resource', 'subresource', 'namespace', 'name', 'allowed', 'reason', 'error', 'errored'],
  ['masked', 'prefixLength', 'family', 'isUnspecified', 'isLoopback', 'isLinkLocalMulticast', 'isLinkLocalUnicast', 'isGlobalUnicast'],
  ['format.named', 'sign', 'asInteger', 'isInteger', 'asApproximateFloat', 'isGreaterThan', 'isLessThan', 'compareTo', 'add', 'sub'],
  ['major', 'minor', 'patch', 'getScheme', 'getHostname', 'getHost', 'getPort', 'getEscapedPath', 'getQuery'],
].flat();

/**
 * The estimates of Kubernetes' CostEstimator by function name. A function without an entry, such as `quantity(string)`, `ip(string)` and
 * `isCIDR(string)`, has the nominal cost, whatever the size of its arguments.
 */
const kubernetesRules: ReadonlyMap<string, CallRule> = new Map<string, CallRule>([
  ...nominalFunctions.map((name) => [name, () => nominal] as const),
  ['check', () => ({ cost: fixed(checkCost) })],
  ['fieldSelector', selector],
  ['labelSelector', selector],
  ...['isSorted', 'sum', 'max', 'min', 'indexOf', 'lastIndexOf'].map((name) => [name, listScan] as const),
  ['url', parsedText],
  ['jsonpatch.escapeKey', parsedText],
  ...['lowerAscii', 'upperAscii', 'substring', 'trim'].map((name) => [name, textCopy] as const),
  ['replace', replace],
  ['split', split],
  ['join', join],
  ['find', find],
  ['findAll', find],
  ['containsIP', containsAddress(fixed(0))],
  ['containsCIDR', containsAddress(add(traversed(addressBytes), fixed(1)))],
  ['validate', ({ target, args: [text] }) => target && { cost: scale(traversed(sizeOf(text)), maxFormatRegexSize * regexFactor) }],
  ['sets.contains', setOperation(1)],
  ['sets.intersects', setOperation(1)],
  ['sets.equivalent', setOperation(2)],
]);

/** Returns the estimate of `==` for values of an opaque type of Kubernetes; undefined for other types. */
function opaqueEquality({ args: [left, right] }: CallOperands): CallEstimate | undefined {
  if (left?.type.kind !== 'opaque' || right?.type.kind !== 'opaque' || left.type.name !== right.type.name) return undefined;
  if (constantComparison.has(left.type.name)) return nominal;
  if (left.type.name === 'kubernetes.NamedFormat') return { cost: traversed(range(1, maxFormatSize)) };
  if (left.type.name === 'kubernetes.URL') return { cost: traversed(range(1, right.size?.max ?? 1)) };
  return undefined;
}

const comparison: CallRule = ({ args: [left, right] }) => {
  const max = Math.min(sizeOf(left).max, sizeOf(right).max);
  return { cost: traversed(range(max > 0 ? 1 : 0, max)) };
};
const textComparison: CallRule = (call) => (isText(call.overload.params[0]) ? comparison(call) : undefined);
const prefix: CallRule = ({ args: [text] }) => text && { cost: traversed(sizeOf(text)) };

const concatenation: CallRule = ({ args: [left, right], overload }) => {
  const [first] = overload.params;
  if (!isText(first) && first?.kind !== 'list') return undefined;
  const size = add(sizeOf(left), sizeOf(right));
  return { cost: isText(first) ? traversed(size) : fixed(1), size };
};

/** The estimates of cel-go's coster for the standard functions. */
const standardRules: ReadonlyMap<string, CallRule> = new Map<string, CallRule>([
  ['format', ({ target }) => target && { cost: traversed(sizeOf(target)) }],
  [
    'strings.quote',
    ({ args: [text] }) => ({
      cost: traversed(sizeOf(text)),
      size: add(multiply(sizeOf(text), range(1, 2)), fixed(2)),
    }),
  ],
  [
    'bytes',
    ({ args: [text], overload }) =>
      overload.params[0]?.kind === 'string' ? { cost: traversed(sizeOf(text)), size: multiply(sizeOf(text), range(1, 4)) } : undefined,
  ],
  [
    'string',
    ({ args: [data], overload }) =>
      overload.params[0]?.kind === 'bytes'
        ? { cost: traversed(sizeOf(data)), size: range(Math.floor(sizeOf(data).min / 4), sizeOf(data).max) }
        : undefined,
  ],
  ['startsWith', prefix],
  ['endsWith', prefix],
  ['@in', ({ args: [, list], overload }) => (overload.params[1]?.kind === 'list' ? { cost: sizeOf(list) } : undefined)],
  [
    'matches',
    ({ target, args }) => {
      const [text, pattern] = target === undefined ? args : [target, ...args];
      return { cost: regexCost(sizeOf(text), sizeOf(pattern)) };
    },
  ],
  ['contains', ({ target, args: [part] }) => target && { cost: multiply(traversed(sizeOf(target)), traversed(sizeOf(part))) }],
  ['_+_', concatenation],
  ...['_<_', '_<=_', '_>_', '_>=_'].map((name) => [name, textComparison] as const),
  ['_==_', (call) => opaqueEquality(call) ?? comparison(call)],
  ['_!=_', comparison],
]);

/** Returns the estimate of a call of one overload, without the cost of its operands. */
export function estimateCall(name: string, call: CallOperands): CallEstimate {
  return kubernetesRules.get(name)?.(call) ?? listRules.get(name)?.(call) ?? standardRules.get(name)?.(call) ?? nominal;
}

/** Returns the estimate that covers the estimates of all overloads that a call can select. */
export function unionOfCalls(estimates: readonly CallEstimate[]): CallEstimate {
  const cost = estimates.map((each) => each.cost).reduce(union);
  const sizes = estimates.flatMap(({ size }) => (size === undefined ? [] : [size]));
  return sizes.length === 0 ? { cost } : { cost, size: sizes.reduce(union) };
}
