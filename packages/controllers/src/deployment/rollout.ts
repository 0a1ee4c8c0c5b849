import type { Deployment, ReplicaSet } from '@oarlock/api/types/apps-v1';
import type { ReconcileContext } from '@oarlock/spi/controller';
import { annotations, desired, maxPods } from './rollout-math.ts';

/** One deployment on its way: what the steps share. */
export interface Rollout {
  deployment: Deployment;
  readonly context: ReconcileContext;
  readonly old: readonly ReplicaSet[];
  newSet: ReplicaSet | undefined;
}

/** Written on every set: what it was last scaled for. */
export const sizeNotes = (deployment: Deployment) => ({
  [annotations.desired]: String(desired(deployment)),
  [annotations.max]: String(maxPods(deployment)),
});

export function sameRecord(a: Readonly<Record<string, string>> | undefined, b: Readonly<Record<string, string>>): boolean {
  const keys = Object.keys(b);
  return Object.keys(a ?? {}).length === keys.length && keys.every((key) => a?.[key] === b[key]);
}
