import { controllerRef, isControlledBy, type KubeObject } from '@oarlock/api/object';
import { controllerRevisions } from '@oarlock/api/resources';
import type { Resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import type { ControllerRevision } from '@oarlock/api/types/apps-v1';
import type { PodTemplateSpec } from '@oarlock/api/types/core-v1';
import type { Client } from '@oarlock/spi/client';
import { dataHash, templateText } from './template-hash.ts';
import { objectName, withTypeMeta } from '../../objects/object-identity.ts';

/** Label on pods with the hash or the name of the pod's ControllerRevision, and on the ControllerRevisions of DaemonSets with their hash. */
export const revisionLabel = 'controller-revision-hash';
/** Label on the ControllerRevisions of StatefulSets with their hash. */
export const historyHashLabel = 'controller.kubernetes.io/hash';
/** Maximum length of the owner's name in the name of a ControllerRevision. */
const maxPrefixLength = 223;

type Owner = KubeObject & { readonly spec?: { readonly template?: PodTemplateSpec } };
interface TemplatePatch {
  readonly spec?: { readonly template?: PodTemplateSpec };
}

/** Returns the pod template stored in a revision. */
export const revisionTemplate = (revision: ControllerRevision): PodTemplateSpec | undefined => {
  const template = (revision.data as TemplatePatch | undefined)?.spec?.template;
  if (template === undefined) return undefined;
  const { $patch: _directive, ...rest } = template as PodTemplateSpec & { readonly $patch?: string };
  return rest;
};

export const compareRevisions = (a: ControllerRevision, b: ControllerRevision): number =>
  a.revision - b.revision ||
  ((a.metadata?.creationTimestamp ?? '') < (b.metadata?.creationTimestamp ?? '')
    ? -1
    : (a.metadata?.creationTimestamp ?? '') > (b.metadata?.creationTimestamp ?? '')
      ? 1
      : (a.metadata?.name ?? '') < (b.metadata?.name ?? '')
        ? -1
        : 1);

const texts = new WeakMap<ControllerRevision, string>();
function revisionText(revision: ControllerRevision): string {
  const known = texts.get(revision);
  if (known !== undefined) return known;
  const text = templateText(revisionTemplate(revision));
  texts.set(revision, text);
  return text;
}

export interface ControllerRevisions {
  /** All ControllerRevisions of the owner, oldest first. */
  readonly all: readonly ControllerRevision[];
  /** The ControllerRevision of the owner's current template. */
  readonly updateRevision: ControllerRevision;
  readonly collisionCount: number | undefined;
}

interface SyncRevisionsOptions<T extends Owner> {
  readonly client: Client;
  readonly resource: Resource<T>;
  readonly owner: T;
  readonly revisions: readonly ControllerRevision[];
  readonly collisionCount: number | undefined;
  /** The label of new ControllerRevisions that contains their hash. */
  readonly hashLabel: typeof revisionLabel | typeof historyHashLabel;
}

/**
 * Finds or creates the ControllerRevision of the owner's current template and gives it the highest revision number. If another template has
 * the generated name, increments `collisionCount` and generates a new name.
 */
export async function syncRevisions<T extends Owner>({
  client,
  resource,
  owner,
  revisions,
  collisionCount: before,
  hashLabel,
}: SyncRevisionsOptions<T>): Promise<ControllerRevisions> {
  const all = revisions.toSorted(compareRevisions);
  const text = templateText(owner.spec?.template);
  const latest = all.at(-1);
  const equal = all.filter((revision) => revisionText(revision) === text);
  const [last] = equal.slice(-1);
  if (last !== undefined && last === latest) return { all, updateRevision: last, collisionCount: before };
  const revision = (latest?.revision ?? 0) + 1;
  if (last !== undefined) {
    const updated = await client.update(controllerRevisions, { ...withTypeMeta(controllerRevisions, last), revision });
    return { all: [...all.filter((each) => each !== last), updated], updateRevision: updated, collisionCount: before };
  }
  const data = withSortedKeys({ spec: { template: { ...owner.spec?.template, $patch: 'replace' } } }) as ControllerRevision['data'];
  let collisionCount = before;
  for (;;) {
    const hash = dataHash(data, collisionCount ?? 0);
    const fresh: ControllerRevision = {
      apiVersion: 'apps/v1',
      kind: 'ControllerRevision',
      metadata: {
        name: `${owner.metadata?.name?.slice(0, maxPrefixLength)}-${hash}`,
        namespace: owner.metadata?.namespace ?? '',
        labels: { ...owner.spec?.template?.metadata?.labels, [hashLabel]: hash },
        ...(owner.metadata?.annotations && { annotations: owner.metadata.annotations }),
        ownerReferences: [controllerRef(withTypeMeta(resource, owner))],
      },
      data,
      revision,
    };
    try {
      const created = await client.create(controllerRevisions, fresh);
      return { all: [...all, created], updateRevision: created, collisionCount };
    } catch (error) {
      if (!isStatus(error, 'AlreadyExists')) throw error;
      const existing = await client.get(controllerRevisions, objectName(fresh));
      if (isControlledBy(existing, owner) && revisionText(existing) === text) {
        // the cache was stale: the revision exists already
        const update = existing.revision >= revision ? existing : await client.update(controllerRevisions, { ...existing, revision });
        return { all: [...all, update], updateRevision: update, collisionCount };
      }
      collisionCount = (collisionCount ?? 0) + 1;
    }
  }
}

/** Returns the value with object keys sorted recursively, as Go serializes maps: Kubernetes compares ControllerRevisions byte by byte. */
function withSortedKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withSortedKeys);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(members.map(([key, member]) => [key, withSortedKeys(member)]));
}

/** Returns the hash of a ControllerRevision, which is the value of the revision label on pods. */
export const revisionHash = (revision: ControllerRevision): string =>
  revision.metadata?.labels?.[revisionLabel] ?? revision.metadata?.labels?.[historyHashLabel] ?? revision.metadata?.name ?? '';

/** All revisions, which of them pods use, and how many others remain. */
export interface HistoryTruncation {
  readonly all: readonly ControllerRevision[];
  readonly isLive: (revision: ControllerRevision) => boolean;
  readonly limit: number;
}

/** Deletes the oldest ControllerRevisions that are not in use (`isLive`), so that at most `limit` of these remain. */
export async function truncateHistory(client: Client, { all, isLive, limit }: HistoryTruncation): Promise<void> {
  const idle = all.filter((revision) => !isLive(revision) && revision.metadata?.deletionTimestamp === undefined);
  for (const revision of idle.slice(0, Math.max(0, idle.length - limit))) {
    try {
      await client.delete(controllerRevisions, objectName(revision), { preconditions: { uid: revision.metadata?.uid ?? '' } });
    } catch (error) {
      if (!isStatus(error, 'NotFound', 'Conflict')) throw error;
    }
  }
}
