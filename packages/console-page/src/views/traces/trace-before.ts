import type { TreeNode } from '@oarlock/tracing/trace-tree';

/** Events may have times without a fraction: a write in the same second is before the event. */
const resolutionMs = 1000;

/**
 * Returns the ID of the trace of the latest write before a time; undefined if none is recorded.
 * @param at the time in RFC 3339; '' for the latest write
 */
export function traceBefore(writes: readonly Pick<TreeNode['span'], 'traceId' | 'start'>[], at: string): string | undefined {
  const time = at === '' ? Infinity : Date.parse(at) + (/\.\d/.test(at) ? 1 : resolutionMs);
  return writes.reduce<(typeof writes)[number] | undefined>(
    (latest, write) => (write.start < time && write.start >= (latest?.start ?? -Infinity) ? write : latest),
    undefined,
  )?.traceId;
}
