import { objectKey } from '@oarlock/api/object';
import { replicaSets } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { ReplicaSet } from '@oarlock/api/types/apps-v1';
import type { EventRecorder } from '@oarlock/spi/client';
import { objectName, withTypeMeta } from '../../objects/object-identity.ts';
import { sameRecord, replicasAnnotations, type Rollout } from './rollout.ts';
import {
  actualReplicas,
  availableReplicas,
  byRevision,
  desiredReplicas,
  resolveFenceposts,
  isRolling,
  newReplicaSetReplicas,
  proportionalReplicas,
  sumReplicas,
  specReplicas,
} from './deployment-util.ts';

/** Scales the ReplicaSets of a Deployment within the limits of its strategy. */
export class ReplicaSetScaling {
  readonly #recorder: EventRecorder;

  constructor(recorder: EventRecorder) {
    this.#recorder = recorder;
  }

  async reconcileNewReplicaSet(rollout: Rollout): Promise<boolean> {
    const { deployment, newReplicaSet: newSet, oldReplicaSets: old } = rollout;
    if (newSet === undefined || specReplicas(newSet) === desiredReplicas(deployment)) return false;
    const size =
      specReplicas(newSet) > desiredReplicas(deployment)
        ? desiredReplicas(deployment)
        : newReplicaSetReplicas(deployment, [...old, newSet], newSet);
    rollout.newReplicaSet = await this.scaleReplicaSet(rollout, newSet, size);
    return rollout.newReplicaSet !== newSet;
  }

  /** Scales down the old ReplicaSets: unhealthy replicas first, then as many healthy replicas as maxUnavailable permits. */
  async reconcileOldReplicaSets(rollout: Rollout): Promise<void> {
    const { deployment, newReplicaSet: newSet } = rollout;
    const oldPods = sumReplicas(rollout.oldReplicaSets, specReplicas);
    if (oldPods === 0) return;
    const all = [...rollout.oldReplicaSets, ...(newSet ? [newSet] : [])];
    const minAvailable = desiredReplicas(deployment) - resolveFenceposts(deployment).unavailable;
    const newUnavailable = newSet === undefined ? 0 : specReplicas(newSet) - availableReplicas(newSet);
    let budget = sumReplicas(all, specReplicas) - minAvailable - newUnavailable;
    if (budget <= 0) return;
    const sizes = new Map(rollout.oldReplicaSets.map((set) => [set, specReplicas(set)]));
    for (const set of rollout.oldReplicaSets) {
      const unhealthy = Math.min(budget, Math.max(0, specReplicas(set) - availableReplicas(set)));
      sizes.set(set, specReplicas(set) - unhealthy);
      budget -= unhealthy;
    }
    let surplus = Math.min(sumReplicas(all, availableReplicas) - minAvailable, budget);
    for (const set of rollout.oldReplicaSets) {
      const size = sizes.get(set) ?? 0;
      const cut = Math.max(0, Math.min(surplus, size));
      sizes.set(set, size - cut);
      surplus -= cut;
    }
    for (const [set, size] of sizes) if (size !== specReplicas(set)) await this.scaleReplicaSet(rollout, set, size);
  }

  /** Scales the ReplicaSets in proportion to a changed `spec.replicas`, without a rollout. */
  async scale(rollout: Rollout): Promise<void> {
    const { deployment, oldReplicaSets: old, newReplicaSet: newSet } = rollout;
    const all = [...old, ...(newSet ? [newSet] : [])];
    const active = all.filter((set) => specReplicas(set) > 0);
    const [only] = active.length > 0 ? active : newSet ? [newSet] : all.slice(-1);
    if (active.length <= 1) {
      if (only !== undefined) await this.scaleReplicaSet(rollout, only, desiredReplicas(deployment));
      return;
    }
    if (
      newSet !== undefined &&
      specReplicas(newSet) === desiredReplicas(deployment) &&
      availableReplicas(newSet) === desiredReplicas(deployment)
    ) {
      for (const set of old) if (specReplicas(set) > 0) await this.scaleReplicaSet(rollout, set, 0);
      return;
    }
    if (!isRolling(deployment)) return;
    for (const [set, size] of proportionalReplicas(deployment, active)) await this.scaleReplicaSet(rollout, set, size);
  }

  async scaleReplicaSet(rollout: Rollout, set: ReplicaSet, size: number): Promise<ReplicaSet> {
    const {
      deployment,
      context: { client },
    } = rollout;
    const annotations = { ...set.metadata?.annotations, ...replicasAnnotations(deployment) };
    if (specReplicas(set) === size && sameRecord(set.metadata?.annotations, annotations)) return set;
    const changed = {
      ...withTypeMeta(replicaSets, set),
      metadata: { ...set.metadata, annotations },
      spec: { ...set.spec, selector: set.spec?.selector ?? {}, replicas: size },
    };
    const updated = await rollout.writer.update(objectKey(deployment), changed, client);
    if (specReplicas(set) !== size) {
      this.#recorder.event(
        deployment,
        'Normal',
        'ScalingReplicaSet',
        `Scaled ${size > specReplicas(set) ? 'up' : 'down'} replica set ${set.metadata?.name} from ${specReplicas(set)} to ${size}`,
      );
    }
    return updated;
  }

  /** Deletes old ReplicaSets without replicas beyond revisionHistoryLimit, oldest first. */
  async cleanupDeployment({ deployment, oldReplicaSets: old, context: { client } }: Rollout): Promise<void> {
    const limit = deployment.spec?.revisionHistoryLimit ?? 10;
    const alive = old.filter(({ metadata }) => metadata?.deletionTimestamp === undefined).sort(byRevision);
    const excess = alive
      .slice(0, Math.max(0, alive.length - limit))
      .filter(
        (set) =>
          specReplicas(set) === 0 && actualReplicas(set) === 0 && (set.metadata?.generation ?? 0) <= (set.status?.observedGeneration ?? 0),
      );
    for (const set of excess) {
      try {
        await client.delete(replicaSets, objectName(set), { preconditions: { uid: set.metadata?.uid ?? '' } });
      } catch (error) {
        if (!isStatus(error, 'NotFound', 'Conflict')) throw error;
      }
    }
  }
}
