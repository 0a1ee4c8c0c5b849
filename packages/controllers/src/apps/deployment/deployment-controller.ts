import { controllerOf, isControlledBy, objectKey } from '@oarlock/api/object';
import { deployments, pods as podResource, replicaSets } from '@oarlock/api/resources';
import { ignoreNotFound } from '../../errors/ignore-not-found.ts';
import type { Deployment, DeploymentStatus, ReplicaSet } from '@oarlock/api/types/apps-v1';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/primitives/clock';
import { Events, Informers, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { z } from 'zod';
import { ownerKeys } from '../../ownership/owner-keys.ts';
import { claimObjects, addOwnerIndexes, controlledBy } from '../../ownership/controller-ref-manager.ts';
import { isActive } from '../../pods/pod-state.ts';
import { objectName, withTypeMeta } from '../../objects/object-identity.ts';
import { selectorOf, SelectorOwnerIndex } from '../../ownership/selector-owners.ts';
import {
  conditionOf,
  countStatus,
  msUntilProgressDeadline,
  hasDeadline,
  isComplete,
  rolloutConditions,
  withCondition,
} from './deployment-status.ts';
import { NewReplicaSet } from './new-replica-set.ts';
import { ReplicaSetWriter } from './replica-set-writer.ts';
import { ReplicaSetScaling } from './replica-set-scaling.ts';
import type { Rollout } from './rollout.ts';
import { deploymentAnnotations, byAge, desiredReplicas, isRolling, specReplicas } from './deployment-util.ts';
import { templateText } from '../history/template-hash.ts';

/** Time in milliseconds after which the controller reads ReplicaSets from the API server if the cache does not show its writes. */
const staleCacheMs = 1000;

interface DeploymentControllerOptions {
  readonly deployments: Informer<Deployment>;
  readonly sets: Informer<ReplicaSet>;
  readonly pods: Informer<Pod>;
  readonly recorder: EventRecorder;
  readonly clock: Clock;
}

/** Moves pods from old ReplicaSets to the ReplicaSet of the current template, within the limits of the strategy. */
export class DeploymentController implements Controller {
  readonly name = 'deployment';
  readonly watches;
  readonly #deployments: Informer<Deployment>;
  readonly #sets: Informer<ReplicaSet>;
  readonly #pods: Informer<Pod>;
  readonly #recorder: EventRecorder;
  readonly #clock: Clock;
  readonly #newSet: NewReplicaSet;
  readonly #scaling: ReplicaSetScaling;
  readonly #writer: ReplicaSetWriter;

  constructor({ deployments: all, sets, pods, recorder, clock }: DeploymentControllerOptions) {
    this.#deployments = all;
    this.#sets = addOwnerIndexes(sets);
    this.#pods = addOwnerIndexes(pods);
    this.#recorder = recorder;
    this.#clock = clock;
    this.#newSet = new NewReplicaSet(recorder, clock);
    this.#scaling = new ReplicaSetScaling(recorder);
    this.#writer = new ReplicaSetWriter(sets, clock);
    const candidates = new SelectorOwnerIndex(all);
    this.watches = [
      watch(all, (deployment) => [objectKey(deployment)]),
      watch(sets, (set, old) => ownerKeys('Deployment', { candidates, object: set, old })),
      // only Recreate waits for pods to be deleted; every other change shows in the status of the ReplicaSet
      watch(pods, (pod) => (pod.metadata?.deletionTimestamp === undefined ? [] : this.#deploymentOfRecreatedPod(pod))),
    ];
  }

  async reconcile(key: string, context: ReconcileContext): Promise<ReconcileResult | void> {
    const deployment = this.#deployments.get(key);
    if (deployment === undefined) {
      this.#writer.forget(key);
      return undefined;
    }
    const selector = deployment.spec?.selector;
    if (Object.keys(selector?.matchLabels ?? {}).length === 0 && (selector?.matchExpressions ?? []).length === 0) {
      this.#recorder.event(
        deployment,
        'Warning',
        'SelectingAll',
        'This deployment is selecting all pods. A non-empty selector is required.',
      );
      return undefined;
    }
    const pendingMs = this.#writer.pendingMs(key);
    // the event of the write, or a read later, triggers the next step
    if (pendingMs !== undefined && pendingMs < staleCacheMs) return { requeueAfterMs: staleCacheMs - pendingMs };
    const sets = pendingMs === undefined ? await this.#claim(deployment, context) : await this.#readSets(deployment, context);
    const text = templateText(deployment.spec?.template);
    const newSet = [...sets].sort(byAge).find((set) => templateText(set.spec?.template) === text);
    const rollout: Rollout = {
      deployment,
      context,
      writer: this.#writer,
      newReplicaSet: newSet,
      oldReplicaSets: sets.filter((set) => set !== newSet).sort(byAge),
    };
    if (deployment.metadata?.deletionTimestamp !== undefined) return this.#syncRolloutStatus(rollout);
    await this.#checkPaused(rollout);
    if (deployment.spec?.paused === true || this.#isScalingEvent(rollout)) {
      await this.#newSet.getOrCreate(rollout, false);
      await this.#scaling.scale(rollout);
      return this.#syncRolloutStatus(rollout);
    }
    return isRolling(deployment) ? this.#rolloutRolling(rollout) : this.#rolloutRecreate(rollout);
  }

  #claim(deployment: Deployment, context: ReconcileContext): Promise<readonly ReplicaSet[]> {
    return claimObjects({
      client: context.client,
      informer: this.#sets,
      resource: replicaSets,
      owner: withTypeMeta(deployments, deployment),
      selector: selectorOf(deployment),
      canAdopt: () => this.#canAdopt(deployment, context),
    });
  }

  /** Reads the ReplicaSets of a Deployment from the API server, because the cache is stale or the outcome of a write is unknown. */
  async #readSets(deployment: Deployment, { client }: ReconcileContext): Promise<readonly ReplicaSet[]> {
    const { items } = await client.list(replicaSets, {
      namespace: deployment.metadata?.namespace ?? '',
      labelSelector: selectorOf(deployment).toString(),
    });
    const sets = items.filter((set) => isControlledBy(set, deployment));
    this.#writer.recordRead(objectKey(deployment), sets);
    return sets;
  }

  #deploymentOfRecreatedPod(pod: Pod): Iterable<string> {
    const ref = controllerOf(pod);
    const namespace = pod.metadata?.namespace ?? '';
    const owner = ref?.kind === 'ReplicaSet' ? controllerOf(this.#sets.get(`${namespace}/${ref.name}`) ?? {}) : undefined;
    const deployment = owner?.kind === 'Deployment' ? this.#deployments.get(`${namespace}/${owner.name}`) : undefined;
    return deployment !== undefined && !isRolling(deployment) ? [objectKey(deployment)] : [];
  }

  async #canAdopt(deployment: Deployment, { client }: ReconcileContext): Promise<boolean> {
    const fresh = await client.get(deployments, objectName(deployment));
    return fresh.metadata?.uid === deployment.metadata?.uid && fresh.metadata?.deletionTimestamp === undefined;
  }

  /**
   * Sets the Progressing condition when a Deployment is paused or resumed, which restarts the progress deadline on resume. Does not change
   * the condition of a Deployment that has exceeded its progress deadline.
   */
  async #checkPaused(rollout: Rollout): Promise<void> {
    const { deployment, context } = rollout;
    const reason = conditionOf(deployment.status, 'Progressing')?.reason;
    const paused = deployment.spec?.paused === true;
    if (!hasDeadline(deployment) || reason === 'ProgressDeadlineExceeded' || paused === (reason === 'DeploymentPaused')) return;
    const conditions = withCondition(
      deployment.status?.conditions ?? [],
      {
        type: 'Progressing',
        status: 'Unknown',
        reason: paused ? 'DeploymentPaused' : 'DeploymentResumed',
        message: paused ? 'Deployment is paused' : 'Deployment is resumed',
      },
      this.#clock.now(),
    );
    rollout.deployment = await context.client.update(
      deployments,
      { ...withTypeMeta(deployments, deployment), status: { ...deployment.status, conditions } },
      { subresource: 'status' },
    );
  }

  /**
   * Returns true if `spec.replicas` differs from the number that a ReplicaSet with replicas was last scaled for, which an annotation of the
   * ReplicaSet records. A change of `spec.replicas` is not a rollout.
   */
  #isScalingEvent({ deployment, oldReplicaSets: old, newReplicaSet: newSet }: Rollout): boolean {
    return [...old, ...(newSet ? [newSet] : [])].some((set) => {
      const annotation = set.metadata?.annotations?.[deploymentAnnotations.desired];
      return specReplicas(set) > 0 && annotation !== undefined && Number(annotation) !== desiredReplicas(deployment);
    });
  }

  async #rolloutRolling(rollout: Rollout): Promise<ReconcileResult | undefined> {
    await this.#newSet.getOrCreate(rollout, true);
    const scaledUp = await this.#scaling.reconcileNewReplicaSet(rollout);
    if (!scaledUp) await this.#scaling.reconcileOldReplicaSets(rollout);
    return this.#syncRolloutStatus(rollout);
  }

  async #rolloutRecreate(rollout: Rollout): Promise<ReconcileResult | undefined> {
    await this.#newSet.getOrCreate(rollout, false);
    let scaledDown = false;
    for (const set of rollout.oldReplicaSets)
      if (specReplicas(set) > 0) {
        await this.#scaling.scaleReplicaSet(rollout, set, 0);
        scaledDown = true;
      }
    const hasOldPods = rollout.oldReplicaSets.some((set) =>
      controlledBy(this.#pods, set.metadata?.uid ?? '').some(
        (pod) => isActive(pod) || pod.status?.phase === 'Running' || pod.status?.phase === 'Pending',
      ),
    );
    if (!scaledDown && !hasOldPods) {
      await this.#newSet.getOrCreate(rollout, true);
      await this.#scaling.reconcileNewReplicaSet(rollout);
    }
    return this.#syncRolloutStatus(rollout);
  }

  /** Updates the status of the Deployment from its ReplicaSets. Must run after all writes of the reconcile. */
  async #syncRolloutStatus(rollout: Rollout): Promise<ReconcileResult | undefined> {
    const {
      deployment,
      context: { client },
      oldReplicaSets: old,
      newReplicaSet: newSet,
    } = rollout;
    const all = [...old, ...(newSet ? [newSet] : [])];
    const now = this.#clock.now();
    const counts = countStatus(deployment, { all, newSet, nowMs: now });
    const paused = deployment.spec?.paused === true;
    const isDeleting = deployment.metadata?.deletionTimestamp !== undefined;
    const status: DeploymentStatus =
      paused || isDeleting ? counts : { ...counts, conditions: rolloutConditions(deployment, counts, { all, newSet, nowMs: now }) };
    if (!isDeleting && (paused || isComplete(deployment, status))) await this.#scaling.cleanupDeployment(rollout);
    if (!sameStatus(deployment.status, status))
      await ignoreNotFound(() =>
        client.update(deployments, { ...withTypeMeta(deployments, deployment), status }, { subresource: 'status' }),
      );
    const remainingMs = paused ? undefined : msUntilProgressDeadline(deployment, status, now);
    return remainingMs !== undefined && remainingMs > 0 ? { requeueAfterMs: remainingMs + 1 } : undefined;
  }
}

function sameStatus(old: DeploymentStatus | undefined, now: DeploymentStatus): boolean {
  const keys = [
    'observedGeneration',
    'replicas',
    'updatedReplicas',
    'readyReplicas',
    'availableReplicas',
    'unavailableReplicas',
    'terminatingReplicas',
    'collisionCount',
  ] as const;
  return (
    keys.every((key) => (old?.[key] ?? 0) === (now[key] ?? 0)) &&
    JSON.stringify(old?.conditions ?? []) === JSON.stringify(now.conditions ?? [])
  );
}

export default Controllers.plugin({
  id: 'controller-deployment',
  declares: { loop: 'deployment' },
  config: z.strictObject({}),
  needs: { informers: Informers, events: Events },
  create: ({ informers, events }, { clock }) =>
    new DeploymentController({
      deployments: informers.forResource(deployments),
      sets: informers.forResource(replicaSets),
      pods: informers.forResource(podResource),
      recorder: events.recorder('deployment-controller'),
      clock,
    }),
});
