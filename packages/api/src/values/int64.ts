const decimal = /^[+-]?[0-9]+$/;
const minInt64 = -(2n ** 63n);
const maxInt64 = 2n ** 63n - 1n;

/**
 * Parses a decimal integer as Go's `strconv.ParseInt(text, 10, 64)` does: an optional sign, then digits, leading zeros included.
 * Returns undefined for any other text and for values outside of an int64.
 */
export function parseInt64(text: string): bigint | undefined {
  if (!decimal.test(text)) return undefined;
  const value = BigInt(text);
  return value >= minInt64 && value <= maxInt64 ? value : undefined;
}
