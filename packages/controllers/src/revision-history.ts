import { controllerOf, controllerRef, type KubeObject } from '@oarlock/api/object';
import { controllerRevisions } from '@oarlock/api/resources';
import type { Resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import type { ControllerRevision } from '@oarlock/api/types/apps-v1';
import type { PodTemplateSpec } from '@oarlock/api/types/core-v1';
import type { Client } from '@oarlock/spi/client';
import { hashText, templateText } from './deployment/template-hash.ts';
import { nameOf, typed } from './pod-template.ts';

/** On pods: which revision they are of. */
export const revisionLabel = 'controller-revision-hash';
const hashLabel = 'controller.kubernetes.io/hash';

type Owner = KubeObject & { readonly spec?: { readonly template?: PodTemplateSpec } };
interface TemplatePatch {
  readonly spec?: { readonly template?: PodTemplateSpec };
}

/** The template that a revision keeps. */
export const templateOf = (revision: ControllerRevision): PodTemplateSpec | undefined => {
  const template = (revision.data as TemplatePatch | undefined)?.spec?.template;
  if (template === undefined) return undefined;
  const { $patch: _directive, ...rest } = template as PodTemplateSpec & { readonly $patch?: string };
  return rest;
};

export const byRevision = (a: ControllerRevision, b: ControllerRevision): number =>
  a.revision - b.revision ||
  ((a.metadata?.creationTimestamp ?? '') < (b.metadata?.creationTimestamp ?? '')
    ? -1
    : (a.metadata?.creationTimestamp ?? '') > (b.metadata?.creationTimestamp ?? '')
      ? 1
      : (a.metadata?.name ?? '') < (b.metadata?.name ?? '')
        ? -1
        : 1);

const texts = new WeakMap<ControllerRevision, string>();
function textOf(revision: ControllerRevision): string {
  const known = texts.get(revision);
  if (known !== undefined) return known;
  const text = templateText(templateOf(revision));
  texts.set(revision, text);
  return text;
}

export interface Revisions {
  /** All of the owner, oldest first. */
  readonly all: readonly ControllerRevision[];
  /** The one of the owner's present template. */
  readonly update: ControllerRevision;
  readonly collisionCount: number | undefined;
}

interface Settle<T extends Owner> {
  readonly client: Client;
  readonly resource: Resource<T>;
  readonly owner: T;
  readonly found: readonly ControllerRevision[];
  readonly collisionCount: number | undefined;
}

/**
 * Finds the revision of the owner's template or makes it, and sees to it that it has the highest number. A name that is taken by
 * another template makes a new one, by `collisionCount`.
 */
export async function settleRevisions<T extends Owner>({
  client,
  resource,
  owner,
  found,
  collisionCount: before,
}: Settle<T>): Promise<Revisions> {
  const all = found.toSorted(byRevision);
  const text = templateText(owner.spec?.template);
  const latest = all.at(-1);
  const equal = all.filter((revision) => textOf(revision) === text);
  const [last] = equal.slice(-1);
  if (last !== undefined && last === latest) return { all, update: last, collisionCount: before };
  const revision = (latest?.revision ?? 0) + 1;
  if (last !== undefined) {
    const moved = await client.update(controllerRevisions, { ...typed(controllerRevisions, last), revision });
    return { all: [...all.filter((each) => each !== last), moved], update: moved, collisionCount: before };
  }
  let collisionCount = before;
  for (;;) {
    const hash = hashText(text, collisionCount ?? 0);
    const fresh: ControllerRevision = {
      apiVersion: 'apps/v1',
      kind: 'ControllerRevision',
      metadata: {
        name: `${owner.metadata?.name}-${hash}`,
        namespace: owner.metadata?.namespace ?? '',
        labels: { ...owner.spec?.template?.metadata?.labels, [hashLabel]: hash, [revisionLabel]: hash },
        ...(owner.metadata?.annotations && { annotations: owner.metadata.annotations }),
        ownerReferences: [controllerRef(typed(resource, owner))],
      },
      data: ordered({ spec: { template: { ...owner.spec?.template, $patch: 'replace' } } }) as ControllerRevision['data'],
      revision,
    };
    try {
      const made = await client.create(controllerRevisions, fresh);
      return { all: [...all, made], update: made, collisionCount };
    } catch (error) {
      if (!isStatus(error, 'AlreadyExists')) throw error;
      const taken = await client.get(controllerRevisions, nameOf(fresh));
      if (controllerOf(taken)?.uid === owner.metadata?.uid && textOf(taken) === text) {
        // the cache was behind
        const update = taken.revision >= revision ? taken : await client.update(controllerRevisions, { ...taken, revision });
        return { all: [...all, update], update, collisionCount };
      }
      collisionCount = (collisionCount ?? 0) + 1;
    }
  }
}

/** With keys in order, as Go writes maps: Kubernetes tells revisions of a DaemonSet from each other by their bytes. */
function ordered(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(ordered);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(members.map(([key, member]) => [key, ordered(member)]));
}

/** The part of a revision's name that tells it from its siblings: a label value for pods. */
export const hashOf = (revision: ControllerRevision): string =>
  revision.metadata?.labels?.[revisionLabel] ?? revision.metadata?.labels?.[hashLabel] ?? revision.metadata?.name ?? '';

/** Deletes the oldest revisions that nobody uses, beyond the limit. */
export async function truncateHistory(
  client: Client,
  all: readonly ControllerRevision[],
  isLive: (revision: ControllerRevision) => boolean,
  limit: number,
): Promise<void> {
  const idle = all.filter((revision) => !isLive(revision) && revision.metadata?.deletionTimestamp === undefined);
  for (const revision of idle.slice(0, Math.max(0, idle.length - limit))) {
    try {
      await client.delete(controllerRevisions, nameOf(revision), { preconditions: { uid: revision.metadata?.uid ?? '' } });
    } catch (error) {
      if (!isStatus(error, 'NotFound', 'Conflict')) throw error;
    }
  }
}
