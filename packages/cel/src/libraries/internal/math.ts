import { CelError, noSuchOverload } from '../../values/cel-error.ts';
import { fn, type Library } from '../library.ts';
import { compare } from '../../values/equality.ts';
import { doubleOf, intOf, isList, itemsOf, kindOf, maxUint, numberOf, Uint, uintOf, type Value } from '../../values/value.ts';

function extreme(name: 'greatest' | 'least', args: readonly Value[]): Value {
  const [only] = args;
  const values = args.length === 1 && isList(only) ? itemsOf(only) : args;
  let best: Value | undefined;
  for (const value of values) {
    if (numberOf(value) === undefined) throw noSuchOverload();
    const order = best === undefined ? undefined : compare(value, best);
    if (best === undefined || (order !== undefined && (name === 'greatest' ? order > 0 : order < 0))) best = value;
  }
  if (best === undefined)
    throw new CelError('invalid-argument', `math.@${name === 'greatest' ? 'max' : 'min'}(list) argument must not be empty`);
  return best;
}
const real = (value: Value): number => Number(numberOf(value));
const onDoubles = (name: string, of: (value: number) => number) =>
  fn(`math.${name}(double): double`, (value: Value) => doubleOf(of(real(value))));
const test = (name: string, of: (value: number) => boolean) => fn(`math.${name}(double): bool`, (value: Value) => of(real(value)));

function round(value: number): number {
  return Math.sign(value) * Math.round(Math.abs(value));
}
function abs(value: Value): Value {
  if (value instanceof Uint) return value;
  if (kindOf(value) === 'double') return doubleOf(Math.abs(real(value)));
  const whole = BigInt(value as number | bigint);
  return intOf(whole < 0n ? -whole : whole);
}
function sign(value: Value): Value {
  if (value instanceof Uint) return new Uint(value.value === 0n ? 0n : 1n);
  if (kindOf(value) === 'double') return doubleOf(Math.sign(real(value)));
  return Math.sign(real(value));
}
const bits = (name: string, of: (a: bigint, b: bigint) => bigint) =>
  fn([`math.${name}(int, int): int`, `math.${name}(uint, uint): uint`], (a: Value, b: Value) =>
    a instanceof Uint
      ? uintOf(BigInt.asUintN(64, of(a.value, (b as Uint).value)))
      : intOf(BigInt.asIntN(64, of(BigInt(a as number | bigint), BigInt(b as number | bigint)))),
  );
const shift = (name: string, of: (value: bigint, by: bigint) => bigint) =>
  fn([`math.${name}(int, int): int`, `math.${name}(uint, int): uint`], (value: Value, by: number | bigint) => {
    if (by < 0) throw new CelError('invalid-argument', `math.${name}() negative offset: ${by}`);
    const most = by > 63 ? 64n : BigInt(by);
    if (value instanceof Uint) return new Uint(BigInt.asUintN(64, of(value.value, most)));
    const whole = BigInt.asUintN(64, BigInt(value as number | bigint));
    return intOf(BigInt.asIntN(64, of(whole, most)));
  });
const numbers = ['int', 'uint', 'double'];
const dynamic = true;

export const math: Library = {
  name: 'math',
  functions: [
    fn(
      ['math.greatest(list<A>): A', ...numbers.map((type) => `math.greatest(${type}...): ${type}`), 'math.greatest(dyn, dyn...): dyn'],
      (...args: Value[]) => extreme('greatest', args),
      { dynamic },
    ),
    fn(
      ['math.least(list<A>): A', ...numbers.map((type) => `math.least(${type}...): ${type}`), 'math.least(dyn, dyn...): dyn'],
      (...args: Value[]) => extreme('least', args),
      { dynamic },
    ),
    onDoubles('ceil', Math.ceil),
    onDoubles('floor', Math.floor),
    onDoubles('round', round),
    onDoubles('trunc', Math.trunc),
    fn(
      numbers.map((type) => `math.sqrt(${type}): double`),
      (value: Value) => doubleOf(Math.sqrt(real(value))),
    ),
    test('isNaN', Number.isNaN),
    test('isFinite', Number.isFinite),
    test('isInf', (value) => value === Number.POSITIVE_INFINITY || value === Number.NEGATIVE_INFINITY),
    fn(
      numbers.map((type) => `math.abs(${type}): ${type}`),
      abs,
    ),
    fn(
      numbers.map((type) => `math.sign(${type}): ${type}`),
      sign,
    ),
    bits('bitAnd', (a, b) => a & b),
    bits('bitOr', (a, b) => a | b),
    bits('bitXor', (a, b) => a ^ b),
    fn(['math.bitNot(int): int', 'math.bitNot(uint): uint'], (value: Value) =>
      value instanceof Uint ? new Uint(maxUint ^ value.value) : intOf(~BigInt(value as number | bigint)),
    ),
    shift('bitShiftLeft', (value, by) => value << by),
    shift('bitShiftRight', (value, by) => value >> by),
  ],
};
