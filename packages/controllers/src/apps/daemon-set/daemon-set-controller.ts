import { objectKey, type ObjectKey } from '@oarlock/api/object';
import { controllerRevisions, daemonSets, nodes as nodeResource, pods as podResource } from '@oarlock/api/resources';
import { ignoreNotFound } from '../../errors/ignore-not-found.ts';
import type { ControllerRevision, DaemonSet, DaemonSetStatus } from '@oarlock/api/types/apps-v1';
import type { Node, Pod } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/primitives/clock';
import { Events, Informers, type Client, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { z } from 'zod';
import { ControllerExpectations, observePods } from '../../expectations/controller-expectations.ts';
import { ownerKeys } from '../../ownership/owner-keys.ts';
import { claimObjects, addOwnerIndexes } from '../../ownership/controller-ref-manager.ts';
import { PodControl } from '../../pods/pod-control.ts';
import { availableIn, isReady, isTerminal, isTerminating } from '../../pods/pod-state.ts';
import { objectName, withTypeMeta } from '../../objects/object-identity.ts';
import { podFromTemplate } from '../../pods/pod-template.ts';
import { revisionHash, revisionLabel, syncRevisions, truncateHistory } from '../history/controller-history.ts';
import { selectorOf, SelectorOwnerIndex } from '../../ownership/selector-owners.ts';
import { FailedPodsBackoff } from './failed-pods-backoff.ts';
import { allowsSurge, byBoundAndAge, excessPods, isAvailable, isUpdated, rollingStep } from './rolling-update.ts';
import { daemonTemplate, withNodeAffinity, nodeShouldRunDaemonPod, targetNode, type Placement } from './placement.ts';

const burstReplicas = 250; // pods created or deleted in one step, as upstream

interface DaemonSetControllerOptions {
  readonly sets: Informer<DaemonSet>;
  readonly pods: Informer<Pod>;
  readonly nodes: Informer<Node>;
  readonly revisions: Informer<ControllerRevision>;
  readonly recorder: EventRecorder;
  readonly clock: Clock;
}

/** Runs one pod of a DaemonSet on every eligible node. */
export class DaemonSetController implements Controller {
  readonly name = 'daemonset';
  readonly concurrentReconciles = 2;
  readonly watches;
  readonly #options: DaemonSetControllerOptions;
  readonly #expectations: ControllerExpectations;
  readonly #control: PodControl;
  readonly #failedPodsBackoff: FailedPodsBackoff;

  constructor(options: DaemonSetControllerOptions) {
    this.#options = options;
    const { sets, pods, nodes, revisions, recorder, clock } = options;
    addOwnerIndexes(pods);
    addOwnerIndexes(revisions);
    this.#expectations = new ControllerExpectations(clock);
    this.#control = new PodControl(recorder, this.#expectations, pods);
    this.#failedPodsBackoff = new FailedPodsBackoff(clock);
    const candidates = new SelectorOwnerIndex(sets);
    this.watches = [
      watch(sets, (set) => [objectKey(set)]),
      watch(pods, (pod, old) => ownerKeys('DaemonSet', { candidates, object: pod, old })),
      watch(revisions, (revision, old) => ownerKeys('DaemonSet', { candidates, object: revision, old })),
      watch(nodes, (node, old) => this.#daemonSetsForNode(node, old)),
    ];
    observePods(pods, 'DaemonSet', this.#expectations);
  }

  async reconcile(key: ObjectKey, context: ReconcileContext): Promise<ReconcileResult | void> {
    const set = this.#options.sets.get(key);
    if (set === undefined) {
      this.#expectations.deleteExpectations(key);
      return undefined;
    }
    const selector = selectorOf(set);
    if (selector.empty) {
      this.#options.recorder.event(
        set,
        'Warning',
        'SelectingAll',
        'This daemon set is selecting all pods. A non-empty selector is required.',
      );
      return undefined;
    }
    if (set.metadata?.deletionTimestamp !== undefined) return undefined;
    const { client } = context;
    const claimOptions = { client, owner: withTypeMeta(daemonSets, set), selector, canAdopt: () => this.#canAdopt(set, client) };
    const found = await claimObjects({ ...claimOptions, informer: this.#options.revisions, resource: controllerRevisions });
    const history = await syncRevisions({
      client,
      resource: daemonSets,
      owner: set,
      revisions: found,
      collisionCount: set.status?.collisionCount,
      hashLabel: revisionLabel,
    });
    const hash = revisionHash(history.updateRevision);
    await this.#control.resolveOutcome({ key, owner: set, client }, selector);
    const expectationsSatisfied = this.#expectations.satisfied(key);
    const claimPods = () => claimObjects({ ...claimOptions, informer: this.#options.pods, resource: podResource });
    const pods = await claimPods();
    const state = this.#nodesToDaemonPods(set, pods);
    let failure: unknown;
    let retryMs: number | undefined;
    if (expectationsSatisfied) {
      const managed = await this.#manage(key, { set, nodeToDaemonPods: state, hash, client });
      ({ failure, retryMs } = managed);
      if (failure === undefined && this.#expectations.satisfied(key)) {
        const current = managed.hasChanges ? this.#nodesToDaemonPods(set, await claimPods()) : state;
        failure = await this.#rollingUpdate(key, { set, nodeToDaemonPods: current, hash, client });
      }
    }
    const used = new Set(pods.map((pod) => pod.metadata?.labels?.[revisionLabel]));
    await truncateHistory(client, {
      all: history.all,
      isLive: (revision) => revision.metadata?.name === history.updateRevision.metadata?.name || used.has(revisionHash(revision)),
      limit: set.spec?.revisionHistoryLimit ?? 10,
    });
    const status = this.#status(set, { nodeToDaemonPods: state, hash, collisionCount: history.collisionCount, expectationsSatisfied });
    await this.#writeStatus(set, status, client);
    if (failure !== undefined) throw failure;
    const minReady = set.spec?.minReadySeconds ?? 0;
    const waits =
      minReady === 0 ? [] : pods.map((pod) => availableIn(pod, minReady, this.#options.clock.now()) ?? 0).filter((ms) => ms > 0);
    if (retryMs !== undefined) waits.push(retryMs);
    return waits.length > 0 ? { requeueAfterMs: Math.min(...waits) } : undefined;
  }

  async #canAdopt(set: DaemonSet, client: Client): Promise<boolean> {
    const fresh = await client.get(daemonSets, objectName(set));
    return fresh.metadata?.uid === set.metadata?.uid && fresh.metadata?.deletionTimestamp === undefined;
  }

  /**
   * Returns the keys of the DaemonSets whose placement may change with this update of a node. Only changes of labels and taints affect
   * placement, so heartbeats return none.
   */
  *#daemonSetsForNode(node: Node, old: Node | undefined): Iterable<ObjectKey> {
    if (old !== undefined && hasSamePlacementInputs(node, old)) return;
    for (const set of this.#options.sets.list()) {
      const placementOn = nodeShouldRunDaemonPod(set);
      const now = placementOn(node);
      const before = old === undefined ? { shouldRun: false, shouldContinueRunning: false } : placementOn(old);
      if (now.shouldRun !== before.shouldRun || now.shouldContinueRunning !== before.shouldContinueRunning) yield objectKey(set);
    }
  }

  #nodesToDaemonPods(set: DaemonSet, pods: readonly Pod[]): NodeToDaemonPods {
    const placementOn = nodeShouldRunDaemonPod(set);
    const podsOf = new Map<string, Pod[]>();
    const unschedulablePods: Pod[] = [];
    for (const pod of pods) {
      const node = targetNode(pod);
      // a deleted pod that has terminated is kept by finalizers only: its replacement can start
      if (node === undefined || (isTerminal(pod) && isTerminating(pod))) continue;
      const group = podsOf.get(node);
      if (group === undefined) podsOf.set(node, [pod]);
      else group.push(pod);
      // targets a node that does not exist: the pod can never be scheduled
      if (!pod.spec?.nodeName && this.#options.nodes.get(node) === undefined) unschedulablePods.push(pod);
    }
    return {
      podsOf,
      unschedulablePods,
      nodes: this.#options.nodes.list().map((node) => ({ name: node.metadata?.name ?? '', ...placementOn(node) })),
    };
  }

  async #manage(
    key: ObjectKey,
    {
      set,
      nodeToDaemonPods: { podsOf, unschedulablePods, nodes },
      hash,
      client,
    }: { readonly set: DaemonSet; readonly nodeToDaemonPods: NodeToDaemonPods; readonly hash: string; readonly client: Client },
  ) {
    const { recorder, clock } = this.#options;
    const nodesNeedingPods: string[] = [];
    const podsToDelete: Pod[] = unschedulablePods.filter((pod) => !isTerminating(pod));
    let retryMs: number | undefined;
    for (const { name, shouldRun: run, shouldContinueRunning: stay } of nodes) {
      const present = podsOf.get(name);
      if (present === undefined) {
        if (run) nodesNeedingPods.push(name);
        continue;
      }
      const live = present.filter((pod) => !isTerminating(pod));
      if (!stay) {
        podsToDelete.push(...live);
        continue;
      }
      const running: Pod[] = [];
      for (const pod of live) {
        const description = `daemon pod ${pod.metadata?.namespace}/${pod.metadata?.name} on node ${name}`;
        if (pod.status?.phase === 'Failed') {
          const waitMs = this.#failedPodsBackoff.next(`${set.metadata?.uid}/${set.status?.observedGeneration}/${name}`);
          if (waitMs > 0) {
            retryMs = Math.min(retryMs ?? waitMs, waitMs);
            continue;
          }
          recorder.event(set, 'Warning', 'FailedDaemonPod', `Found failed ${description}, will try to kill it`);
          podsToDelete.push(pod);
        } else if (pod.status?.phase === 'Succeeded') {
          recorder.event(set, 'Normal', 'SucceededDaemonPod', `Found succeeded ${description}, will try to delete it`);
          podsToDelete.push(pod);
        } else running.push(pod);
      }
      // with surge, a node has a pod that is not being deleted: the replacement does not wait for the end of the old pod
      if (run && running.length === 0 && allowsSurge(set)) nodesNeedingPods.push(name);
      podsToDelete.push(...excessPods(set, { running, hash, nowMs: clock.now() }));
    }
    const failure = await this.#syncNodes(key, set, { podsToDelete, nodesNeedingPods, hash, client });
    return { failure, retryMs, hasChanges: podsToDelete.length + nodesNeedingPods.length > 0 };
  }

  #rollingUpdate(
    key: ObjectKey,
    {
      set,
      nodeToDaemonPods: { podsOf, nodes },
      hash,
      client,
    }: { readonly set: DaemonSet; readonly nodeToDaemonPods: NodeToDaemonPods; readonly hash: string; readonly client: Client },
  ): Promise<unknown> {
    const desired = nodes.filter(({ shouldRun: run }) => run).map(({ name }) => name);
    const { remove, surge } = rollingStep(set, podsOf, { desired, hash, nowMs: this.#options.clock.now() });
    return this.#syncNodes(key, set, { podsToDelete: remove, nodesNeedingPods: surge, hash, client });
  }

  async #syncNodes(
    key: ObjectKey,
    set: DaemonSet,
    {
      podsToDelete,
      nodesNeedingPods,
      hash,
      client,
    }: {
      readonly podsToDelete: readonly Pod[];
      readonly nodesNeedingPods: readonly string[];
      readonly hash: string;
      readonly client: Client;
    },
  ) {
    const owner = withTypeMeta(daemonSets, set);
    const ownerContext = { key, owner, client };
    const pod = podFromTemplate(daemonTemplate(set, hash), { resource: daemonSets, owner });
    const created =
      nodesNeedingPods.length === 0
        ? undefined
        : await this.#control.create(ownerContext, Math.min(nodesNeedingPods.length, burstReplicas), (index) =>
            withNodeAffinity(pod, nodesNeedingPods[index] ?? ''),
          );
    const deleted = podsToDelete.length === 0 ? undefined : await this.#control.delete(ownerContext, podsToDelete.slice(0, burstReplicas));
    return created ?? deleted;
  }

  #status(
    set: DaemonSet,
    {
      nodeToDaemonPods: { podsOf, nodes },
      hash,
      collisionCount,
      expectationsSatisfied,
    }: {
      readonly nodeToDaemonPods: NodeToDaemonPods;
      readonly hash: string;
      readonly collisionCount: number | undefined;
      readonly expectationsSatisfied: boolean;
    },
  ): DaemonSetStatus {
    const now = this.#options.clock.now();
    const count = { desired: 0, current: 0, misscheduled: 0, ready: 0, updated: 0, available: 0 };
    for (const { name, shouldRun: run } of nodes) {
      const present = podsOf.get(name) ?? [];
      if (!run) {
        if (present.length > 0) count.misscheduled += 1;
        continue;
      }
      count.desired += 1;
      const [pod] = present.length > 1 ? present.toSorted(byBoundAndAge) : present;
      if (pod === undefined) continue;
      count.current += 1;
      if (isReady(pod)) count.ready += 1;
      if (isAvailable(set, pod, now)) count.available += 1;
      if (isUpdated(pod, hash)) count.updated += 1;
    }
    return {
      ...(set.status?.conditions && { conditions: set.status.conditions }),
      // with pending expectations, this sync has not acted on the generation
      observedGeneration: (expectationsSatisfied ? set.metadata?.generation : set.status?.observedGeneration) ?? 0,
      currentNumberScheduled: count.current,
      numberMisscheduled: count.misscheduled,
      desiredNumberScheduled: count.desired,
      numberReady: count.ready,
      updatedNumberScheduled: count.updated,
      numberAvailable: count.available,
      numberUnavailable: count.desired - count.available,
      ...(collisionCount !== undefined && { collisionCount }),
    };
  }

  async #writeStatus(set: DaemonSet, status: DaemonSetStatus, client: Client): Promise<void> {
    const counts = Object.keys({ ...set.status, ...status }).filter((key) => key !== 'conditions') as Exclude<
      keyof DaemonSetStatus,
      'conditions'
    >[];
    if (set.status !== undefined && counts.every((count) => (set.status?.[count] ?? 0) === (status[count] ?? 0))) return;
    await ignoreNotFound(() => client.update(daemonSets, { ...withTypeMeta(daemonSets, set), status }, { subresource: 'status' }));
  }
}

interface NodeToDaemonPods {
  readonly podsOf: ReadonlyMap<string, readonly Pod[]>;
  /** Unbound pods whose node affinity names a node that does not exist. */
  readonly unschedulablePods: readonly Pod[];
  readonly nodes: readonly ({ readonly name: string } & Placement)[];
}

const hasSamePlacementInputs = (node: Node, old: Node) =>
  (node.metadata?.labels === old.metadata?.labels && node.spec?.taints === old.spec?.taints) ||
  JSON.stringify([node.metadata?.labels, node.spec?.taints]) === JSON.stringify([old.metadata?.labels, old.spec?.taints]);

export default Controllers.plugin({
  id: 'controller-daemon-set',
  declares: { loop: 'daemonset' },
  config: z.strictObject({}),
  needs: { informers: Informers, events: Events },
  create: ({ informers, events }, { clock }) =>
    new DaemonSetController({
      sets: informers.forResource(daemonSets),
      pods: informers.forResource(podResource),
      nodes: informers.forResource(nodeResource),
      revisions: informers.forResource(controllerRevisions),
      recorder: events.recorder('daemonset-controller'),
      clock,
    }),
});
