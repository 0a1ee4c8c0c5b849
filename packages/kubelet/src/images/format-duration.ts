/** Formats a duration in milliseconds as Go does, rounded to milliseconds. */
export function formatDuration(ms: number): string {
  const rounded = Math.round(ms);
  if (rounded < 1000) return `${rounded}ms`;
  const seconds = rounded / 1000;
  return seconds < 60 ? `${seconds}s` : `${Math.floor(seconds / 60)}m${Math.round((seconds % 60) * 1000) / 1000}s`;
}
