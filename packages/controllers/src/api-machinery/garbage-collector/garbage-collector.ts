import { kindOf, kinds, parseApiVersion } from '@oarlock/api/kinds';
import type { KubeObject, OwnerReference } from '@oarlock/api/object';
import { groupResource, resource, type Resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import { Client, Events, Informers, type EventRecorder, type Informer } from '@oarlock/spi/client';
import {
  Controllers,
  watch,
  type Controller,
  type ReconcileContext,
  type ReconcileResult,
  type ControllerWatch,
} from '@oarlock/spi/controller';
import { z } from 'zod';
import type { DiscoveredKind } from '../../discovery/discovered-kind.ts';
import { DiscoveredKinds } from '../../discovery/discovered-kinds.ts';
import { foregroundFinalizer, isReferenceTo, orphanFinalizer, referenceKey, DependencyGraph, type GraphNode } from './dependency-graph.ts';
import { deleteObject, removeOwnerReferences, removeFinalizer, unblockOwnerReferences } from './owner-reference-patches.ts';

const isCollected = ({ verbs }: DiscoveredKind): boolean => requiredVerbs.every((verb) => verbs.has(verb));
const maxAbsentOwners = 5_000;
const workers = 20; // as upstream's --concurrent-gc-syncs
/** The delay until an object with an owner of an unknown kind is reconciled again. */
const unknownKindRetryMs = 30_000;

/** Verbs that a resource must support to be garbage collected. */
const requiredVerbs = ['delete', 'list', 'watch'] as const;

/** Resources whose objects are collected. Events are excluded: they are numerous and have neither owners nor dependents. */
const collectedResources: readonly Resource[] = kinds
  .filter(
    (kind) =>
      kind.servedByDefault && kind.preferred && requiredVerbs.every((verb) => kind.verbs.includes(verb)) && kind.resource !== 'events',
  )
  .map((kind) => resource(kind.group, kind.version, kind.resource, kind.kind, kind.namespaced));

/**
 * The state of an owner. The collector does not change the dependents of an owner whose kind is unknown, because the API server may serve the kind later, nor
 * a cluster-scoped dependent with a namespaced owner (`invalid-scope`).
 */
type OwnerState = 'solid' | 'waiting' | 'absent' | 'unknown-kind' | 'invalid-scope';

/** Deletes objects whose owners are all gone, and processes foreground deletion and orphaning. */
export class GarbageCollector implements Controller {
  readonly name = 'garbage-collector';
  readonly concurrentReconciles = workers;
  readonly toleratesMissingKinds = true;
  readonly watches: readonly ControllerWatch[];
  readonly #graph = new DependencyGraph();
  readonly #recorder: EventRecorder;
  /** Uids of deleted owners, and keys of references to owners that do not exist: one request for the dependents of an owner. The oldest are evicted. */
  readonly #absentOwners = new Set<string>();

  readonly #informers: Informers;
  readonly #kinds: DiscoveredKinds;
  /** Uids of objects with an owner of an unknown kind. The collector reconciles these objects again when it discovers new kinds, and after a delay. */
  readonly #unresolvedDependents = new Set<string>();

  constructor(informers: Informers, kinds: DiscoveredKinds, recorder: EventRecorder) {
    this.#informers = informers;
    this.#recorder = recorder;
    this.#kinds = kinds;
    const builtinInformers = collectedResources.map((each) => informers.forResource(each));
    this.watches = [
      ...builtinInformers.map((informer) => this.#watchInformer(informer)),
      ...kinds.watches(() => this.#takeUnresolvedDependents()),
    ];
    for (const informer of builtinInformers) this.#updateGraph(informer);
  }

  /** Starts a monitor for each kind that is discovered while the collector runs. */
  addDynamicWatches(add: (watch: ControllerWatch) => () => void): () => void {
    const stopMonitors = new Map<string, () => void>();
    return this.#kinds.on({
      added: (kind) => {
        // adding a watch delivers its known objects, which enqueues the unresolved dependents
        if (this.#unresolvedDependents.size > 0)
          for (const each of this.#kinds.watches(() => this.#takeUnresolvedDependents())) add(each)();
        if (isCollected(kind)) stopMonitors.set(groupResource(kind.resource), this.#startMonitor(kind.resource, add));
      },
      removed: ({ resource }) => {
        const name = groupResource(resource);
        stopMonitors.get(name)?.();
        stopMonitors.delete(name);
      },
    });
  }

  #startMonitor(resource: Resource, add: (watch: ControllerWatch) => () => void): () => void {
    const informer = this.#informers.forResource(resource);
    const removeGraphHandler = this.#updateGraph(informer);
    const removeWatch = add(this.#watchInformer(informer));
    return () => {
      removeWatch();
      removeGraphHandler();
    };
  }

  #takeUnresolvedDependents(): readonly string[] {
    const uids = [...this.#unresolvedDependents];
    this.#unresolvedDependents.clear();
    return uids;
  }

  /**
   * Updates the graph from informer events. Event handlers run in the order of registration, so the graph is current when a watch computes
   * its keys.
   */
  #updateGraph(informer: Informer): () => void {
    const put = (object: KubeObject) => {
      this.#graph.put(informer.resource, object);
    };
    return informer.addEventHandler({
      onAdd: put,
      onUpdate: put,
      onDelete: ({ metadata }) => {
        this.#graph.remove(metadata?.uid ?? '');
        this.#unresolvedDependents.delete(metadata?.uid ?? '');
        this.#recordAbsentOwner(metadata?.uid ?? '');
      },
    });
  }

  #watchInformer(informer: Informer): ControllerWatch {
    return watch(informer, (object, old) => this.#affectedUids(object, old));
  }

  async reconcile(uid: string, { client }: ReconcileContext): Promise<ReconcileResult | void> {
    const node = this.#graph.get(uid);
    this.#unresolvedDependents.delete(uid);
    if (node === undefined) return;
    if (node.isOrphaningDependents) return this.#orphanDependents(node, client);
    if (node.isDeletingDependents) return this.#processDeletingDependents(node, client);
    if (node.isDeleting || node.owners.length === 0) return undefined;
    await this.#attemptToDelete(node, client);
    return this.#unresolvedDependents.has(uid) ? { requeueAfterMs: unknownKindRetryMs } : undefined;
  }

  /** Returns the uids of objects that may have to be deleted or updated after this change. */
  *#affectedUids(object: KubeObject, old: KubeObject | undefined): Iterable<string> {
    const uid = object.metadata?.uid ?? '';
    const node = this.#graph.get(uid);
    if (node === undefined) {
      for (const dependent of this.#graph.dependentsOf(uid)) yield dependent.uid;
      for (const owner of object.metadata?.ownerReferences ?? []) if (this.#graph.get(owner.uid)?.isDeletingDependents) yield owner.uid;
      return;
    }
    if (node.isOrphaningDependents || node.isDeletingDependents) yield uid;
    if (
      !node.isDeleting &&
      node.owners.some((owner) => this.#knownOwnerState(node, owner) !== 'solid' || this.#isInOtherNamespace(node, owner.uid))
    )
      yield uid;
    // a dependent that no longer blocks its owner lets the deletion of the owner continue
    for (const owner of old?.metadata?.ownerReferences ?? []) if (this.#graph.get(owner.uid)?.isDeletingDependents) yield owner.uid;
    if (node.isDeletingDependents) for (const dependent of node.dependents) yield dependent.uid;
  }

  #recordAbsentOwner(key: string): void {
    if (this.#absentOwners.size >= maxAbsentOwners)
      for (const oldest of this.#absentOwners) {
        this.#absentOwners.delete(oldest);
        break;
      }
    this.#absentOwners.add(key);
  }

  /**
   * Returns `unknown` if the graph has no object with the uid of the owner reference, or one of another kind or name. The controller then reads the owner by
   * kind and name from the API server, as upstream does.
   */
  #knownOwnerState(node: GraphNode, reference: OwnerReference): OwnerState | 'unknown' {
    if (this.#absentOwners.has(reference.uid) || this.#absentOwners.has(referenceKey(node, reference))) return 'absent';
    const owner = this.#graph.get(reference.uid);
    if (owner === undefined || !isReferenceTo(owner, reference)) return 'unknown';
    return owner.isDeletingDependents ? 'waiting' : 'solid';
  }

  async #attemptToDelete(node: GraphNode, client: Client): Promise<void> {
    const states = new Map<string, OwnerState>();
    for (const owner of node.owners) states.set(owner.uid, await this.#ownerState(node, owner, client));
    const count = (each: OwnerState) => [...states.values()].filter((state) => state === each).length;
    if (count('unknown-kind') + count('invalid-scope') > 0) return;
    if (count('solid') > 0) {
      const danglingOrWaiting = node.owners.filter(({ uid }) => states.get(uid) !== 'solid');
      if (danglingOrWaiting.length > 0)
        await removeOwnerReferences(
          node,
          danglingOrWaiting.map(({ uid }) => uid),
          client,
        );
      return;
    }
    if (count('waiting') > 0 && node.dependents.size > 0) {
      // a dependent waits for this object in turn: unblock the cycle, which would never resolve
      if ([...node.dependents].some((dependent) => dependent.isDeletingDependents)) await unblockOwnerReferences(node, client);
      await deleteObject(node, 'Foreground', client);
      return;
    }
    await deleteObject(node, undefined, client);
  }

  /** Returns the state of an owner. Reads the owner from the API server if no informer has delivered the owner. */
  async #ownerState(node: GraphNode, owner: OwnerReference, client: Client): Promise<OwnerState> {
    const known = this.#knownOwnerState(node, owner);
    if (this.#isInOtherNamespace(node, owner.uid)) {
      this.#reportInvalidNamespace(node, owner);
      return node.resource.namespaced ? 'absent' : 'invalid-scope';
    }
    if (known !== 'unknown') return known;
    const kind = this.#resourceOf(owner) ?? (await this.#kinds.whenRead().then(() => this.#resourceOf(owner)));
    if (kind === undefined) return this.#unresolved(node);
    if (kind.namespaced && !node.resource.namespaced) return 'invalid-scope';
    try {
      const live = await client.get(kind, {
        name: owner.name,
        ...(kind.namespaced && { namespace: node.namespace }),
      });
      if (live.metadata?.uid === owner.uid)
        return live.metadata.deletionTimestamp !== undefined && live.metadata.finalizers?.includes(foregroundFinalizer)
          ? 'waiting'
          : 'solid';
    } catch (error) {
      if (!isStatus(error, 'NotFound')) throw error;
      // A server that does not serve the kind names no object. Another server of the cluster may serve it: a newer one, or one with another runtimeConfig.
      if (error.status.details?.name !== owner.name) return this.#unresolved(node);
    }
    // an object with this uid may exist: only the kind or the name in this reference is wrong
    if (this.#graph.get(owner.uid) === undefined) this.#recordAbsentOwner(referenceKey(node, owner));
    return 'absent';
  }

  #unresolved({ uid }: GraphNode): OwnerState {
    this.#unresolvedDependents.add(uid);
    return 'unknown-kind';
  }

  /**
   * Returns true if the owner is in another namespace. Such owner references are invalid: a namespaced owner must share the namespace of its
   * dependent.
   */
  #isInOtherNamespace(node: GraphNode, owner: string): boolean {
    const found = this.#graph.get(owner);
    return found !== undefined && found.resource.namespaced && found.namespace !== node.namespace;
  }

  #resourceOf({ apiVersion, kind: name }: OwnerReference): Resource | undefined {
    const { group, version } = parseApiVersion(apiVersion);
    const kind = kindOf({ group, version, kind: name });
    if (kind === undefined) return this.#kinds.find(group, name);
    return resource(kind.group, kind.version, kind.resource, kind.kind, kind.namespaced);
  }

  #reportInvalidNamespace(node: GraphNode, owner: OwnerReference): void {
    this.#recorder.event(
      this.#reference(node),
      'Warning',
      'OwnerRefInvalidNamespace',
      `ownerRef [${owner.apiVersion}/${owner.kind}, namespace: ${node.namespace}, name: ${owner.name}, uid: ${owner.uid}] does not exist in namespace "${node.namespace}"`,
    );
  }

  #reference({ resource: r, namespace, name, uid }: GraphNode): KubeObject {
    return {
      apiVersion: r.group === '' ? r.version : `${r.group}/${r.version}`,
      kind: r.kind,
      metadata: { name, uid, ...(namespace !== '' && { namespace }) },
    };
  }

  /** Deletes the dependents that block a foreground deletion; those of other namespaces do not. Removes the object's finalizer when none is left. */
  async #processDeletingDependents(node: GraphNode, client: Client): Promise<void> {
    const blocking = [...node.dependents].filter(
      (dependent) =>
        !this.#isInOtherNamespace(dependent, node.uid) &&
        dependent.owners.some(({ uid, blockOwnerDeletion }) => uid === node.uid && blockOwnerDeletion === true),
    );
    if (blocking.length === 0) await removeFinalizer(node, foregroundFinalizer, client);
    else for (const dependent of blocking) if (!dependent.isDeleting) await this.#attemptToDelete(dependent, client);
  }

  async #orphanDependents(node: GraphNode, client: Client): Promise<void> {
    await Promise.all([...node.dependents].map((dependent) => removeOwnerReferences(dependent, [node.uid], client)));
    await removeFinalizer(node, orphanFinalizer, client);
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
      DiscoveredKinds.shared({ informers, client, clock, log, random: Math.random }),
      events.recorder('garbage-collector-controller'),
    ),
});
