import { jsonEqual } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';
import { customResourceDefinitions } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { CustomResourceDefinition } from '@oarlock/api/types/apiextensions-v1';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { ApiRequest } from '@oarlock/spi/loopback';
import { apiserverIdentity } from '../../controllers/loopback-client.ts';
import type { PipelineResponse } from '../../endpoints/request/response.ts';
import type { ServedKind } from '../../registry/served-kind.ts';
import { cleanupFinalizer } from './strategy.ts';
import type { Item } from '../../watch-cache/item.ts';
import type { WatchCacheEvent } from '../../watch-cache/watch-cache-event.ts';
import type { ResourceCache } from '../../watch-cache/resource-cache.ts';
import { conditionOf, isTrue, withCondition } from './conditions.ts';
import { namingStatus } from './naming.ts';

type Condition = Parameters<typeof withCondition>[1];

export interface DefinitionControllerOptions {
  handle(request: ApiRequest): Promise<PipelineResponse>;
  /** Returns the cache of CustomResourceDefinitions. */
  readonly definitions: () => ResourceCache;
  /** Returns the served kind of the definition in any version; undefined if the definition is not served. */
  kindOf(definition: CustomResourceDefinition): ServedKind | undefined;
  readonly clock: Clock;
  readonly log: Logger;
}

const minRetryDelayMs = 100;
const maxRetryDelayMs = 30_000;
/** The time after which the objects that remain of a deleted definition are reported, and deleted again. */
const remainingCheckMs = 60_000;

/**
 * Implements the naming, establishing, API approval and finalizing controllers of apiextensions. Several API servers can run the controller
 * concurrently, because each update is conditional on the resourceVersion. Events of definitions, and the deletion of a definition's last
 * object, enqueue work.
 */
export class DefinitionController {
  readonly #options: DefinitionControllerOptions;
  readonly #stop = new AbortController();
  /** The names of definitions to reconcile. Reconciled one at a time, because definitions compete for names. */
  readonly #queue = new Set<string>();
  readonly #retries = new Map<string, { readonly timer: Timer; readonly wait: number }>();
  /** The checks for remaining objects of deleted definitions. */
  readonly #checks = new Map<string, Timer>();
  /** The deleted definitions whose check is due. */
  readonly #overdue = new Set<string>();
  readonly #groups = new Map<string, Map<string, CustomResourceDefinition>>();
  #running: Promise<void> | undefined;
  #started = false;

  constructor(options: DefinitionControllerOptions) {
    this.#options = options;
  }

  /** Replaces the cached definitions. */
  reset(items: readonly Item[]): void {
    this.#groups.clear();
    for (const { object } of items) this.#enqueueGroup(object as CustomResourceDefinition);
    for (const { key } of items) this.#add(key);
  }

  onEvent({ key, current, previous }: WatchCacheEvent): void {
    if (current === undefined) {
      const deletedDefinition = previous?.object as CustomResourceDefinition | undefined;
      const group = this.#groups.get(deletedDefinition?.spec.group ?? '');
      group?.delete(key);
      // the deletion frees names that other definitions of the group may request
      for (const name of group?.keys() ?? []) this.#add(name);
      if (group?.size === 0) this.#groups.delete(deletedDefinition?.spec.group ?? '');
      this.#retries.get(key)?.timer.cancel();
      this.#retries.delete(key);
      this.#checks.get(key)?.cancel();
      this.#checks.delete(key);
      this.#overdue.delete(key);
      return;
    }
    const definition = current.object as CustomResourceDefinition;
    this.#enqueueGroup(definition);
    this.#add(key);
    const names = (previous?.object as CustomResourceDefinition | undefined)?.status?.acceptedNames;
    if (names !== undefined && !jsonEqual(names, definition.status?.acceptedNames))
      for (const name of this.#groups.get(definition.spec.group)?.keys() ?? []) this.#add(name);
  }

  start(): void {
    this.#started = true;
    this.#processQueue();
  }

  async stop(): Promise<void> {
    this.#stop.abort(new Error('the API server is stopping'));
    for (const { timer } of this.#retries.values()) timer.cancel();
    for (const timer of this.#checks.values()) timer.cancel();
    this.#retries.clear();
    this.#checks.clear();
    await this.#running;
  }

  #enqueueGroup(definition: CustomResourceDefinition): void {
    const { group } = definition.spec;
    const known = this.#groups.get(group);
    const name = definition.metadata?.name ?? '';
    if (known === undefined) this.#groups.set(group, new Map([[name, definition]]));
    else known.set(name, definition);
  }

  #add(name: string): void {
    if (this.#stop.signal.aborted) return;
    this.#queue.add(name);
    this.#processQueue();
  }

  #processQueue(): void {
    if (!this.#started || this.#running !== undefined || this.#queue.size === 0) return;
    this.#running = this.#drain().finally(() => {
      this.#running = undefined;
      if (!this.#stop.signal.aborted) this.#processQueue();
    });
  }

  async #drain(): Promise<void> {
    // the watch event that enqueued this key is not yet applied by all caches
    await Promise.resolve();
    for (const name of this.#queue) {
      if (this.#stop.signal.aborted) return;
      this.#queue.delete(name);
      try {
        await this.#reconcile(name);
        this.#retries.delete(name);
      } catch (error) {
        if (this.#stop.signal.aborted) return;
        this.#retry(name, error);
      }
    }
  }

  #retry(name: string, error: unknown): void {
    const { clock, log } = this.#options;
    // the event of the newer state enqueues the definition again
    if (isStatus(error, 'NotFound')) return;
    const wait = Math.min((this.#retries.get(name)?.wait ?? minRetryDelayMs / 2) * 2, maxRetryDelayMs);
    if (!isStatus(error, 'Conflict'))
      log.warn({ definition: name, error: String(error), retryMs: wait }, 'reconciling a CustomResourceDefinition failed');
    this.#retries.get(name)?.timer.cancel();
    this.#retries.set(name, { wait, timer: clock.after(wait, () => this.#add(name)) });
  }

  async #reconcile(name: string): Promise<void> {
    const { definitions, clock } = this.#options;
    const definition = definitions().get(name)?.object as CustomResourceDefinition | undefined;
    if (definition === undefined) return;
    if (definition.metadata?.deletionTimestamp !== undefined) return this.#finalize(definition);
    const group = this.#groups.get(definition.spec.group)?.values() ?? [definition];
    const status = namingStatus(definition, group, clock.now());
    if (!jsonEqual(status, definition.status ?? {})) await this.#updateDefinition({ ...definition, status }, 'status');
    return undefined;
  }

  /** Deletes the objects of a definition that is being deleted, and then removes the finalizer of the definition. */
  async #finalize(definition: CustomResourceDefinition): Promise<void> {
    if (!(definition.metadata?.finalizers ?? []).includes(cleanupFinalizer)) return;
    const name = definition.metadata?.name ?? '';
    const kind = isTrue(definition, 'Established') ? this.#options.kindOf(definition) : undefined;
    if (kind === undefined) {
      await this.#removeFinalizer(definition, { status: 'False', reason: 'NeverEstablished', message: 'resource was never established' });
      return;
    }
    if (conditionOf(definition, 'Terminating')?.reason !== 'InstanceDeletionInProgress') {
      await this.#terminating(definition, {
        status: 'True',
        reason: 'InstanceDeletionInProgress',
        message: 'CustomResource deletion is in progress',
      });
      return; // the watch event of this update enqueues the definition again
    }
    const left = await this.#remainingObjects(kind);
    if (this.#overdue.delete(name) && left > 0) {
      await this.#terminating(definition, {
        status: 'True',
        reason: 'InstanceDeletionCheck',
        message: 'could not confirm zero CustomResources remaining: context deadline exceeded',
      });
      return; // the watch event of this update enqueues the definition again, and the objects are deleted again
    }
    if (left > 0) {
      // the deletion event of the last object enqueues the definition again
      kind.cache.onEvent = ({ current }) => {
        if (current === undefined && kind.cache.size === 0) this.#add(name);
      };
      await this.#request('deletecollection', kind, {});
      if ((await this.#remainingObjects(kind)) > 0) {
        this.#checkLater(name);
        return;
      }
    }
    await this.#removeFinalizer(definition, { status: 'False', reason: 'InstanceDeletionCompleted', message: 'removed all instances' });
  }

  /**
   * Reconciles a deleted definition after a while if objects remain, which another API server may have created while its definition was not yet
   * terminating.
   */
  #checkLater(name: string): void {
    if (this.#checks.has(name) || this.#stop.signal.aborted) return;
    const timer = this.#options.clock.after(remainingCheckMs, () => {
      this.#checks.delete(name);
      this.#overdue.add(name);
      this.#add(name);
    });
    this.#checks.set(name, timer);
  }

  async #remainingObjects(kind: ServedKind): Promise<number> {
    const response = await this.#request('list', kind, { query: { limit: '1' } });
    return response.kind === 'list' ? response.items.length : 0;
  }

  #request(verb: ApiRequest['verb'], { resource }: Pick<ServedKind, 'resource'>, rest: Partial<ApiRequest>): Promise<PipelineResponse> {
    return this.#options.handle({
      verb,
      resource,
      subresource: '',
      namespace: '',
      name: '',
      query: {},
      identity: apiserverIdentity,
      signal: this.#stop.signal,
      ...rest,
    });
  }

  #terminating(definition: CustomResourceDefinition, condition: Omit<Condition, 'type'>): Promise<CustomResourceDefinition> {
    const { metadata, status } = definition;
    const observed = metadata?.generation === undefined ? {} : { observedGeneration: metadata.generation };
    const conditions = withCondition(
      status?.conditions ?? [],
      { type: 'Terminating', ...condition, ...observed },
      this.#options.clock.now(),
    );
    return this.#updateDefinition({ ...definition, status: { ...status, conditions } }, 'status');
  }

  async #removeFinalizer(definition: CustomResourceDefinition, condition: Omit<Condition, 'type'>): Promise<void> {
    const marked = await this.#terminating(definition, condition);
    const finalizers = (marked.metadata?.finalizers ?? []).filter((name) => name !== cleanupFinalizer);
    await this.#updateDefinition({ ...marked, metadata: { ...marked.metadata, finalizers } }, '');
  }

  async #updateDefinition(definition: CustomResourceDefinition, subresource: string): Promise<CustomResourceDefinition> {
    const body: KubeObject = { ...definition, kind: 'CustomResourceDefinition', apiVersion: 'apiextensions.k8s.io/v1' };
    const response = await this.#request(
      'update',
      { resource: customResourceDefinitions },
      {
        name: definition.metadata?.name ?? '',
        subresource,
        body,
      },
    );
    return response.kind === 'object' ? (response.item.object as CustomResourceDefinition) : definition;
  }
}
