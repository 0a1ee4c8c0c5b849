import { replicaSets } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { ReplicaSet } from '@oarlock/api/types/apps-v1';
import type { EventRecorder } from '@oarlock/spi/client';
import { nameOf, typed } from '../pod-template.ts';
import { sameRecord, sizeNotes, type Rollout } from './rollout.ts';
import { actual, availableOf, byRevision, desired, fenceposts, isRolling, newSetSize, proportions, sum, wanted } from './rollout-math.ts';

/** Grows and shrinks the sets of a deployment within the bounds of its strategy. */
export class ReplicaSetScaling {
  readonly #recorder: EventRecorder;

  constructor(recorder: EventRecorder) {
    this.#recorder = recorder;
  }

  async growNew(rollout: Rollout): Promise<boolean> {
    const { deployment, newSet, old } = rollout;
    if (newSet === undefined || wanted(newSet) === desired(deployment)) return false;
    const size = wanted(newSet) > desired(deployment) ? desired(deployment) : newSetSize(deployment, [...old, newSet], newSet);
    rollout.newSet = await this.resize(rollout, newSet, size);
    return rollout.newSet !== newSet;
  }

  /** First what is not healthy, then as much as availability allows. */
  async shrinkOld(rollout: Rollout): Promise<void> {
    const { deployment, newSet } = rollout;
    const oldPods = sum(rollout.old, wanted);
    if (oldPods === 0) return;
    const all = [...rollout.old, ...(newSet ? [newSet] : [])];
    const least = desired(deployment) - fenceposts(deployment).unavailable;
    const newUnavailable = newSet === undefined ? 0 : wanted(newSet) - availableOf(newSet);
    let budget = sum(all, wanted) - least - newUnavailable;
    if (budget <= 0) return;
    const sizes = new Map(rollout.old.map((set) => [set, wanted(set)]));
    for (const set of rollout.old) {
      const unhealthy = Math.min(budget, Math.max(0, wanted(set) - availableOf(set)));
      sizes.set(set, wanted(set) - unhealthy);
      budget -= unhealthy;
    }
    let spare = Math.min(sum(all, availableOf) - least, budget);
    for (const set of rollout.old) {
      const size = sizes.get(set) ?? 0;
      const cut = Math.max(0, Math.min(spare, size));
      sizes.set(set, size - cut);
      spare -= cut;
    }
    for (const [set, size] of sizes) if (size !== wanted(set)) await this.resize(rollout, set, size);
  }

  /** Brings the sets to a changed number of replicas without a rollout. */
  async scale(rollout: Rollout): Promise<void> {
    const { deployment, old, newSet } = rollout;
    const all = [...old, ...(newSet ? [newSet] : [])];
    const active = all.filter((set) => wanted(set) > 0);
    const [only] = active.length > 0 ? active : newSet ? [newSet] : all.slice(-1);
    if (active.length <= 1) {
      if (only !== undefined) await this.resize(rollout, only, desired(deployment));
      return;
    }
    if (newSet !== undefined && wanted(newSet) === desired(deployment) && availableOf(newSet) === desired(deployment)) {
      for (const set of old) if (wanted(set) > 0) await this.resize(rollout, set, 0);
      return;
    }
    if (!isRolling(deployment)) return;
    for (const [set, size] of proportions(deployment, active)) await this.resize(rollout, set, size);
  }

  async resize(rollout: Rollout, set: ReplicaSet, size: number): Promise<ReplicaSet> {
    const {
      deployment,
      context: { client },
    } = rollout;
    const notes = { ...set.metadata?.annotations, ...sizeNotes(deployment) };
    if (wanted(set) === size && sameRecord(set.metadata?.annotations, notes)) return set;
    const updated = await client.update(replicaSets, {
      ...typed(replicaSets, set),
      metadata: { ...set.metadata, annotations: notes },
      spec: { ...set.spec, selector: set.spec?.selector ?? {}, replicas: size },
    });
    if (wanted(set) !== size) {
      this.#recorder.event(
        deployment,
        'Normal',
        'ScalingReplicaSet',
        `Scaled ${size > wanted(set) ? 'up' : 'down'} replica set ${set.metadata?.name} from ${wanted(set)} to ${size}`,
      );
    }
    return updated;
  }

  /** Old sets beyond the history limit, oldest first, unless something of them runs. */
  async cleanUp({ deployment, old, context: { client } }: Rollout): Promise<void> {
    const limit = deployment.spec?.revisionHistoryLimit ?? 10;
    const alive = old.filter(({ metadata }) => metadata?.deletionTimestamp === undefined).sort(byRevision);
    const excess = alive
      .slice(0, Math.max(0, alive.length - limit))
      .filter((set) => wanted(set) === 0 && actual(set) === 0 && (set.metadata?.generation ?? 0) <= (set.status?.observedGeneration ?? 0));
    for (const set of excess) {
      try {
        await client.delete(replicaSets, nameOf(set), { preconditions: { uid: set.metadata?.uid ?? '' } });
      } catch (error) {
        if (!isStatus(error, 'NotFound', 'Conflict')) throw error;
      }
    }
  }
}
