import type { RecordedSpan, SpanStore } from '@oarlock/spi/spans';

/** A change of a workload by a user, which created or restarted pods. */
export interface Rollout {
  readonly traceId: string;
  /** `<groupResource>/<namespace>/<name>` */
  readonly object: string;
  readonly user: string;
  /** Milliseconds since the epoch. */
  readonly start: number;
  /** From the request to its last recorded effect. */
  readonly durationMs: number;
  /** The number of spans that failed. */
  readonly failed: number;
}

const workload = /^(?:deployments|statefulsets|daemonsets)\.apps\//;
const writes = new Set<unknown>(['create', 'update', 'patch', 'apply']);

/** Returns the latest rollouts, at most `count` of them, the slowest first. */
export function slowestRollouts(spans: Pick<SpanStore, 'traceIds' | 'trace'>, count: number): readonly Rollout[] {
  const found: Rollout[] = [];
  for (const traceId of spans.traceIds().toReversed()) {
    if (found.length === count) break;
    const rollout = rolloutOf(traceId, spans.trace(traceId));
    if (rollout !== undefined) found.push(rollout);
  }
  return found.toSorted((a, b) => b.durationMs - a.durationMs);
}

function rolloutOf(traceId: string, spans: readonly RecordedSpan[]): Rollout | undefined {
  const root = spans.find(({ parentId, attributes }) => {
    const object = attributes['oarlock.object'];
    return parentId === undefined && writes.has(attributes['oarlock.verb']) && typeof object === 'string' && workload.test(object);
  });
  if (root === undefined || !spans.some(({ name }) => name === 'sync pod')) return undefined;
  return {
    traceId,
    object: String(root.attributes['oarlock.object']),
    user: String(root.attributes['oarlock.user'] ?? ''),
    start: root.start,
    durationMs: spans.reduce((end, span) => Math.max(end, span.end), root.end) - root.start,
    failed: spans.filter(({ error }) => error !== undefined).length,
  };
}
