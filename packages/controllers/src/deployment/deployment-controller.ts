import { controllerOf, objectKey } from '@oarlock/api/object';
import { deployments, pods as podResource, replicaSets } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Deployment, DeploymentStatus, ReplicaSet } from '@oarlock/api/types/apps-v1';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/kernel/clock';
import { Events, Informers, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { z } from 'zod';
import { ownerKeys } from '../owner-keys.ts';
import { claim, indexByOwner, ownedBy } from '../ownership.ts';
import { isActive } from '../pod-state.ts';
import { nameOf, typed } from '../pod-template.ts';
import { selectorOf, SelectorOwners } from '../selector-owners.ts';
import { conditionOf, countStatus, deadlineIn, hasDeadline, isComplete, rolloutConditions, withCondition } from './deployment-status.ts';
import { NewReplicaSet } from './new-replica-set.ts';
import { ReplicaSetScaling } from './replica-set-scaling.ts';
import type { Rollout } from './rollout.ts';
import { annotations, byAge, desired, isRolling, wanted } from './rollout-math.ts';
import { templateText } from './template-hash.ts';

interface Parts {
  readonly deployments: Informer<Deployment>;
  readonly sets: Informer<ReplicaSet>;
  readonly pods: Informer<Pod>;
  readonly recorder: EventRecorder;
  readonly clock: Clock;
}

/** Moves pods from old ReplicaSets to the one of the present template, within the bounds of the strategy. */
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

  constructor({ deployments: all, sets, pods, recorder, clock }: Parts) {
    this.#deployments = all;
    this.#sets = indexByOwner(sets);
    this.#pods = indexByOwner(pods);
    this.#recorder = recorder;
    this.#clock = clock;
    this.#newSet = new NewReplicaSet(recorder, clock);
    this.#scaling = new ReplicaSetScaling(recorder);
    const candidates = new SelectorOwners(all);
    this.watches = [
      watch(all, (deployment) => [objectKey(deployment)]),
      watch(sets, (set, old) => ownerKeys('Deployment', candidates, set, old)),
      // only Recreate waits for pods to be gone; everything else is told by the set's status
      watch(pods, (pod) => (pod.metadata?.deletionTimestamp === undefined ? [] : this.#recreating(pod))),
    ];
  }

  async reconcile(key: string, context: ReconcileContext): Promise<ReconcileResult | void> {
    const deployment = this.#deployments.get(key);
    if (deployment === undefined) return undefined;
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
    const sets = await claim({
      client: context.client,
      informer: this.#sets,
      resource: replicaSets,
      owner: typed(deployments, deployment),
      selector: selectorOf(deployment),
      confirm: () => this.#stillThere(deployment, context),
    });
    const text = templateText(deployment.spec?.template);
    const newSet = [...sets].sort(byAge).find((set) => templateText(set.spec?.template) === text);
    const rollout: Rollout = { deployment, context, newSet, old: sets.filter((set) => set !== newSet).sort(byAge) };
    if (deployment.metadata?.deletionTimestamp !== undefined) return this.#finish(rollout);
    await this.#notePause(rollout);
    if (deployment.spec?.paused === true || this.#scaled(rollout)) {
      await this.#newSet.use(rollout, false);
      await this.#scaling.scale(rollout);
      return this.#finish(rollout);
    }
    return isRolling(deployment) ? this.#roll(rollout) : this.#recreate(rollout);
  }

  #recreating(pod: Pod): Iterable<string> {
    const ref = controllerOf(pod);
    const namespace = pod.metadata?.namespace ?? '';
    const owner = ref?.kind === 'ReplicaSet' ? controllerOf(this.#sets.get(`${namespace}/${ref.name}`) ?? {}) : undefined;
    const deployment = owner?.kind === 'Deployment' ? this.#deployments.get(`${namespace}/${owner.name}`) : undefined;
    return deployment !== undefined && !isRolling(deployment) ? [objectKey(deployment)] : [];
  }

  async #stillThere(deployment: Deployment, { client }: ReconcileContext): Promise<boolean> {
    const fresh = await client.get(deployments, nameOf(deployment));
    return fresh.metadata?.uid === deployment.metadata?.uid && fresh.metadata?.deletionTimestamp === undefined;
  }

  /** Says that the rollout stands, or that it goes on: its deadline runs anew from then. One that has failed stays so. */
  async #notePause(rollout: Rollout): Promise<void> {
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
      { ...typed(deployments, deployment), status: { ...deployment.status, conditions } },
      { subresource: 'status' },
    );
  }

  /** The number of replicas was changed, which is not a rollout: sets carry the number they were last scaled to. */
  #scaled({ deployment, old, newSet }: Rollout): boolean {
    return [...old, ...(newSet ? [newSet] : [])].some((set) => {
      const noted = set.metadata?.annotations?.[annotations.desired];
      return wanted(set) > 0 && noted !== undefined && Number(noted) !== desired(deployment);
    });
  }

  async #roll(rollout: Rollout): Promise<ReconcileResult | undefined> {
    await this.#newSet.use(rollout, true);
    const grown = await this.#scaling.growNew(rollout);
    if (!grown) await this.#scaling.shrinkOld(rollout);
    return this.#finish(rollout);
  }

  async #recreate(rollout: Rollout): Promise<ReconcileResult | undefined> {
    await this.#newSet.use(rollout, false);
    let stopped = false;
    for (const set of rollout.old)
      if (wanted(set) > 0) {
        await this.#scaling.resize(rollout, set, 0);
        stopped = true;
      }
    const oldPods = rollout.old.some((set) =>
      ownedBy(this.#pods, set.metadata?.uid ?? '').some(
        (pod) => isActive(pod) || pod.status?.phase === 'Running' || pod.status?.phase === 'Pending',
      ),
    );
    if (!stopped && !oldPods) {
      await this.#newSet.use(rollout, true);
      await this.#scaling.growNew(rollout);
    }
    return this.#finish(rollout);
  }

  /** Status last: it counts what the sets' own status says. */
  async #finish(rollout: Rollout): Promise<ReconcileResult | undefined> {
    const {
      deployment,
      context: { client },
      old,
      newSet,
    } = rollout;
    const all = [...old, ...(newSet ? [newSet] : [])];
    const now = this.#clock.now();
    const counted = countStatus(deployment, all, newSet, now);
    const paused = deployment.spec?.paused === true;
    const leaving = deployment.metadata?.deletionTimestamp !== undefined;
    const status: DeploymentStatus =
      paused || leaving ? counted : { ...counted, conditions: rolloutConditions(deployment, counted, all, newSet, now) };
    if (!leaving && (paused || isComplete(deployment, status))) await this.#scaling.cleanUp(rollout);
    if (!sameStatus(deployment.status, status)) {
      try {
        await client.update(deployments, { ...typed(deployments, deployment), status }, { subresource: 'status' });
      } catch (error) {
        if (!isStatus(error, 'NotFound')) throw error;
      }
    }
    const left = paused ? undefined : deadlineIn(deployment, status, now);
    return left !== undefined && left > 0 ? { requeueAfterMs: left + 1 } : undefined;
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
      deployments: informers.of(deployments),
      sets: informers.of(replicaSets),
      pods: informers.of(podResource),
      recorder: events.recorder('deployment-controller'),
      clock,
    }),
});
