const sorted = (values: readonly number[]) => values.toSorted((a, b) => a - b);
/** 0.5 is the median, 1 the maximum. */
export function quantile(values: readonly number[], part: number): number {
  const all = sorted(values);
  return all[Math.min(all.length - 1, Math.floor(all.length * part))] ?? Number.NaN;
}
export const median = (values: readonly number[]): number => quantile(values, 0.5);

const formatted = (value: number) => (Math.abs(value) >= 100 ? String(Math.round(value)) : value.toFixed(Math.abs(value) >= 10 ? 1 : 2));

export interface Figure {
  readonly what: string;
  readonly value: number;
  readonly unit: string;
  /** The reference of the same run. */
  readonly reference?: { readonly what: string; readonly value: number };
  /** The published figure of Kubernetes on a comparable machine. */
  readonly upstream?: string;
}

/** Prints one line per figure: value, ratio to its reference of the same run, and upstream's figure. */
export function print(figures: readonly Figure[]): void {
  for (const { what, value, unit, reference, upstream } of figures) {
    const ratio =
      reference === undefined ? '' : `  (${formatted(value / reference.value)} x ${reference.what}: ${formatted(reference.value)} ${unit})`;
    console.log(
      `${what.padEnd(46)} ${formatted(value).padStart(8)} ${unit}${ratio}${upstream === undefined ? '' : `  [Kubernetes: ${upstream}]`}`,
    );
  }
}
