import { kinds } from '@oarlock/api/kinds';
import { namespaces, pods as podResource } from '@oarlock/api/resources';
import { groupResource, resource, type Resource } from '@oarlock/api/resource';
import type { KubeObject } from '@oarlock/api/object';
import { isStatus } from '@oarlock/api/status';
import type { Namespace } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/kernel/clock';
import { Client, Informers, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { z } from 'zod';
import { DiscoveredKinds, type DiscoveredKind } from '../discovered-kinds.ts';
import { conditionsOf, type Remains } from './deletion-conditions.ts';

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

type Content = Pick<DiscoveredKind, 'resource' | 'verbs'>;
const all: ReadonlySet<string> = new Set(['deletecollection']);

/** Empties a namespace that is being deleted, then lets it go. */
export class NamespaceController implements Controller {
  readonly name = 'namespace';
  readonly watches;
  readonly #namespaces: Informer<Namespace>;
  readonly #clock: Clock;
  readonly #looks = new Map<string, number>();

  readonly #kinds: DiscoveredKinds;

  constructor(all: Informer<Namespace>, pods: Informer, kinds: DiscoveredKinds, clock: Clock) {
    this.#kinds = kinds;
    this.#namespaces = all;
    this.#clock = clock;
    this.watches = [
      // those that wait may have waited for a group to answer
      ...kinds.watches(() => this.#looks.keys()),
      watch(all, ({ metadata }) => (metadata?.deletionTimestamp === undefined ? [] : [metadata.name ?? ''])),
      // pods take their time to end: the last one that goes wakes us
      watch(pods, ({ metadata }) =>
        this.#namespaces.get(metadata?.namespace ?? '')?.metadata?.deletionTimestamp === undefined ? [] : [metadata?.namespace ?? ''],
      ),
    ];
  }

  follow(): () => void {
    return this.#kinds.on();
  }

  async reconcile(name: string, { client }: ReconcileContext): Promise<ReconcileResult | void> {
    const namespace = this.#namespaces.get(name);
    if (namespace?.metadata?.deletionTimestamp === undefined || !(namespace.spec?.finalizers ?? []).includes(finalizer)) {
      this.#looks.delete(name);
      return undefined;
    }
    const remains = await this.#empty(name, client);
    const done = remains.left.size === 0 && remains.failures.length === 0 && remains.undiscovered.length === 0;
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
    await this.#kinds.settled();
    const discovered = this.#kinds.list().filter((each) => each.resource.namespaced && each.verbs.has('delete') && each.verbs.has('list'));
    const empty = async ({ resource: each, verbs }: Content): Promise<void> => {
      const name = groupResource(each);
      try {
        const before = await client.list(each, { namespace, ...(verbs.has('deletecollection') && { limit: 1 }) });
        if (before.items.length === 0) return;
        if (verbs.has('deletecollection')) await client.deleteCollection(each, { namespace, propagationPolicy: 'Background' });
        else await Promise.all(before.items.map((item) => deleteOne(each, item, client)));
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
    await empty({ resource: podResource, verbs: all });
    if (left.size === 0 && failures.length === 0)
      await Promise.all([...contents.map((each) => ({ resource: each, verbs: all })), ...discovered].map(empty));
    return { left, finalizers, failures, undiscovered: this.#kinds.failing };
  }
}

async function deleteOne(of: Resource, { metadata }: KubeObject, client: Client): Promise<void> {
  const { name = '', namespace = '' } = metadata ?? {};
  await ignoreGone(client.delete(of, { namespace, name }, { propagationPolicy: 'Background' }));
}

const typed = (namespace: Namespace): Namespace => ({ ...namespace, apiVersion: 'v1', kind: 'Namespace' });

async function ignoreGone(write: Promise<unknown>): Promise<void> {
  try {
    await write;
  } catch (error) {
    if (!isStatus(error, 'NotFound')) throw error;
  }
}

export default Controllers.plugin({
  id: 'controller-namespace',
  declares: { loop: 'namespace' },
  config: z.strictObject({}),
  needs: { informers: Informers, client: Client },
  create: ({ informers, client }, { clock, log }) =>
    new NamespaceController(
      informers.of(namespaces),
      informers.of(podResource),
      DiscoveredKinds.of({ informers, client, clock, log, random: Math.random }),
      clock,
    ),
});
