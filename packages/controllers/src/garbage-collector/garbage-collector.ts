import { kindOf, kinds, parseApiVersion } from '@oarlock/api/kinds';
import type { KubeObject, OwnerReference } from '@oarlock/api/object';
import { groupResource, resource, type Resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import { Client, Events, Informers, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type Watch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { DiscoveredKinds, type DiscoveredKind } from '../discovered-kinds.ts';
import { foreground, orphan, OwnerGraph, type GraphNode } from './owner-graph.ts';
import { deleteNode, dropOwners, removeFinalizer, unblock } from './node-writes.ts';

const isCollected = ({ verbs }: DiscoveredKind): boolean => needed.every((verb) => verbs.has(verb));
const maxAbsent = 5_000;
const workers = 20; // as upstream's --concurrent-gc-syncs

/** What has to be possible with a kind that is collected. */
const needed = ['delete', 'list', 'watch'] as const;

/** Events are many, own nothing and are owned by nothing. */
const collected: readonly Resource[] = kinds
  .filter(
    (kind) => kind.servedByDefault && kind.preferred && needed.every((verb) => kind.verbs.includes(verb)) && kind.resource !== 'events',
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
  readonly #kinds: DiscoveredKinds;
  /** Objects with an owner of a kind that nobody knows: they are looked at again when there are other kinds. */
  readonly #puzzling = new Set<string>();

  constructor(informers: Informers, kinds: DiscoveredKinds, recorder: EventRecorder) {
    this.#informers = informers;
    this.#recorder = recorder;
    this.#kinds = kinds;
    const own = collected.map((each) => informers.of(each));
    this.watches = [...own.map((informer) => this.#watched(informer)), ...kinds.watches(() => this.#takePuzzling())];
    for (const informer of own) this.#feed(informer);
  }

  /** Kinds that come while the collector runs are collected, too. */
  follow(add: (watch: Watch) => () => void): () => void {
    const ends = new Map<string, () => void>();
    return this.#kinds.on({
      added: (kind) => {
        // a watch that is taken up tells of what is known already
        if (this.#puzzling.size > 0) for (const each of this.#kinds.watches(() => this.#takePuzzling())) add(each)();
        if (isCollected(kind)) ends.set(groupResource(kind.resource), this.#collect(kind.resource, add));
      },
      removed: ({ resource }) => {
        const name = groupResource(resource);
        ends.get(name)?.();
        ends.delete(name);
      },
    });
  }

  #collect(resource: Resource, add: (watch: Watch) => () => void): () => void {
    const informer = this.#informers.of(resource);
    const unfeed = this.#feed(informer);
    const unwatch = add(this.#watched(informer));
    return () => {
      unwatch();
      unfeed();
    };
  }

  #takePuzzling(): readonly string[] {
    const uids = [...this.#puzzling];
    this.#puzzling.clear();
    return uids;
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
        this.#puzzling.delete(metadata?.uid ?? '');
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
        await dropOwners(
          node,
          lost.map(({ uid }) => uid),
          client,
        );
      return;
    }
    if (count('waiting') > 0 && node.dependents.size > 0) {
      // one of its dependents waits for it in turn: a circle that nobody would ever open
      if ([...node.dependents].some((dependent) => dependent.foreground)) await unblock(node, client);
      await deleteNode(node, 'Foreground', client);
      return;
    }
    await deleteNode(node, undefined, client);
  }

  /** The server has the last word on an owner that no informer has shown. */
  async #find(node: GraphNode, owner: OwnerReference, client: Client): Promise<OwnerState> {
    const known = this.#stateOf(owner.uid);
    if (this.#isForeign(node, owner.uid)) return this.#wrongNamespace(node, owner);
    if (known !== 'unknown') return known;
    const kind = this.#resourceOf(owner) ?? (await this.#kinds.settled().then(() => this.#resourceOf(owner)));
    if (kind === undefined) {
      this.#puzzling.add(node.uid);
      return 'solid'; // better keep than delete
    }
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
    if (kind === undefined) return this.#kinds.find(group, name);
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
    if (blocking.length === 0) await removeFinalizer(node, foreground, client);
    else for (const dependent of blocking) if (!dependent.deleting) await this.#judge(dependent, client);
  }

  async #orphanDependents(node: GraphNode, client: Client): Promise<void> {
    await Promise.all([...node.dependents].map((dependent) => dropOwners(dependent, [node.uid], client)));
    await removeFinalizer(node, orphan, client);
  }
}

export default Controllers.plugin({
  id: 'controller-garbage-collector',
  declares: { loop: 'garbage-collector' },
  config: z.strictObject({}),
  needs: { informers: Informers, events: Events, client: Client },
  create: ({ informers, events, client }, { clock, log }) =>
    new GarbageCollector(
      informers,
      DiscoveredKinds.of({ informers, client, clock, log, random: Math.random }),
      events.recorder('garbage-collector-controller'),
    ),
});
