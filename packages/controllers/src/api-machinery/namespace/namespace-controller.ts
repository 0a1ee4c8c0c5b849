import { kinds } from '@oarlock/api/kinds';
import { namespaces, pods as podResource } from '@oarlock/api/resources';
import { apiVersionOf, resource, type Resource } from '@oarlock/api/resource';
import type { KubeObject } from '@oarlock/api/object';
import { isStatus } from '@oarlock/api/status';
import { parseTime } from '@oarlock/api/values/time';
import type { Namespace, Pod } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/primitives/clock';
import { Client, Informers, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { z } from 'zod';
import type { DiscoveredKind } from '../../discovery/discovered-kind.ts';
import { DiscoveredKinds } from '../../discovery/discovered-kinds.ts';
import { ignoreNotFound } from '../../errors/ignore-not-found.ts';
import { withTypeMeta } from '../../objects/object-identity.ts';
import { updateDeletionConditions, type RemainingContent } from './deletion-conditions.ts';

const finalizer = 'kubernetes';
const initialRetryMs = 100;
const maxRetryMs = 5_000;

/** Namespaced built-in resources except pods. Each stored resource is listed once, because its other versions and groups have the same objects. */
const builtinContents: readonly Resource[] = kinds
  .filter(
    (kind) =>
      kind.namespaced &&
      kind.servedByDefault &&
      kind.preferred &&
      kind.verbs.includes('deletecollection') &&
      kind.verbs.includes('list') &&
      kind.group !== 'events.k8s.io' &&
      !(kind.group === '' && kind.resource === 'pods'),
  )
  .map((kind) => resource(kind.group, kind.version, kind.resource, kind.kind, true));

type Content = Pick<DiscoveredKind, 'resource' | 'verbs'>;
const deleteCollectionVerb: ReadonlySet<string> = new Set(['deletecollection']);

/** The dependencies of the controller besides the informer of namespaces. */
export interface NamespaceControllerOptions {
  readonly pods: Informer;
  readonly kinds: DiscoveredKinds;
  readonly clock: Clock;
}

/** Deletes the content of each terminating namespace, then removes the finalizer of the namespace. */
export class NamespaceController implements Controller {
  readonly name = 'namespace';
  readonly watches;
  readonly #namespaces: Informer<Namespace>;
  readonly #clock: Clock;
  readonly #deletionAttempts = new Map<string, number>();

  readonly #kinds: DiscoveredKinds;

  constructor(namespaceInformer: Informer<Namespace>, { pods, kinds, clock }: NamespaceControllerOptions) {
    this.#kinds = kinds;
    this.#namespaces = namespaceInformer;
    this.#clock = clock;
    this.watches = [
      // terminating namespaces may wait for a group whose discovery failed
      ...kinds.watches(() => this.#deletionAttempts.keys()),
      watch(namespaceInformer, ({ metadata }) => (metadata?.deletionTimestamp === undefined ? [] : [metadata.name ?? ''])),
      // pods take time to terminate: the deletion of the last one triggers a reconcile
      watch(pods, ({ metadata }) =>
        this.#namespaces.get(metadata?.namespace ?? '')?.metadata?.deletionTimestamp === undefined ? [] : [metadata?.namespace ?? ''],
      ),
    ];
  }

  addDynamicWatches(): () => void {
    return this.#kinds.on();
  }

  async reconcile(name: string, { client }: ReconcileContext): Promise<ReconcileResult | void> {
    const namespace = this.#namespaces.get(name);
    if (namespace?.metadata?.deletionTimestamp === undefined || !(namespace.spec?.finalizers ?? []).includes(finalizer)) {
      this.#deletionAttempts.delete(name);
      return undefined;
    }
    const remaining = await this.#deleteAllContent(namespace, client);
    const done = remaining.objects.size === 0 && remaining.failures.length === 0 && remaining.undiscovered.length === 0;
    const conditions = updateDeletionConditions(namespace, remaining, this.#clock.now());
    let current = namespace;
    // conditions of an earlier failure must not remain on a namespace that finalizers in its metadata keep
    if (conditions !== namespace.status?.conditions)
      await ignoreNotFound(async () => {
        const status = { phase: 'Terminating', ...(conditions && { conditions }) };
        current = await client.update(namespaces, { ...withTypeMeta(namespaces, namespace), status }, { subresource: 'status' });
      });
    if (!done) {
      const retryDelayMs = Math.min((this.#deletionAttempts.get(name) ?? initialRetryMs / 2) * 2, maxRetryMs);
      this.#deletionAttempts.set(name, retryDelayMs);
      return { requeueAfterMs: retryDelayMs };
    }
    this.#deletionAttempts.delete(name);
    await ignoreNotFound(() =>
      client.update(
        namespaces,
        {
          ...withTypeMeta(namespaces, current),
          spec: { ...current.spec, finalizers: (current.spec?.finalizers ?? []).filter((each) => each !== finalizer) },
        },
        { subresource: 'finalize' },
      ),
    );
    return undefined;
  }

  async #deleteAllContent({ metadata }: Namespace, client: Client): Promise<RemainingContent> {
    const remainingCounts = new Map<string, number>();
    const finalizers = new Map<string, number>();
    const failures: string[] = [];
    const servedElsewhere = new Set<string>();
    await this.#kinds.whenRead();
    const discovered = this.#kinds.list().filter((each) => each.resource.namespaced && each.verbs.has('delete') && each.verbs.has('list'));
    const namespace = metadata?.name ?? '';
    const terminatingMs = this.#clock.now() - (parseTime(metadata?.deletionTimestamp ?? '') ?? 0);
    const deleteContent = async (content: Content): Promise<void> => {
      const { resource: each } = content;
      try {
        const { items, graceMs } = await deleteObjects(content, namespace, client);
        if (items.length === 0) return;
        remainingCounts.set(`${each.resource}.${each.group}`, items.length);
        const held = items.flatMap((item) => item.metadata?.finalizers ?? []);
        for (const finalizer of held) finalizers.set(finalizer, (finalizers.get(finalizer) ?? 0) + 1);
        // these objects have no finalizers, and the grace periods of the pods have ended
        if (held.length === 0 && terminatingMs >= graceMs)
          failures.push(
            `unexpected items still remain in namespace: ${namespace} for gvr: ${each.group}/${each.version}, Resource=${each.resource}`,
          );
      } catch (error) {
        // a resource that no API server serves has no objects
        if (!isStatus(error, 'NotFound', 'MethodNotAllowed')) failures.push((error as Error).message);
        else if (this.#kinds.isRegistered(each) && !(await isServed(each, client))) servedElsewhere.add(apiVersionOf(each));
      }
    };
    // pods first: other objects, such as policies, must outlive the pods that rely on them (KEP-5080)
    await deleteContent({ resource: podResource, verbs: deleteCollectionVerb });
    if (remainingCounts.size === 0 && failures.length === 0)
      await Promise.all(
        [...builtinContents.map((each) => ({ resource: each, verbs: deleteCollectionVerb })), ...discovered].map(deleteContent),
      );
    return {
      objects: remainingCounts,
      finalizers,
      failures: failures.sort(),
      undiscovered: [...servedElsewhere, ...this.#kinds.failingGroupVersions].sort(),
    };
  }
}

/** Returns whether the API server serves the group version of a resource. */
async function isServed(of: Resource, client: Client): Promise<boolean> {
  const version = apiVersionOf(of);
  const path = version.includes('/') ? `/apis/${version}` : `/api/${version}`;
  return (await ignoreNotFound(() => client.raw('GET', path))) !== undefined;
}

interface RemainingObjects {
  readonly items: readonly KubeObject[];
  /** The longest grace period of the pods that ran when they were deleted, in milliseconds; 0 for other kinds. */
  readonly graceMs: number;
}

/** Deletes all objects of one resource in a namespace. Returns the objects that still exist afterwards. */
async function deleteObjects({ resource: of, verbs }: Content, namespace: string, client: Client): Promise<RemainingObjects> {
  const isPod = of.group === '' && of.resource === 'pods';
  const before = await client.list(of, { namespace, ...(verbs.has('deletecollection') && !isPod && { limit: 1 }) });
  if (before.items.length === 0) return { items: [], graceMs: 0 };
  if (verbs.has('deletecollection')) await client.deleteCollection(of, { namespace, propagationPolicy: 'Background' });
  else await Promise.all(before.items.map((item) => deleteOne(of, item, client)));
  const { items } = await client.list(of, { namespace });
  const graces = isPod ? (before.items as readonly Pod[]).map(gracePeriodMs) : [];
  return { items, graceMs: Math.max(0, ...graces) };
}

const gracePeriodMs = ({ spec, status }: Pod): number =>
  status?.phase === 'Succeeded' || status?.phase === 'Failed' ? 0 : (spec?.terminationGracePeriodSeconds ?? 0) * 1000;

async function deleteOne(of: Resource, { metadata }: KubeObject, client: Client): Promise<void> {
  const { name = '', namespace = '' } = metadata ?? {};
  await ignoreNotFound(() => client.delete(of, { namespace, name }, { propagationPolicy: 'Background' }));
}

export default Controllers.plugin({
  id: 'controller-namespace',
  declares: { loop: 'namespace' },
  config: z.strictObject({}),
  needs: { informers: Informers, client: Client },
  create: ({ informers, client }, { clock, log }) =>
    new NamespaceController(informers.forResource(namespaces), {
      pods: informers.forResource(podResource),
      kinds: DiscoveredKinds.shared({ informers, client, clock, log, random: Math.random }),
      clock,
    }),
});
