import { selectorFromObject } from '@oarlock/api/label-selector';
import { controllerOf, controllerRef, objectKey } from '@oarlock/api/object';
import { deployments, pods as podResource, replicaSets } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Deployment, DeploymentStatus, ReplicaSet } from '@oarlock/api/types/apps-v1';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/kernel/clock';
import { Events, Informers, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { z } from 'zod';
import { claim, indexByOwner, ownedBy } from '../ownership.ts';
import { isActive } from '../pod-state.ts';
import { conditionOf, countStatus, deadlineIn, hasDeadline, isComplete, rolloutConditions, withCondition } from './deployment-status.ts';
import {
  actual,
  annotations,
  availableOf,
  byAge,
  desired,
  fenceposts,
  isRolling,
  maxPods,
  newSetSize,
  proportions,
  revisionOf,
  sum,
  wanted,
} from './rollout-math.ts';
import { hashLabel, templateHash, templateText } from './template-hash.ts';

const ownAnnotations: ReadonlySet<string> = new Set([
  ...Object.values(annotations),
  'kubectl.kubernetes.io/last-applied-configuration',
  'deprecated.deployment.rollback.to',
]);

interface Parts {
  readonly deployments: Informer<Deployment>;
  readonly sets: Informer<ReplicaSet>;
  readonly pods: Informer<Pod>;
  readonly recorder: EventRecorder;
  readonly clock: Clock;
}

/** One deployment on its way: what the steps below share. */
interface Rollout {
  deployment: Deployment;
  readonly context: ReconcileContext;
  readonly old: readonly ReplicaSet[];
  newSet: ReplicaSet | undefined;
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

  constructor({ deployments: all, sets, pods, recorder, clock }: Parts) {
    this.#deployments = all;
    this.#sets = indexByOwner(sets);
    this.#pods = indexByOwner(pods);
    this.#recorder = recorder;
    this.#clock = clock;
    this.watches = [
      watch(all, (deployment) => [objectKey(deployment)]),
      watch(sets, (set, old) => this.#keysOf(set, old)),
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
      owner: deployment,
      selector: selectorFromObject(selector),
      confirm: () => this.#stillThere(deployment, context),
    });
    const text = templateText(deployment.spec?.template);
    const newSet = [...sets].sort(byAge).find((set) => templateText(set.spec?.template) === text);
    const rollout: Rollout = { deployment, context, newSet, old: sets.filter((set) => set !== newSet).sort(byAge) };
    if (deployment.metadata?.deletionTimestamp !== undefined) return this.#finish(rollout);
    if (deployment.spec?.paused === true) return this.#paused(rollout);
    if (this.#scaled(rollout)) {
      await this.#useNewSet(rollout, false);
      await this.#scale(rollout);
      return this.#finish(rollout);
    }
    return isRolling(deployment) ? this.#roll(rollout) : this.#recreate(rollout);
  }

  #keysOf(set: ReplicaSet, old: ReplicaSet | undefined): Iterable<string> {
    const namespace = set.metadata?.namespace ?? '';
    const keys = new Set<string>();
    for (const ref of [controllerOf(set), old && controllerOf(old)]) if (ref?.kind === 'Deployment') keys.add(`${namespace}/${ref.name}`);
    if (controllerOf(set) === undefined)
      for (const each of this.#deployments.list(namespace))
        if (selectorFromObject(each.spec?.selector).matches(set.metadata?.labels)) keys.add(objectKey(each));
    return keys;
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

  async #paused(rollout: Rollout): Promise<ReconcileResult | undefined> {
    const { deployment, context } = rollout;
    if (
      hasDeadline(deployment) &&
      conditionOf(deployment.status, 'Progressing')?.reason !== 'ProgressDeadlineExceeded' &&
      conditionOf(deployment.status, 'Progressing')?.reason !== 'DeploymentPaused'
    ) {
      const conditions = withCondition(
        deployment.status?.conditions ?? [],
        { type: 'Progressing', status: 'Unknown', reason: 'DeploymentPaused', message: 'Deployment is paused' },
        this.#clock.now(),
      );
      rollout.deployment = await context.client.update(
        deployments,
        { ...typed(deployment), status: { ...deployment.status, conditions } },
        { subresource: 'status' },
      );
    }
    await this.#useNewSet(rollout, false);
    await this.#scale(rollout);
    return this.#finish(rollout);
  }

  /** The number of replicas was changed, which is not a rollout: sets carry the number they were last scaled to. */
  #scaled({ deployment, old, newSet }: Rollout): boolean {
    return [...old, ...(newSet ? [newSet] : [])].some((set) => {
      const noted = set.metadata?.annotations?.[annotations.desired];
      return wanted(set) > 0 && noted !== undefined && Number(noted) !== desired(deployment);
    });
  }

  async #roll(rollout: Rollout): Promise<ReconcileResult | undefined> {
    await this.#useNewSet(rollout, true);
    const grown = await this.#growNew(rollout);
    if (!grown) await this.#shrinkOld(rollout);
    return this.#finish(rollout);
  }

  async #recreate(rollout: Rollout): Promise<ReconcileResult | undefined> {
    await this.#useNewSet(rollout, false);
    let stopped = false;
    for (const set of rollout.old)
      if (wanted(set) > 0) {
        await this.#resize(rollout, set, 0);
        stopped = true;
      }
    const oldPods = rollout.old.some((set) =>
      ownedBy(this.#pods, set.metadata?.uid ?? '').some(
        (pod) => isActive(pod) || pod.status?.phase === 'Running' || pod.status?.phase === 'Pending',
      ),
    );
    if (!stopped && !oldPods) {
      await this.#useNewSet(rollout, true);
      await this.#growNew(rollout);
    }
    return this.#finish(rollout);
  }

  /** Finds the set of the present template or makes it, and keeps its revision and annotations right. */
  async #useNewSet(rollout: Rollout, create: boolean): Promise<void> {
    const {
      deployment,
      context: { client },
      old,
    } = rollout;
    const revision = String(Math.max(0, ...old.map(revisionOf)) + 1);
    if (rollout.newSet !== undefined) {
      const set = rollout.newSet;
      const notes = setAnnotations(deployment, revisionOf(set) < Number(revision) ? revision : String(revisionOf(set)), set);
      const minReady = deployment.spec?.minReadySeconds ?? 0;
      if (!sameRecord(set.metadata?.annotations, notes) || (set.spec?.minReadySeconds ?? 0) !== minReady) {
        rollout.newSet = await client.update(replicaSets, {
          ...typedSet(set),
          metadata: { ...set.metadata, annotations: notes },
          spec: { ...set.spec, selector: set.spec?.selector ?? {}, minReadySeconds: minReady },
        });
      }
      await this.#noteRevision(rollout, notes[annotations.revision] ?? revision);
      if (hasDeadline(deployment) && conditionOf(rollout.deployment.status, 'Progressing') === undefined) {
        await this.#progress(rollout, 'FoundNewReplicaSet', `Found new replica set "${set.metadata?.name}"`);
      }
      return;
    }
    if (!create) return;
    const collisions = deployment.status?.collisionCount ?? 0;
    const hash = templateHash(deployment.spec?.template, collisions);
    const template = deployment.spec?.template ?? {};
    const labels = { ...template.metadata?.labels, [hashLabel]: hash };
    const fresh: ReplicaSet = {
      apiVersion: 'apps/v1',
      kind: 'ReplicaSet',
      metadata: {
        name: `${deployment.metadata?.name}-${hash}`,
        ...(deployment.metadata?.namespace !== undefined && { namespace: deployment.metadata.namespace }),
        labels,
        ownerReferences: [controllerRef({ ...deployment, apiVersion: 'apps/v1', kind: 'Deployment' })],
        annotations: setAnnotations(deployment, revision, undefined),
      },
      spec: {
        replicas: 0,
        minReadySeconds: deployment.spec?.minReadySeconds ?? 0,
        selector: { ...deployment.spec?.selector, matchLabels: { ...deployment.spec?.selector?.matchLabels, [hashLabel]: hash } },
        template: { ...template, metadata: { ...template.metadata, labels } },
      },
    };
    const size = newSetSize(deployment, [...old, fresh], fresh);
    try {
      rollout.newSet = await client.create(replicaSets, {
        ...fresh,
        spec: { ...fresh.spec, selector: fresh.spec?.selector ?? {}, replicas: size },
      });
      if (size > 0)
        this.#recorder.event(deployment, 'Normal', 'ScalingReplicaSet', `Scaled up replica set ${fresh.metadata?.name} from 0 to ${size}`);
    } catch (error) {
      if (isStatus(error, 'AlreadyExists')) return this.#resolveTakenName(rollout, fresh, error);
      if (isStatus(error, 'Forbidden') && error.status.details?.causes?.some(({ reason }) => reason === 'NamespaceTerminating'))
        return undefined;
      await this.#progress(
        rollout,
        'ReplicaSetCreateError',
        `Failed to create new replica set "${fresh.metadata?.name}": ${(error as Error).message}`,
        'False',
      );
      throw error;
    }
    await this.#noteRevision(rollout, revision);
    await this.#progress(rollout, 'NewReplicaSetCreated', `Created new replica set "${fresh.metadata?.name}"`);
    return undefined;
  }

  /** The cache was behind and the set is ours already, or another template has the same hash. */
  async #resolveTakenName(rollout: Rollout, fresh: ReplicaSet, error: unknown): Promise<void> {
    const {
      deployment,
      context: { client },
    } = rollout;
    const taken = await client.get(replicaSets, nameOf(fresh));
    if (
      controllerOf(taken)?.uid === deployment.metadata?.uid &&
      templateText(taken.spec?.template) === templateText(fresh.spec?.template)
    ) {
      rollout.newSet = taken;
      return;
    }
    await client.update(
      deployments,
      {
        ...typed(rollout.deployment),
        status: { ...rollout.deployment.status, collisionCount: (deployment.status?.collisionCount ?? 0) + 1 },
      },
      { subresource: 'status' },
    );
    throw error;
  }

  async #noteRevision(rollout: Rollout, revision: string): Promise<void> {
    const {
      deployment,
      context: { client },
    } = rollout;
    if (deployment.metadata?.annotations?.[annotations.revision] === revision) return;
    rollout.deployment = await client.update(deployments, {
      ...typed(deployment),
      metadata: { ...deployment.metadata, annotations: { ...deployment.metadata?.annotations, [annotations.revision]: revision } },
    });
  }

  async #progress(rollout: Rollout, reason: string, message: string, status: 'True' | 'False' = 'True'): Promise<void> {
    const {
      deployment,
      context: { client },
    } = rollout;
    if (!hasDeadline(deployment)) return;
    const conditions = withCondition(
      deployment.status?.conditions ?? [],
      { type: 'Progressing', status, reason, message },
      this.#clock.now(),
    );
    rollout.deployment = await client.update(
      deployments,
      { ...typed(deployment), status: { ...deployment.status, conditions } },
      { subresource: 'status' },
    );
  }

  async #growNew(rollout: Rollout): Promise<boolean> {
    const { deployment, newSet, old } = rollout;
    if (newSet === undefined || wanted(newSet) === desired(deployment)) return false;
    const size = wanted(newSet) > desired(deployment) ? desired(deployment) : newSetSize(deployment, [...old, newSet], newSet);
    rollout.newSet = await this.#resize(rollout, newSet, size);
    return rollout.newSet !== newSet;
  }

  /** First what is not healthy, then as much as availability allows. */
  async #shrinkOld(rollout: Rollout): Promise<void> {
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
    for (const [set, size] of sizes) if (size !== wanted(set)) await this.#resize(rollout, set, size);
  }

  /** Brings the sets to a changed number of replicas without a rollout. */
  async #scale(rollout: Rollout): Promise<void> {
    const { deployment, old, newSet } = rollout;
    const all = [...old, ...(newSet ? [newSet] : [])];
    const active = all.filter((set) => wanted(set) > 0);
    const [only] = active.length > 0 ? active : newSet ? [newSet] : all.slice(-1);
    if (active.length <= 1) {
      if (only !== undefined) await this.#resize(rollout, only, desired(deployment));
      return;
    }
    if (newSet !== undefined && wanted(newSet) === desired(deployment) && availableOf(newSet) === desired(deployment)) {
      for (const set of old) if (wanted(set) > 0) await this.#resize(rollout, set, 0);
      return;
    }
    if (!isRolling(deployment)) return;
    for (const [set, size] of proportions(deployment, active)) await this.#resize(rollout, set, size);
  }

  async #resize(rollout: Rollout, set: ReplicaSet, size: number): Promise<ReplicaSet> {
    const {
      deployment,
      context: { client },
    } = rollout;
    const notes = { ...set.metadata?.annotations, ...sizeNotes(deployment) };
    if (wanted(set) === size && sameRecord(set.metadata?.annotations, notes)) return set;
    const updated = await client.update(replicaSets, {
      ...typedSet(set),
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
    const status: DeploymentStatus =
      paused || deployment.metadata?.deletionTimestamp !== undefined
        ? counted
        : { ...counted, conditions: rolloutConditions(deployment, counted, all, newSet, now) };
    if (isComplete(deployment, status) && !paused) await this.#cleanUp(rollout);
    if (!sameStatus(deployment.status, status)) {
      try {
        await client.update(deployments, { ...typed(deployment), status }, { subresource: 'status' });
      } catch (error) {
        if (!isStatus(error, 'NotFound')) throw error;
      }
    }
    const left = paused ? undefined : deadlineIn(deployment, status, now);
    return left !== undefined && left > 0 ? { requeueAfterMs: left + 1 } : undefined;
  }

  /** Old sets beyond the history limit, oldest first, when nothing of them runs. */
  async #cleanUp({ deployment, old, context: { client } }: Rollout): Promise<void> {
    const limit = deployment.spec?.revisionHistoryLimit ?? 10;
    const idle = old.filter(
      (set) =>
        wanted(set) === 0 &&
        actual(set) === 0 &&
        set.metadata?.deletionTimestamp === undefined &&
        (set.metadata?.generation ?? 0) <= (set.status?.observedGeneration ?? 0),
    );
    const excess = idle.toSorted((a, b) => revisionOf(a) - revisionOf(b)).slice(0, Math.max(0, old.length - limit));
    for (const set of excess) {
      try {
        await client.delete(replicaSets, nameOf(set), { preconditions: { uid: set.metadata?.uid ?? '' } });
      } catch (error) {
        if (!isStatus(error, 'NotFound', 'Conflict')) throw error;
      }
    }
  }
}

const nameOf = ({ metadata }: Deployment | ReplicaSet) => ({ name: metadata?.name ?? '', namespace: metadata?.namespace ?? '' });
const typed = (deployment: Deployment): Deployment => ({ ...deployment, apiVersion: 'apps/v1', kind: 'Deployment' });
const typedSet = (set: ReplicaSet): ReplicaSet => ({ ...set, apiVersion: 'apps/v1', kind: 'ReplicaSet' });
const sizeNotes = (deployment: Deployment) => ({
  [annotations.desired]: String(desired(deployment)),
  [annotations.max]: String(maxPods(deployment)),
});

function setAnnotations(deployment: Deployment, revision: string, set: ReplicaSet | undefined): Record<string, string> {
  const notes: Record<string, string> = { ...set?.metadata?.annotations };
  for (const [key, value] of Object.entries(deployment.metadata?.annotations ?? {})) if (!ownAnnotations.has(key)) notes[key] = value;
  const before = set?.metadata?.annotations?.[annotations.revision];
  if (before !== undefined && before !== revision) {
    const history = [...(notes[annotations.history] ?? '').split(',').filter(Boolean), before];
    notes[annotations.history] = history.join(',');
  }
  return { ...notes, [annotations.revision]: revision, ...(set === undefined && sizeNotes(deployment)) };
}

function sameRecord(a: Readonly<Record<string, string>> | undefined, b: Readonly<Record<string, string>>): boolean {
  const keys = Object.keys(b);
  return Object.keys(a ?? {}).length === keys.length && keys.every((key) => a?.[key] === b[key]);
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
