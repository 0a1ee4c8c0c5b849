import { controllerOf, controllerRef } from '@oarlock/api/object';
import { deployments, replicaSets } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Deployment, ReplicaSet } from '@oarlock/api/types/apps-v1';
import type { Clock } from '@oarlock/kernel/clock';
import type { EventRecorder } from '@oarlock/spi/client';
import { isNamespaceTerminating, nameOf, typed } from '../pod-template.ts';
import { conditionOf, hasDeadline, withCondition } from './deployment-status.ts';
import { sameRecord, sizeNotes, type Rollout } from './rollout.ts';
import { annotations, byRevision, newSetSize, revisionOf } from './rollout-math.ts';
import { hashLabel, templateHash, templateText } from './template-hash.ts';

const longestHistory = 2000; // characters, as upstream

const ownAnnotations: ReadonlySet<string> = new Set([
  ...Object.values(annotations),
  'kubectl.kubernetes.io/last-applied-configuration',
  'deprecated.deployment.rollback.to',
]);

/** The set of a deployment's present template: finds or makes it, with its revision and annotations. */
export class NewReplicaSet {
  readonly #recorder: EventRecorder;
  readonly #clock: Clock;

  constructor(recorder: EventRecorder, clock: Clock) {
    this.#recorder = recorder;
    this.#clock = clock;
  }

  /** Finds the set of the present template or makes it, and keeps its revision and annotations right. */
  async use(rollout: Rollout, create: boolean): Promise<void> {
    const {
      deployment,
      context: { client },
      old,
    } = rollout;
    const newest = old.toSorted(byRevision).at(-1);
    const revision = String((newest === undefined ? 0n : revisionOf(newest)) + 1n);
    if (rollout.newSet !== undefined) {
      const set = rollout.newSet;
      const notes = setAnnotations(deployment, revisionOf(set) < BigInt(revision) ? revision : String(revisionOf(set)), set);
      const minReady = deployment.spec?.minReadySeconds ?? 0;
      if (!sameRecord(set.metadata?.annotations, notes) || (set.spec?.minReadySeconds ?? 0) !== minReady) {
        rollout.newSet = await client.update(replicaSets, {
          ...typed(replicaSets, set),
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
      if (isNamespaceTerminating(error)) return undefined;
      const message = `Failed to create new replica set "${fresh.metadata?.name}": ${(error as Error).message}`;
      this.#recorder.event(deployment, 'Warning', 'ReplicaSetCreateError', message);
      await this.#progress(rollout, 'ReplicaSetCreateError', message, 'False');
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
        ...typed(deployments, rollout.deployment),
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
      ...typed(deployments, deployment),
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
      { ...typed(deployments, deployment), status: { ...deployment.status, conditions } },
      { subresource: 'status' },
    );
  }
}

function setAnnotations(deployment: Deployment, revision: string, set: ReplicaSet | undefined): Record<string, string> {
  const notes: Record<string, string> = { ...set?.metadata?.annotations };
  for (const [key, value] of Object.entries(deployment.metadata?.annotations ?? {})) if (!ownAnnotations.has(key)) notes[key] = value;
  const before = set?.metadata?.annotations?.[annotations.revision];
  if (before !== undefined && before !== revision) {
    const history = [...(notes[annotations.history] ?? '').split(',').filter(Boolean), before];
    while (history.length > 1 && history.join(',').length > longestHistory) history.shift();
    notes[annotations.history] = history.join(',');
  }
  return { ...notes, [annotations.revision]: revision, ...(set === undefined && sizeNotes(deployment)) };
}
