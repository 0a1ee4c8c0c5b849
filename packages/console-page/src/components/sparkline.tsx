import { plottedMs, type Sample } from './sample-history.ts';

/** The shortest period that a plot shows, while there are few samples. */
const minPlottedMs = 5 * 60 * 1000;

/** Returns the path of a line in a box of 100 × 100; `max` is the top. */
export function linePath(samples: readonly Sample[], now: number, max: number): string {
  const periodMs = Math.min(plottedMs, Math.max(minPlottedMs, now - (samples[0]?.at ?? now)));
  return samples
    .map(({ at, value }, index) => {
      const x = 100 * (1 - (now - at) / periodMs);
      const y = 100 - (max <= 0 ? 0 : Math.min(1, value / max) * 100);
      return `${index === 0 ? 'M' : 'L'}${x.toFixed(2)} ${y.toFixed(2)}`;
    })
    .join('');
}

/** A line of the last hour, or of the time since the first sample. The numbers are beside it as text. */
export function Sparkline({ samples, max, label }: { readonly samples: readonly Sample[]; readonly max: number; readonly label: string }) {
  const now = samples.at(-1)?.at ?? 0;
  return (
    <svg class="spark" viewBox="0 0 100 100" preserveAspectRatio="none" role="img" aria-label={label}>
      <path d={linePath(samples, now, max)} />
    </svg>
  );
}
