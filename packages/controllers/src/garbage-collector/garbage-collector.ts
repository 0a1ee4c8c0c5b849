import { kindOf, kinds, parseApiVersion } from '@oarlock/api/kinds';
import type { KubeObject, OwnerReference } from '@oarlock/api/object';
import { resource, type Resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import { Events, Informers, type Client, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type Watch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { CustomKinds } from '../custom-kinds.ts';
import { foreground, orphan, OwnerGraph, type GraphNode } from './owner-graph.ts';
import { unlessGone } from '../unless-gone.ts';

const maxAbsent = 5_000;
const workers = 20; // as upstream's --concurrent-gc-syncs

/** Events are many, own nothing and are owned by nothing. */
const collected: readonly Resource[] = kinds
  .filter(
    (kind) =>
      kind.servedByDefault &&
      kind.preferred &&
      ['delete', 'list', 'watch'].every((verb) => kind.verbs.includes(verb)) &&
      kind.resource !== 'events',
  )
  .map((kind) => resource(kind.group, kind.version, kind.resource, kind.kind, kind.namespaced));

type OwnerState = 'solid' | 'waiting' | 'absent';

/** Deletes what has lost its last owner, and carries out foreground deletion and orphaning. */
export class GarbageCollector implements Controller {
  readonly name = 'garbage-collector';
  readonly workers = workers;
  readonly partial = true;
  readonly watches: readonly Watch[];
  readonly #graph = new OwnerGraph();
  readonly #recorder: EventRecorder;
  /** Owners known to be gone, so that many dependents ask once. Uids never come back; the oldest are forgotten. */
  readonly #absent = new Set<string>();

  readonly #informers: Informers;
  readonly #custom: CustomKinds;

  constructor(informers: Informers, recorder: EventRecorder) {
    this.#informers = informers;
    this.#recorder = recorder;
    this.#custom = new CustomKinds(informers);
    const own = collected.map((each) => informers.of(each));
    this.watches = [...own.map((informer) => this.#watched(informer)), this.#custom.watch];
    for (const informer of own) this.#feed(informer);
  }

  /** Kinds that are defined while the collector runs are collected, too. */
  follow(add: (watch: Watch) => () => void): () => void {
    const ends = new Map<string, () => void>();
    const off = this.#custom.on({
      added: (resource) => {
        const informer = this.#informers.of(resource);
        const unfeed = this.#feed(informer);
        const unwatch = add(this.#watched(informer));
        ends.set(nameOfResource(resource), () => {
          unwatch();
          unfeed();
          this.#informers.release?.(resource);
        });
      },
      removed: (resource) => {
        const name = nameOfResource(resource);
        ends.get(name)?.();
        ends.delete(name);
      },
    });
    return () => {
      off();
    };
  }

  /** Keeps the graph up to date. Handlers run in order: when a watch asks, it is. */
  #feed(informer: Informer): () => void {
    const put = (object: KubeObject) => {
      this.#graph.put(informer.resource, object);
    };
    return informer.on({
      added: put,
      updated: put,
      deleted: ({ metadata }) => {
        this.#graph.remove(metadata?.uid ?? '');
        this.#noteAbsent(metadata?.uid ?? '');
      },
    });
  }

  #watched(informer: Informer): Watch {
    return watch(informer, (object, old) => this.#toLookAt(object, old));
  }

  async reconcile(uid: string, { client }: ReconcileContext): Promise<void> {
    const node = this.#graph.get(uid);
    if (node === undefined) return;
    if (node.orphaning) return this.#orphanDependents(node, client);
    if (node.foreground) return this.#awaitDependents(node, client);
    if (!node.deleting && node.owners.length > 0) return this.#judge(node, client);
    return undefined;
  }

  /** Uids whose fate may have changed. */
  *#toLookAt(object: KubeObject, old: KubeObject | undefined): Iterable<string> {
    const uid = object.metadata?.uid ?? '';
    const node = this.#graph.get(uid);
    if (node === undefined) {
      for (const dependent of this.#graph.dependentsOf(uid)) yield dependent.uid;
      for (const owner of object.metadata?.ownerReferences ?? []) if (this.#graph.get(owner.uid)?.foreground) yield owner.uid;
      return;
    }
    if (node.orphaning || node.foreground) yield uid;
    if (!node.deleting && node.owners.some(({ uid: owner }) => this.#stateOf(owner) !== 'solid' || this.#isForeign(node, owner))) yield uid;
    // a dependent that no longer blocks lets its owner go on
    for (const owner of old?.metadata?.ownerReferences ?? []) if (this.#graph.get(owner.uid)?.foreground) yield owner.uid;
    if (node.foreground) for (const dependent of node.dependents) yield dependent.uid;
  }

  #noteAbsent(uid: string): void {
    if (this.#absent.size >= maxAbsent)
      for (const oldest of this.#absent) {
        this.#absent.delete(oldest);
        break;
      }
    this.#absent.add(uid);
  }

  #stateOf(uid: string): OwnerState | 'unknown' {
    if (this.#absent.has(uid)) return 'absent';
    const owner = this.#graph.get(uid);
    return owner === undefined ? 'unknown' : owner.foreground ? 'waiting' : 'solid';
  }

  async #judge(node: GraphNode, client: Client): Promise<void> {
    const states = new Map<string, OwnerState>();
    for (const owner of node.owners) states.set(owner.uid, await this.#find(node, owner, client));
    const count = (wanted: OwnerState) => [...states.values()].filter((state) => state === wanted).length;
    if (count('solid') > 0) {
      const lost = node.owners.filter(({ uid }) => states.get(uid) !== 'solid');
      if (lost.length > 0)
        await this.#dropOwners(
          node,
          lost.map(({ uid }) => uid),
          client,
        );
      return;
    }
    if (count('waiting') > 0 && node.dependents.size > 0) {
      // one of its dependents waits for it in turn: a circle that nobody would ever open
      if ([...node.dependents].some((dependent) => dependent.foreground)) await this.#unblock(node, client);
      await this.#delete(node, 'Foreground', client);
      return;
    }
    await this.#delete(node, undefined, client);
  }

  /** The server has the last word on an owner that no informer has shown. */
  async #find(node: GraphNode, owner: OwnerReference, client: Client): Promise<OwnerState> {
    const known = this.#stateOf(owner.uid);
    if (this.#isForeign(node, owner.uid)) return this.#wrongNamespace(node, owner);
    if (known !== 'unknown') return known;
    const kind = this.#resourceOf(owner);
    if (kind === undefined) return 'solid'; // a kind nobody here knows: better keep than delete
    if (kind.namespaced && !node.resource.namespaced) return this.#wrongNamespace(node, owner);
    try {
      const live = await client.get(kind, {
        name: owner.name,
        ...(kind.namespaced && { namespace: node.namespace }),
      });
      if (live.metadata?.uid === owner.uid)
        return live.metadata.deletionTimestamp !== undefined && live.metadata.finalizers?.includes(foreground) ? 'waiting' : 'solid';
    } catch (error) {
      if (!isStatus(error, 'NotFound')) throw error;
    }
    this.#noteAbsent(owner.uid);
    return 'absent';
  }

  /** An owner in another namespace is none: names are only unique within one. */
  #isForeign(node: GraphNode, owner: string): boolean {
    const found = this.#graph.get(owner);
    return found !== undefined && found.resource.namespaced && found.namespace !== node.namespace;
  }

  #resourceOf({ apiVersion, kind: name }: OwnerReference): Resource | undefined {
    const { group, version } = parseApiVersion(apiVersion);
    const kind = kindOf({ group, version, kind: name });
    if (kind === undefined) return this.#custom.find(group, name);
    return resource(kind.group, kind.version, kind.resource, kind.kind, kind.namespaced);
  }

  #wrongNamespace(node: GraphNode, owner: OwnerReference): OwnerState {
    this.#recorder.event(
      this.#reference(node),
      'Warning',
      'OwnerRefInvalidNamespace',
      `ownerRef [${owner.apiVersion}/${owner.kind}, namespace: ${node.namespace}, name: ${owner.name}, uid: ${owner.uid}] does not exist in namespace "${node.namespace}"`,
    );
    return node.resource.namespaced ? 'absent' : 'solid';
  }

  #reference({ resource: r, namespace, name, uid }: GraphNode): KubeObject {
    return {
      apiVersion: r.group === '' ? r.version : `${r.group}/${r.version}`,
      kind: r.kind,
      metadata: { name, uid, ...(namespace !== '' && { namespace }) },
    };
  }

  /** Gone when nothing that blocks is left. */
  async #awaitDependents(node: GraphNode, client: Client): Promise<void> {
    const blocking = [...node.dependents].filter((dependent) =>
      dependent.owners.some(({ uid, blockOwnerDeletion }) => uid === node.uid && blockOwnerDeletion === true),
    );
    if (blocking.length === 0) await this.#removeFinalizer(node, foreground, client);
    else for (const dependent of blocking) if (!dependent.deleting) await this.#judge(dependent, client);
  }

  async #orphanDependents(node: GraphNode, client: Client): Promise<void> {
    await Promise.all([...node.dependents].map((dependent) => this.#dropOwners(dependent, [node.uid], client)));
    await this.#removeFinalizer(node, orphan, client);
  }

  async #dropOwners(node: GraphNode, uids: readonly string[], client: Client): Promise<void> {
    await unlessGone(async () => {
      const live = await client.get(node.resource, nameOf(node));
      if (live.metadata?.uid !== node.uid) return;
      const left = (live.metadata.ownerReferences ?? []).filter(({ uid }) => !uids.includes(uid));
      if (left.length !== (live.metadata.ownerReferences ?? []).length) {
        await client.patch(node.resource, nameOf(node), 'merge', {
          metadata: { uid: node.uid, resourceVersion: live.metadata.resourceVersion, ownerReferences: left.length > 0 ? left : null },
        });
      }
    });
  }

  async #removeFinalizer(node: GraphNode, finalizer: string, client: Client): Promise<void> {
    await unlessGone(async () => {
      const live = await client.get(node.resource, nameOf(node));
      if (live.metadata?.uid !== node.uid || !live.metadata.finalizers?.includes(finalizer)) return;
      await client.patch(node.resource, nameOf(node), 'merge', {
        metadata: {
          uid: node.uid,
          resourceVersion: live.metadata.resourceVersion,
          finalizers: live.metadata.finalizers.filter((each) => each !== finalizer),
        },
      });
    });
  }

  async #unblock(node: GraphNode, client: Client): Promise<void> {
    await unlessGone(async () => {
      const live = await client.get(node.resource, nameOf(node));
      const owners = live.metadata?.ownerReferences ?? [];
      if (live.metadata?.uid !== node.uid || !owners.some(({ blockOwnerDeletion }) => blockOwnerDeletion === true)) return;
      await client.patch(node.resource, nameOf(node), 'merge', {
        metadata: {
          uid: node.uid,
          resourceVersion: live.metadata.resourceVersion,
          ownerReferences: owners.map((owner) => ({ ...owner, blockOwnerDeletion: false })),
        },
      });
    });
  }

  /** What is deleted is looked at once more: somebody may have taken it over since. How it goes it may have said itself. */
  async #delete(node: GraphNode, policy: 'Foreground' | undefined, client: Client): Promise<void> {
    await unlessGone(async () => {
      const { metadata } = await client.get(node.resource, nameOf(node));
      if (metadata?.uid !== node.uid) return;
      const text = (owners: readonly OwnerReference[] = []) => owners.map(({ uid }) => uid).join(' ');
      if (text(metadata.ownerReferences) !== text(node.owners)) return;
      const { finalizers = [] } = metadata;
      const own = finalizers.includes(orphan) ? 'Orphan' : finalizers.includes(foreground) ? 'Foreground' : 'Background';
      try {
        await client.delete(node.resource, nameOf(node), {
          preconditions: { uid: node.uid, resourceVersion: metadata.resourceVersion ?? '' },
          propagationPolicy: policy ?? own,
        });
      } catch (error) {
        if (!isStatus(error, 'Conflict')) throw error;
        // its owner, which waits for it, may have deleted it meanwhile
        const again = await client.get(node.resource, nameOf(node));
        if (again.metadata?.uid === node.uid && again.metadata.deletionTimestamp === undefined) throw error;
      }
    });
  }
}

const nameOfResource = ({ group, version, resource: name }: Resource) => `${group}/${version}/${name}`;
const nameOf = ({ name, namespace }: GraphNode) => ({ name, ...(namespace !== '' && { namespace }) });

export default Controllers.plugin({
  id: 'controller-garbage-collector',
  config: z.strictObject({}),
  needs: { informers: Informers, events: Events },
  create: ({ informers, events }) => new GarbageCollector(informers, events.recorder('garbage-collector-controller')),
});
