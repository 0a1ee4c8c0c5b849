import { controllerRef, isControlledBy, objectKey } from '@oarlock/api/object';
import { deployments, replicaSets } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Deployment, ReplicaSet } from '@oarlock/api/types/apps-v1';
import type { Clock } from '@oarlock/primitives/clock';
import type { EventRecorder } from '@oarlock/spi/client';
import { isNamespaceTerminating } from '../../errors/namespace-terminating.ts';
import { objectName, withTypeMeta } from '../../objects/object-identity.ts';
import { conditionOf, hasDeadline, withCondition } from './deployment-status.ts';
import { sameRecord, replicasAnnotations, type Rollout } from './rollout.ts';
import { deploymentAnnotations, byRevision, newReplicaSetReplicas, revisionOf } from './deployment-util.ts';
import { hashLabel, templateHash, templateText } from '../history/template-hash.ts';

const maxRevisionHistoryLength = 2000; // characters, as upstream

const annotationsToSkip: ReadonlySet<string> = new Set([
  ...Object.values(deploymentAnnotations),
  'kubectl.kubernetes.io/last-applied-configuration',
  'deprecated.deployment.rollback.to',
]);

/** Finds or creates the ReplicaSet of a Deployment's current template and maintains its revision and annotations. */
export class NewReplicaSet {
  readonly #recorder: EventRecorder;
  readonly #clock: Clock;

  constructor(recorder: EventRecorder, clock: Clock) {
    this.#recorder = recorder;
    this.#clock = clock;
  }

  /**
   * Updates the ReplicaSet of the current template, or creates it if `create` is true, and sets the revision of the Deployment
   * (getAllReplicaSetsAndSyncRevision upstream).
   */
  async getOrCreate(rollout: Rollout, create: boolean): Promise<void> {
    const newest = rollout.oldReplicaSets.toSorted(byRevision).at(-1);
    const revision = (newest === undefined ? 0n : revisionOf(newest)) + 1n;
    if (rollout.newReplicaSet !== undefined) await this.#updateExisting(rollout, rollout.newReplicaSet, revision);
    else if (create) await this.#create(rollout, String(revision));
  }

  /**
   * Updates the annotations and minReadySeconds of the new ReplicaSet. Raises its revision to `nextRevision` if an old ReplicaSet has a higher
   * revision.
   */
  async #updateExisting(rollout: Rollout, set: ReplicaSet, nextRevision: bigint): Promise<void> {
    const {
      deployment,
      context: { client },
    } = rollout;
    const revision = String(revisionOf(set) < nextRevision ? nextRevision : revisionOf(set));
    const annotations = setAnnotations(deployment, revision, set);
    const minReadySeconds = deployment.spec?.minReadySeconds ?? 0;
    if (!sameRecord(set.metadata?.annotations, annotations) || (set.spec?.minReadySeconds ?? 0) !== minReadySeconds) {
      const changed = {
        ...withTypeMeta(replicaSets, set),
        metadata: { ...set.metadata, annotations },
        spec: { ...set.spec, selector: set.spec?.selector ?? {}, minReadySeconds },
      };
      rollout.newReplicaSet = await rollout.writer.update(objectKey(deployment), changed, client);
    }
    const isProgressUnknown = conditionOf(deployment.status, 'Progressing') === undefined;
    await this.#writeStatus(rollout, {
      revision,
      ...(isProgressUnknown && { progressing: { reason: 'FoundNewReplicaSet', message: `Found new replica set "${set.metadata?.name}"` } }),
    });
  }

  async #create(rollout: Rollout, revision: string): Promise<void> {
    const {
      deployment,
      context: { client },
      oldReplicaSets: old,
    } = rollout;
    const fresh = replicaSetOf(deployment, revision);
    const name = fresh.metadata?.name;
    const size = newReplicaSetReplicas(deployment, [...old, fresh], fresh);
    try {
      const sized = { ...fresh, spec: { ...fresh.spec, selector: fresh.spec?.selector ?? {}, replicas: size } };
      rollout.newReplicaSet = await rollout.writer.create(objectKey(deployment), sized, client);
      if (size > 0) this.#recorder.event(deployment, 'Normal', 'ScalingReplicaSet', `Scaled up replica set ${name} from 0 to ${size}`);
    } catch (error) {
      if (isStatus(error, 'AlreadyExists')) return this.#resolveHashCollision(rollout, fresh, error);
      if (isNamespaceTerminating(error)) return undefined;
      const message = `Failed to create new replica set "${name}": ${(error as Error).message}`;
      this.#recorder.event(deployment, 'Warning', 'ReplicaSetCreateError', message);
      await this.#writeStatus(rollout, { progressing: { reason: 'ReplicaSetCreateError', message, status: 'False' } });
      throw error;
    }
    const progressing = { reason: 'NewReplicaSetCreated', message: `Created new replica set "${name}"` };
    await this.#writeStatus(rollout, { revision, progressing });
    return undefined;
  }

  /**
   * Handles a ReplicaSet name that is taken. Uses the existing ReplicaSet if it has the same template and owner (the cache was stale); otherwise
   * increments `collisionCount`, so that the next reconcile generates another name.
   */
  async #resolveHashCollision(rollout: Rollout, fresh: ReplicaSet, error: unknown): Promise<void> {
    const {
      deployment,
      context: { client },
    } = rollout;
    const existing = await client.get(replicaSets, objectName(fresh));
    if (isControlledBy(existing, deployment) && templateText(existing.spec?.template) === templateText(fresh.spec?.template)) {
      rollout.newReplicaSet = existing;
      return;
    }
    await client.update(
      deployments,
      {
        ...withTypeMeta(deployments, rollout.deployment),
        status: { ...rollout.deployment.status, collisionCount: (deployment.status?.collisionCount ?? 0) + 1 },
      },
      { subresource: 'status' },
    );
    throw error;
  }

  /**
   * Updates the revision annotation and the Progressing condition of the Deployment in one write. As upstream, writes the annotation through the
   * status subresource: an update of the Deployment itself would increment its generation.
   */
  async #writeStatus(
    rollout: Rollout,
    {
      revision,
      progressing,
    }: { readonly revision?: string; readonly progressing?: { reason: string; message: string; status?: 'True' | 'False' } },
  ): Promise<void> {
    const { deployment, context } = rollout;
    const { annotations } = deployment.metadata ?? {};
    const changesRevision = revision !== undefined && annotations?.[deploymentAnnotations.revision] !== revision;
    const before = deployment.status?.conditions ?? [];
    const conditions =
      progressing === undefined || !hasDeadline(deployment)
        ? before
        : withCondition(before, { type: 'Progressing', status: 'True', ...progressing }, this.#clock.now());
    if (!changesRevision && conditions === before) return;
    rollout.deployment = await context.client.update(
      deployments,
      {
        ...withTypeMeta(deployments, deployment),
        metadata: {
          ...deployment.metadata,
          ...(changesRevision && { annotations: { ...annotations, [deploymentAnnotations.revision]: revision } }),
        },
        ...(conditions !== before && { status: { ...deployment.status, conditions } }),
      },
      { subresource: 'status' },
    );
  }
}

/** The length that the name of a ReplicaSet, a DNS subdomain, can have (RFC 1123). */
const maxNameLength = 253;

/** Returns the name of the ReplicaSet of a template. The part from the Deployment's name is shortened, so that the API server accepts the name. */
const replicaSetName = (deployment: string, hash: string): string => `${deployment.slice(0, maxNameLength - 1 - hash.length)}-${hash}`;

/** Returns a new ReplicaSet for the Deployment's current template, with 0 replicas. */
function replicaSetOf(deployment: Deployment, revision: string): ReplicaSet {
  const template = deployment.spec?.template ?? {};
  const hash = templateHash(deployment.spec?.template, deployment.status?.collisionCount ?? 0);
  const labels = { ...template.metadata?.labels, [hashLabel]: hash };
  return {
    apiVersion: 'apps/v1',
    kind: 'ReplicaSet',
    metadata: {
      name: replicaSetName(deployment.metadata?.name ?? '', hash),
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
}

/** Returns the annotations of a ReplicaSet: the annotations of the Deployment, the revision, and the history of former revisions. */
function setAnnotations(deployment: Deployment, revision: string, set: ReplicaSet | undefined): Record<string, string> {
  const annotations: Record<string, string> = { ...set?.metadata?.annotations };
  for (const [key, value] of Object.entries(deployment.metadata?.annotations ?? {}))
    if (!annotationsToSkip.has(key)) annotations[key] = value;
  const before = set?.metadata?.annotations?.[deploymentAnnotations.revision];
  if (before !== undefined && before !== revision) {
    const history = [...(annotations[deploymentAnnotations.history] ?? '').split(',').filter(Boolean), before];
    while (history.length > 1 && history.join(',').length > maxRevisionHistoryLength) history.shift();
    annotations[deploymentAnnotations.history] = history.join(',');
  }
  return { ...annotations, [deploymentAnnotations.revision]: revision, ...(set === undefined && replicasAnnotations(deployment)) };
}
