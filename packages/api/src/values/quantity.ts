import type { Quantity } from '../generated/types/meta-v1.ts';
import { ParseError } from './parse-error.ts';

export type QuantityFormat = 'DecimalSI' | 'BinarySI' | 'DecimalExponent';

const nanosPerUnit = 1_000_000_000n;
const maxInt64 = 2n ** 63n - 1n;
const minInt64 = -(2n ** 63n);

/**
 * An exact quantity (resource.Quantity): a whole number of nanos and the format for printing. Immutable.
 * Whole units and whole thousandths within 2^53 are stored as numbers, other values as BigInt.
 */
export class ParsedQuantity {
  readonly format: QuantityFormat;
  /** The value in units of 1/`#scale`, or NaN if it does not fit. */
  readonly #small: number;
  readonly #scale: 1 | 1000;
  #nanos: bigint | undefined;
  #text: string | undefined;

  private constructor(format: QuantityFormat, small: number, scale: 1 | 1000, nanos: bigint | undefined) {
    this.format = format;
    this.#small = small;
    this.#scale = scale;
    this.#nanos = nanos;
  }

  /** Returns `count` units (scale 1) or thousandths (scale 1000); `count` is a safe integer. */
  static of(count: number, scale: 1 | 1000 = 1, format: QuantityFormat = 'DecimalSI'): ParsedQuantity {
    if (!Number.isSafeInteger(count)) throw new RangeError(`not a safe integer: ${count}`);
    return new ParsedQuantity(format, count === 0 ? 0 : count, scale, undefined);
  }
  static ofNanos(nanos: bigint, format: QuantityFormat = 'DecimalSI'): ParsedQuantity {
    if (nanos % 1_000_000n === 0n) {
      const milli = nanos / 1_000_000n;
      const whole = milli % 1000n === 0n;
      const small = Number(whole ? milli / 1000n : milli);
      if (Number.isSafeInteger(small)) return new ParsedQuantity(format, small, whole ? 1 : 1000, nanos);
    }
    return new ParsedQuantity(format, Number.NaN, 1, nanos);
  }

  get nanos(): bigint {
    this.#nanos ??= BigInt(this.#small) * (this.#scale === 1 ? nanosPerUnit : 1_000_000n);
    return this.#nanos;
  }
  get sign(): -1 | 0 | 1 {
    const value = Number.isNaN(this.#small) ? this.nanos : this.#small;
    return value > 0 ? 1 : value < 0 ? -1 : 0;
  }

  /** True if the value is a whole number of units. */
  get isInteger(): boolean {
    if (Number.isNaN(this.#small)) return this.nanos % nanosPerUnit === 0n;
    return this.#scale === 1 || this.#small % 1000 === 0;
  }

  compare(other: ParsedQuantity): -1 | 0 | 1 {
    const [a, b] =
      this.#scale === other.#scale && !Number.isNaN(this.#small) && !Number.isNaN(other.#small)
        ? [this.#small, other.#small]
        : [this.nanos, other.nanos];
    return a < b ? -1 : a > b ? 1 : 0;
  }
  plus(other: ParsedQuantity): ParsedQuantity {
    return this.#combine(other, 1);
  }
  minus(other: ParsedQuantity): ParsedQuantity {
    return this.#combine(other, -1);
  }
  negated(): ParsedQuantity {
    return ParsedQuantity.ofNanos(-this.nanos, this.format);
  }
  times(factor: bigint): ParsedQuantity {
    return ParsedQuantity.ofNanos(this.nanos * factor, this.format);
  }

  #combine(other: ParsedQuantity, sign: 1 | -1): ParsedQuantity {
    // Zero adopts the format of the other operand, because sums usually start at zero.
    const format = this.sign === 0 ? other.format : this.format;
    if (this.#scale === other.#scale) {
      const sum = this.#small + sign * other.#small;
      if (Number.isSafeInteger(sum)) return new ParsedQuantity(format, sum, this.#scale, undefined);
    }
    return ParsedQuantity.ofNanos(this.nanos + BigInt(sign) * other.nanos, format);
  }

  /** Returns the value in units of 1/`scale`, rounded away from zero and clamped to an int64. Exact up to 2^53. */
  scaled(scale: 1 | 1000 | 1_000_000_000): number {
    if (this.#scale === scale && !Number.isNaN(this.#small)) return this.#small;
    return Number(this.scaledBig(scale));
  }
  scaledBig(scale: 1 | 1000 | 1_000_000_000): bigint {
    const divisor = nanosPerUnit / BigInt(scale);
    const rounded = divideAwayFromZero(this.nanos, divisor);
    return rounded > maxInt64 ? maxInt64 : rounded < minInt64 ? minInt64 : rounded;
  }

  /** Returns the canonical form: no fraction, the largest suffix without loss. */
  toString(): string {
    this.#text ??= format(this);
    return this.#text;
  }
  toJSON(): string {
    return this.toString();
  }
}

const divideAwayFromZero = (value: bigint, divisor: bigint): bigint => {
  const quotient = value / divisor;
  return value % divisor === 0n ? quotient : quotient + (value < 0n ? -1n : 1n);
};

const decimalSuffixes: Readonly<Record<string, number>> = { n: -9, u: -6, m: -3, '': 0, k: 3, M: 6, G: 9, T: 12, P: 15, E: 18 };
const decimalByExponent = new Map(Object.entries(decimalSuffixes).map(([suffix, exponent]) => [exponent, suffix]));
const binarySuffixes = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei'];

function format(amount: ParsedQuantity): string {
  let { nanos } = amount;
  if (nanos === 0n) return '0';
  const whole = nanos % nanosPerUnit === 0n;
  // Below 1Ki and for fractions the decimal form avoids rounding.
  if (amount.format === 'BinarySI' && whole && (nanos <= -1024n * nanosPerUnit || nanos >= 1024n * nanosPerUnit)) {
    let units = nanos / nanosPerUnit;
    let power = 0;
    while (power < binarySuffixes.length - 1 && units % 1024n === 0n) {
      units /= 1024n;
      power++;
    }
    return `${units}${binarySuffixes[power] ?? ''}`;
  }
  const exponential = amount.format === 'DecimalExponent';
  let exponent = -9;
  while (nanos % 1000n === 0n && (exponential || exponent < 18)) {
    nanos /= 1000n;
    exponent += 3;
  }
  if (exponential) return exponent === 0 ? `${nanos}` : `${nanos}e${exponent}`;
  return `${nanos}${decimalByExponent.get(exponent) ?? ''}`;
}

const splitter = '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$';
const grammar = /^([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)$/;
/** Longer texts are rejected: the cost of BigInt grows with the square of the digits. */
const maxLength = 512;
const wrongFormat = () => new ParseError('quantity', `quantities must match the regular expression '${splitter}'`);
const wrongSuffix = () => new ParseError('quantity', "unable to parse quantity's suffix");

const simple = /^(0|[1-9][0-9]{0,8})(m|Ki|Mi|Gi|k|M)?$/;
const simpleFactors: Readonly<Record<string, number>> = { k: 1e3, M: 1e6, Ki: 1024, Mi: 1024 ** 2, Gi: 1024 ** 3 };

function parse(text: string): ParsedQuantity {
  const fast = simple.exec(text);
  if (fast !== null) {
    const [, digits = '0', suffix = ''] = fast;
    if (suffix === 'm') return ParsedQuantity.of(Number(digits), 1000);
    const count = Number(digits) * (simpleFactors[suffix] ?? 1);
    if (Number.isSafeInteger(count)) return ParsedQuantity.of(count, 1, suffix.endsWith('i') ? 'BinarySI' : 'DecimalSI');
  }
  const match = text.length === 0 || text.length > maxLength ? null : grammar.exec(text);
  if (match === null) throw wrongFormat();
  const [, sign = '', whole = '', fraction = '', suffix = ''] = match;
  const digits = BigInt(`${whole}${fraction}` || '0');
  const { format: kind, base, exponent } = interpretSuffix(suffix);
  // digits * base^exponent / 10^fraction.length in nanos; fractions of a nano are rounded up
  const tens = (base === 10 ? exponent : 0) - fraction.length + 9;
  let nanos = digits * (base === 2 ? 2n ** BigInt(exponent) : 1n);
  nanos = tens >= 0 ? nanos * 10n ** BigInt(tens) : divideAwayFromZero(nanos, 10n ** BigInt(-tens));
  let format = kind;
  if (format === 'BinarySI') {
    if (nanos > maxInt64 * nanosPerUnit) nanos = maxInt64 * nanosPerUnit;
    if (nanos > 0n && nanos < nanosPerUnit) format = 'DecimalSI';
  }
  return ParsedQuantity.ofNanos(sign === '-' ? -nanos : nanos, format);
}

function interpretSuffix(suffix: string): { format: QuantityFormat; base: 2 | 10; exponent: number } {
  const decimal = Object.hasOwn(decimalSuffixes, suffix) ? decimalSuffixes[suffix] : undefined;
  if (decimal !== undefined) return { format: 'DecimalSI', base: 10, exponent: decimal };
  const binary = binarySuffixes.indexOf(suffix);
  if (binary > 0) return { format: 'BinarySI', base: 2, exponent: binary * 10 };
  const scientific = /^[eE]([-+]?[0-9]{1,4})$/.exec(suffix);
  const exponent = scientific === null ? Number.NaN : Number(scientific[1]);
  // Values below a nano or above 10^400 have no use, and computing larger powers is slow.
  if (!(exponent >= -1000 && exponent <= 400)) throw wrongSuffix();
  return { format: 'DecimalExponent', base: 10, exponent };
}

/** Parsed quantities by text: clusters use few different ones. */
const cache = new Map<string, ParsedQuantity>();
const cacheLimit = 4096;

/** Parses a quantity. @throws ParseError code `quantity`, with apimachinery's message. */
export function parseQuantity(quantity: Quantity | ParsedQuantity): ParsedQuantity {
  if (quantity instanceof ParsedQuantity) return quantity;
  const text = typeof quantity === 'string' ? quantity : String(quantity);
  const known = cache.get(text);
  if (known !== undefined) return known;
  const amount = parse(text.trim());
  if (cache.size >= cacheLimit) cache.clear();
  if (text.length <= 32) cache.set(text, amount);
  return amount;
}

export const formatQuantity = (quantity: Quantity | ParsedQuantity): string => parseQuantity(quantity).toString();
export const compareQuantity = (a: Quantity | ParsedQuantity, b: Quantity | ParsedQuantity): -1 | 0 | 1 =>
  parseQuantity(a).compare(parseQuantity(b));
export const addQuantity = (a: Quantity | ParsedQuantity, b: Quantity | ParsedQuantity): ParsedQuantity =>
  parseQuantity(a).plus(parseQuantity(b));
export const subQuantity = (a: Quantity | ParsedQuantity, b: Quantity | ParsedQuantity): ParsedQuantity =>
  parseQuantity(a).minus(parseQuantity(b));
/** Returns whole units (bytes, pods), rounded away from zero. Exact up to 2^53. */
export const quantityValue = (quantity: Quantity | ParsedQuantity): number => parseQuantity(quantity).scaled(1);
/** Returns thousandths, rounded away from zero: `250m` and `0.25` are 250. Exact up to 2^53. */
export const milliValue = (quantity: Quantity | ParsedQuantity): number => parseQuantity(quantity).scaled(1000);
export const quantityValueBig = (quantity: Quantity | ParsedQuantity): bigint => parseQuantity(quantity).scaledBig(1);
export const milliValueBig = (quantity: Quantity | ParsedQuantity): bigint => parseQuantity(quantity).scaledBig(1000);
export const zeroQuantity: ParsedQuantity = ParsedQuantity.of(0);
