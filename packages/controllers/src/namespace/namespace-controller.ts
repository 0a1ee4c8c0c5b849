import { kinds } from '@oarlock/api/kinds';
import { namespaces, pods as podResource } from '@oarlock/api/resources';
import { resource, type Resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/time';
import type { Namespace, NamespaceCondition } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/kernel/clock';
import { Informers, type Client, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { z } from 'zod';
import { CustomKinds } from '../custom-kinds.ts';

const finalizer = 'kubernetes';
const firstLookMs = 100;
const longestLookMs = 5_000;

/** What lives in namespaces besides pods, each resource once: versions and groups of the same objects are deleted through one of them. */
const contents: readonly Resource[] = kinds
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

interface Remains {
  readonly left: ReadonlyMap<string, number>;
  readonly finalizers: ReadonlyMap<string, number>;
  readonly failures: readonly string[];
}

/** Empties a namespace that is being deleted, then lets it go. */
export class NamespaceController implements Controller {
  readonly name = 'namespace';
  readonly watches;
  readonly #namespaces: Informer<Namespace>;
  readonly #clock: Clock;
  readonly #looks = new Map<string, number>();

  readonly #custom: CustomKinds;

  constructor(all: Informer<Namespace>, pods: Informer, custom: CustomKinds, clock: Clock) {
    this.#custom = custom;
    this.#namespaces = all;
    this.#clock = clock;
    this.watches = [
      custom.watch,
      watch(all, ({ metadata }) => (metadata?.deletionTimestamp === undefined ? [] : [metadata.name ?? ''])),
      // pods take their time to end: the last one that goes wakes us
      watch(pods, ({ metadata }) =>
        this.#namespaces.get(metadata?.namespace ?? '')?.metadata?.deletionTimestamp === undefined ? [] : [metadata?.namespace ?? ''],
      ),
    ];
  }

  async reconcile(name: string, { client }: ReconcileContext): Promise<ReconcileResult | void> {
    const namespace = this.#namespaces.get(name);
    if (namespace?.metadata?.deletionTimestamp === undefined || !(namespace.spec?.finalizers ?? []).includes(finalizer)) {
      this.#looks.delete(name);
      return undefined;
    }
    const remains = await this.#empty(name, client);
    const done = remains.left.size === 0 && remains.failures.length === 0;
    const conditions = conditionsOf(namespace, remains, this.#clock.now());
    if (!done) {
      if (conditions !== namespace.status?.conditions)
        await ignoreGone(
          client.update(
            namespaces,
            { ...typed(namespace), status: { phase: 'Terminating', ...(conditions && { conditions }) } },
            { subresource: 'status' },
          ),
        );
      const look = Math.min((this.#looks.get(name) ?? firstLookMs / 2) * 2, longestLookMs);
      this.#looks.set(name, look);
      return { requeueAfterMs: look };
    }
    this.#looks.delete(name);
    await ignoreGone(
      client.update(
        namespaces,
        {
          ...typed(namespace),
          spec: { ...namespace.spec, finalizers: (namespace.spec?.finalizers ?? []).filter((each) => each !== finalizer) },
        },
        { subresource: 'finalize' },
      ),
    );
    return undefined;
  }

  async #empty(namespace: string, client: Client): Promise<Remains> {
    const left = new Map<string, number>();
    const finalizers = new Map<string, number>();
    const failures: string[] = [];
    const empty = async (each: Resource): Promise<void> => {
      const name = each.group === '' ? each.resource : `${each.resource}.${each.group}`;
      try {
        const before = await client.list(each, { namespace, limit: 1 });
        if (before.items.length === 0) return;
        await client.deleteCollection(each, { namespace, propagationPolicy: 'Background' });
        const after = await client.list(each, { namespace });
        if (after.items.length === 0) return;
        left.set(name, after.items.length);
        for (const { metadata } of after.items)
          for (const held of metadata?.finalizers ?? []) finalizers.set(held, (finalizers.get(held) ?? 0) + 1);
      } catch (error) {
        // a kind that this server does not serve holds nothing
        if (!isStatus(error, 'NotFound', 'MethodNotAllowed')) failures.push(`${name}: ${(error as Error).message}`);
      }
    };
    // what pods rely on, policies among it, goes after them (KEP-5080)
    await empty(podResource);
    if (left.size === 0 && failures.length === 0)
      await Promise.all([...contents, ...this.#custom.list().filter(({ namespaced }) => namespaced)].map(empty));
    return { left, finalizers, failures };
  }
}

const typed = (namespace: Namespace): Namespace => ({ ...namespace, apiVersion: 'v1', kind: 'Namespace' });

async function ignoreGone(write: Promise<unknown>): Promise<void> {
  try {
    await write;
  } catch (error) {
    if (!isStatus(error, 'NotFound')) throw error;
  }
}

const count = (map: ReadonlyMap<string, number>, words: (key: string, n: number) => string) =>
  [...map]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, n]) => words(key, n))
    .join(', ');

/** The five conditions by which upstream tells what holds a namespace; the present list itself when nothing changed. */
function conditionsOf(
  { status }: Namespace,
  { left, finalizers, failures }: Remains,
  nowMs: number,
): readonly NamespaceCondition[] | undefined {
  const wanted: readonly { type: string; bad: boolean; badReason: string; goodReason: string; badMessage: string; goodMessage: string }[] =
    [
      {
        type: 'NamespaceDeletionDiscoveryFailure',
        bad: false,
        badReason: 'DiscoveryFailed',
        goodReason: 'ResourcesDiscovered',
        badMessage: '',
        goodMessage: 'All resources successfully discovered',
      },
      {
        type: 'NamespaceDeletionGroupVersionParsingFailure',
        bad: false,
        badReason: 'GroupVersionParsingFailed',
        goodReason: 'ParsedGroupVersions',
        badMessage: '',
        goodMessage: 'All legacy kube types successfully parsed',
      },
      {
        type: 'NamespaceDeletionContentFailure',
        bad: failures.length > 0,
        badReason: 'ContentDeletionFailed',
        goodReason: 'ContentDeleted',
        badMessage: `Failed to delete all resource types, ${failures.length} remaining: ${failures.join(', ')}`,
        goodMessage: 'All content successfully deleted, may be waiting on finalization',
      },
      {
        type: 'NamespaceContentRemaining',
        bad: left.size > 0,
        badReason: 'SomeResourcesRemain',
        goodReason: 'ContentRemoved',
        badMessage: `Some resources are remaining: ${count(left, (key, n) => `${key} has ${n} resource instances`)}`,
        goodMessage: 'All content successfully removed',
      },
      {
        type: 'NamespaceFinalizersRemaining',
        bad: finalizers.size > 0,
        badReason: 'SomeFinalizersRemain',
        goodReason: 'ContentHasNoFinalizers',
        badMessage: `Some content in the namespace has finalizers remaining: ${count(finalizers, (key, n) => `${key} in ${n} resource instances`)}`,
        goodMessage: 'All content-preserving finalizers finished',
      },
    ];
  let changed = false;
  const conditions = wanted.map(({ type, bad, badReason, goodReason, badMessage, goodMessage }): NamespaceCondition => {
    const old = status?.conditions?.find((condition) => condition.type === type);
    const next = { type, status: bad ? 'True' : 'False', reason: bad ? badReason : goodReason, message: bad ? badMessage : goodMessage };
    if (old !== undefined && old.status === next.status && old.reason === next.reason && old.message === next.message) return old;
    changed = true;
    return {
      ...next,
      lastTransitionTime: old?.status === next.status && old.lastTransitionTime ? old.lastTransitionTime : formatTime(nowMs),
    };
  });
  return changed ? conditions : status?.conditions;
}

export default Controllers.plugin({
  id: 'controller-namespace',
  config: z.strictObject({}),
  needs: { informers: Informers },
  create: ({ informers }, { clock }) =>
    new NamespaceController(informers.of(namespaces), informers.of(podResource), new CustomKinds(informers), clock),
});
