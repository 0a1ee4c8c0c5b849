/** The minimum and maximum of a cost or of a size. */
export interface Estimate {
  readonly min: number;
  readonly max: number;
}

/** The largest cost and the largest size: 2^64, as upstream, where they are unsigned 64-bit integers. */
export const largest = 2 ** 64;
export const unknownEstimate: Estimate = { min: 0, max: largest };

export const range = (min: number, max: number): Estimate => ({ min, max });
export const fixed = (value: number): Estimate => ({ min: value, max: value });

const bounded = (value: number): number => Math.min(value, largest);
const multiplyNumbers = (a: number, b: number): number => bounded(a * b);

export const add = (...parts: readonly Estimate[]): Estimate => {
  let [min, max] = [0, 0];
  for (const part of parts) {
    min = bounded(min + part.min);
    max = bounded(max + part.max);
  }
  return { min, max };
};
export const multiply = (a: Estimate, b: Estimate): Estimate => ({
  min: multiplyNumbers(a.min, b.min),
  max: multiplyNumbers(a.max, b.max),
});
/** Returns the product of an estimate and a cost per unit, rounded up. */
export const scale = ({ min, max }: Estimate, factor: number): Estimate => ({
  min: bounded(Math.ceil(min * factor)),
  max: bounded(Math.ceil(max * factor)),
});
export const union = (a: Estimate, b: Estimate): Estimate => ({ min: Math.min(a.min, b.min), max: Math.max(a.max, b.max) });

/** The cost of reading one character. */
export const traversalFactor = 0.1;
/** The cost of one character of a regular expression, per unit of the text that is matched. */
export const regexFactor = 0.25;
export const listCreationCost = 10;
export const mapCreationCost = 30;
export const structCreationCost = 40;
