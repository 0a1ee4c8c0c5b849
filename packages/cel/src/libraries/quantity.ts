import { ParseError } from '@oarlock/api/values/parse-error';
import { ParsedQuantity, parseQuantity } from '@oarlock/api/values/quantity';
import { CelError } from '../values/cel-error.ts';
import { fn, traversal, type Library } from './library.ts';
import { doubleOf, intOf, maxInt, minInt, Opaque, type Int } from '../values/value.ts';

const typeName = 'kubernetes.Quantity';

export class QuantityValue extends Opaque {
  readonly typeName = typeName;
  readonly quantity: ParsedQuantity;
  constructor(amount: ParsedQuantity) {
    super();
    this.quantity = amount;
  }
  override equals(other: Opaque): boolean {
    return other instanceof QuantityValue && other.quantity.compare(this.quantity) === 0;
  }
  override toString(): string {
    return this.quantity.toString();
  }
}

function parse(text: string): ParsedQuantity | undefined {
  try {
    return parseQuantity(text);
  } catch (error) {
    if (error instanceof ParseError) return undefined;
    throw error;
  }
}
const unit = 1_000_000_000n;
/** Returns the quantity as an integer; undefined if it is not a whole number or does not fit 64 bits. */
function whole({ nanos }: ParsedQuantity): bigint | undefined {
  const value = nanos / unit;
  return nanos % unit === 0n && value >= minInt && value <= maxInt ? value : undefined;
}
const amountOf = (other: QuantityValue | Int): ParsedQuantity =>
  other instanceof QuantityValue ? other.quantity : ParsedQuantity.ofNanos(BigInt(other) * unit);
const order = (a: QuantityValue, b: QuantityValue) => a.quantity.compare(b.quantity);
const parsing = { cost: (size: number) => Math.max(1, traversal(size)) };

export const quantities: Library = {
  name: 'quantity',
  functions: [
    fn(
      `quantity(string): ${typeName}`,
      (text: string) => {
        const amount = parse(text);
        if (amount === undefined)
          throw new CelError(
            'invalid-argument',
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
          );
        return new QuantityValue(amount);
      },
      parsing,
    ),
    fn('isQuantity(string): bool', (text: string) => parse(text) !== undefined, parsing),
    fn(`(${typeName}).sign(): int`, ({ quantity: amount }: QuantityValue) => amount.sign),
    fn(`(${typeName}).isInteger(): bool`, ({ quantity: amount }: QuantityValue) => whole(amount) !== undefined),
    fn(`(${typeName}).asInteger(): int`, ({ quantity: amount }: QuantityValue) => {
      const value = whole(amount);
      if (value === undefined) throw new CelError('invalid-argument', 'cannot convert value to integer');
      return intOf(value);
    }),
    fn(`(${typeName}).asApproximateFloat(): double`, ({ quantity: amount }: QuantityValue) => doubleOf(Number(amount.nanos) / 1e9)),
    fn(
      [`(${typeName}).add(${typeName}): ${typeName}`, `(${typeName}).add(int): ${typeName}`],
      (a: QuantityValue, b: QuantityValue | Int) => new QuantityValue(a.quantity.plus(amountOf(b))),
    ),
    fn(
      [`(${typeName}).sub(${typeName}): ${typeName}`, `(${typeName}).sub(int): ${typeName}`],
      (a: QuantityValue, b: QuantityValue | Int) => new QuantityValue(a.quantity.minus(amountOf(b))),
    ),
    fn(`(${typeName}).isGreaterThan(${typeName}): bool`, (a: QuantityValue, b: QuantityValue) => order(a, b) > 0),
    fn(`(${typeName}).isLessThan(${typeName}): bool`, (a: QuantityValue, b: QuantityValue) => order(a, b) < 0),
    fn(`(${typeName}).compareTo(${typeName}): int`, order),
  ],
};
