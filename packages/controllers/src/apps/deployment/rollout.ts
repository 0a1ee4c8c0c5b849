import type { Deployment, ReplicaSet } from '@oarlock/api/types/apps-v1';
import type { ReconcileContext } from '@oarlock/spi/controller';
import type { ReplicaSetWriter } from './replica-set-writer.ts';
import { deploymentAnnotations, desiredReplicas, maxPods } from './deployment-util.ts';

/** The state that the steps of one Deployment reconcile share. */
export interface Rollout {
  deployment: Deployment;
  readonly context: ReconcileContext;
  readonly writer: ReplicaSetWriter;
  readonly oldReplicaSets: readonly ReplicaSet[];
  newReplicaSet: ReplicaSet | undefined;
}

/** Returns the annotations that record the replicas for which a ReplicaSet was last scaled. */
export const replicasAnnotations = (deployment: Deployment) => ({
  [deploymentAnnotations.desired]: String(desiredReplicas(deployment)),
  [deploymentAnnotations.max]: String(maxPods(deployment)),
});

export function sameRecord(a: Readonly<Record<string, string>> | undefined, b: Readonly<Record<string, string>>): boolean {
  const keys = Object.keys(b);
  return Object.keys(a ?? {}).length === keys.length && keys.every((key) => a?.[key] === b[key]);
}
