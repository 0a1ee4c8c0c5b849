import { objectKey, type ObjectKey } from '@oarlock/api/object';
import { controllerRevisions, daemonSets, nodes as nodeResource, pods as podResource } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { ControllerRevision, DaemonSet, DaemonSetStatus } from '@oarlock/api/types/apps-v1';
import type { Node, Pod } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/kernel/clock';
import { Events, Informers, type Client, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { z } from 'zod';
import { Expectations, expectPods } from '../expectations.ts';
import { ownerKeys } from '../owner-keys.ts';
import { claim, indexByOwner } from '../ownership.ts';
import { PodControl } from '../pod-control.ts';
import { availableIn, isReady, isTerminating } from '../pod-state.ts';
import { nameOf, podFromTemplate, typed } from '../pod-template.ts';
import { hashOf, settleRevisions, truncateHistory } from '../revision-history.ts';
import { revisionLabel } from '../revision-history.ts';
import { selectorOf, SelectorOwners } from '../selector-owners.ts';
import { FailedPodDelays } from './failed-pod-delays.ts';
import { byBoundAndAge, excess, isAvailable, isUpdated, rollingStep } from './node-pods.ts';
import { daemonTemplate, forNode, placementOf, targetNode, type Placement } from './placement.ts';

const burst = 250; // pods created or deleted in one step, as upstream

interface Parts {
  readonly sets: Informer<DaemonSet>;
  readonly pods: Informer<Pod>;
  readonly nodes: Informer<Node>;
  readonly revisions: Informer<ControllerRevision>;
  readonly recorder: EventRecorder;
  readonly clock: Clock;
}

/** A pod on every node that fits. */
export class DaemonSetController implements Controller {
  readonly name = 'daemonset';
  readonly workers = 2;
  readonly watches;
  readonly #parts: Parts;
  readonly #expectations: Expectations;
  readonly #control: PodControl;
  readonly #delays: FailedPodDelays;

  constructor(parts: Parts) {
    this.#parts = parts;
    const { sets, pods, nodes, revisions, recorder, clock } = parts;
    indexByOwner(pods);
    indexByOwner(revisions);
    this.#expectations = new Expectations(clock);
    this.#control = new PodControl(recorder, this.#expectations);
    this.#delays = new FailedPodDelays(clock);
    const candidates = new SelectorOwners(sets);
    this.watches = [
      watch(sets, (set) => [objectKey(set)]),
      watch(pods, (pod, old) => ownerKeys('DaemonSet', candidates, pod, old)),
      watch(revisions, (revision, old) => ownerKeys('DaemonSet', candidates, revision, old)),
      watch(nodes, (node, old) => this.#concernedBy(node, old)),
    ];
    expectPods(pods, 'DaemonSet', this.#expectations);
  }

  async reconcile(key: ObjectKey, context: ReconcileContext): Promise<ReconcileResult | void> {
    const set = this.#parts.sets.get(key);
    if (set === undefined) {
      this.#expectations.forget(key);
      return undefined;
    }
    const selector = selectorOf(set);
    if (selector.empty) {
      this.#parts.recorder.event(
        set,
        'Warning',
        'SelectingAll',
        'This daemon set is selecting all pods. A non-empty selector is required.',
      );
      return undefined;
    }
    if (set.metadata?.deletionTimestamp !== undefined) return undefined;
    const { client } = context;
    const shared = { client, owner: typed(daemonSets, set), selector, confirm: () => this.#stillThere(set, client) };
    const found = await claim({ ...shared, informer: this.#parts.revisions, resource: controllerRevisions });
    const history = await settleRevisions({
      client,
      resource: daemonSets,
      owner: set,
      found,
      collisionCount: set.status?.collisionCount,
    });
    const hash = hashOf(history.update);
    const settled = this.#expectations.met(key);
    const pods = await claim({ ...shared, informer: this.#parts.pods, resource: podResource });
    const state = this.#look(set, pods);
    let failure: unknown;
    let retryMs: number | undefined;
    if (settled) {
      ({ failure, retryMs } = await this.#manage(key, set, state, hash, client));
      if (failure === undefined && this.#expectations.met(key)) failure = await this.#roll(key, set, state, hash, client);
    }
    const used = new Set(pods.map((pod) => pod.metadata?.labels?.[revisionLabel]));
    await truncateHistory(
      client,
      history.all,
      (revision) => revision.metadata?.name === history.update.metadata?.name || used.has(hashOf(revision)),
      set.spec?.revisionHistoryLimit ?? 10,
    );
    await this.#writeStatus(set, this.#status(set, state, hash, history.collisionCount), client);
    if (failure !== undefined) throw failure;
    const minReady = set.spec?.minReadySeconds ?? 0;
    const waits = minReady === 0 ? [] : pods.map((pod) => availableIn(pod, minReady, this.#parts.clock.now()) ?? 0).filter((ms) => ms > 0);
    if (retryMs !== undefined) waits.push(retryMs);
    return waits.length > 0 ? { requeueAfterMs: Math.min(...waits) } : undefined;
  }

  async #stillThere(set: DaemonSet, client: Client): Promise<boolean> {
    const fresh = await client.get(daemonSets, nameOf(set));
    return fresh.metadata?.uid === set.metadata?.uid && fresh.metadata?.deletionTimestamp === undefined;
  }

  /** Heartbeats concern nobody: only what placement looks at does. */
  *#concernedBy(node: Node, old: Node | undefined): Iterable<ObjectKey> {
    if (old !== undefined && sameForPlacement(node, old)) return;
    for (const set of this.#parts.sets.list()) {
      const place = placementOf(set);
      const now = place(node);
      const before = old === undefined ? { run: false, stay: false } : place(old);
      if (now.run !== before.run || now.stay !== before.stay) yield objectKey(set);
    }
  }

  #look(set: DaemonSet, pods: readonly Pod[]): World {
    const place = placementOf(set);
    const podsOf = new Map<string, Pod[]>();
    const stray: Pod[] = [];
    for (const pod of pods) {
      const node = targetNode(pod);
      if (node === undefined) continue;
      const group = podsOf.get(node);
      if (group === undefined) podsOf.set(node, [pod]);
      else group.push(pod);
      // bound for a node that is not there: nobody would ever run it
      if (!pod.spec?.nodeName && this.#parts.nodes.get(node) === undefined) stray.push(pod);
    }
    return { podsOf, stray, nodes: this.#parts.nodes.list().map((node) => ({ name: node.metadata?.name ?? '', ...place(node) })) };
  }

  async #manage(key: ObjectKey, set: DaemonSet, { podsOf, stray, nodes }: World, hash: string, client: Client) {
    const { recorder, clock } = this.#parts;
    const needing: string[] = [];
    const doomed: Pod[] = stray.filter((pod) => !isTerminating(pod));
    let retryMs: number | undefined;
    for (const { name, run, stay } of nodes) {
      const present = podsOf.get(name);
      if (present === undefined) {
        if (run) needing.push(name);
        continue;
      }
      const live = present.filter((pod) => !isTerminating(pod));
      if (!stay) {
        doomed.push(...live);
        continue;
      }
      const running: Pod[] = [];
      for (const pod of live) {
        const what = `daemon pod ${pod.metadata?.namespace}/${pod.metadata?.name} on node ${name}`;
        if (pod.status?.phase === 'Failed') {
          const waitMs = this.#delays.wait(`${key}/${set.status?.observedGeneration}/${name}`);
          if (waitMs > 0) {
            retryMs = Math.min(retryMs ?? waitMs, waitMs);
            continue;
          }
          recorder.event(set, 'Warning', 'FailedDaemonPod', `Found failed ${what}, will try to kill it`);
          doomed.push(pod);
        } else if (pod.status?.phase === 'Succeeded') {
          recorder.event(set, 'Normal', 'SucceededDaemonPod', `Found succeeded ${what}, will try to delete it`);
          doomed.push(pod);
        } else running.push(pod);
      }
      doomed.push(...excess(set, running, hash, clock.now()));
    }
    return { failure: await this.#sync(key, set, doomed, needing, hash, client), retryMs };
  }

  #roll(key: ObjectKey, set: DaemonSet, { podsOf, nodes }: World, hash: string, client: Client): Promise<unknown> {
    const desired = nodes.filter(({ run }) => run).map(({ name }) => name);
    const { remove, surge } = rollingStep(set, podsOf, desired, hash, this.#parts.clock.now());
    return this.#sync(key, set, remove, surge, hash, client);
  }

  async #sync(key: ObjectKey, set: DaemonSet, doomed: readonly Pod[], nodes: readonly string[], hash: string, client: Client) {
    const owner = typed(daemonSets, set);
    const work = { key, owner, client };
    const pod = podFromTemplate(daemonTemplate(set, hash), daemonSets, owner);
    const created =
      nodes.length === 0
        ? undefined
        : await this.#control.create(work, Math.min(nodes.length, burst), (index) => forNode(pod, nodes[index] ?? ''));
    const deleted = doomed.length === 0 ? undefined : await this.#control.delete(work, doomed.slice(0, burst));
    return created ?? deleted;
  }

  #status(set: DaemonSet, { podsOf, nodes }: World, hash: string, collisionCount: number | undefined): DaemonSetStatus {
    const now = this.#parts.clock.now();
    const count = { desired: 0, current: 0, misscheduled: 0, ready: 0, updated: 0, available: 0 };
    for (const { name, run } of nodes) {
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
      observedGeneration: set.metadata?.generation ?? 0,
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
    try {
      await client.update(daemonSets, { ...typed(daemonSets, set), status }, { subresource: 'status' });
    } catch (error) {
      if (!isStatus(error, 'NotFound')) throw error;
    }
  }
}

interface World {
  readonly podsOf: ReadonlyMap<string, readonly Pod[]>;
  /** Pods that no node waits for. */
  readonly stray: readonly Pod[];
  readonly nodes: readonly ({ readonly name: string } & Placement)[];
}

const sameForPlacement = (node: Node, old: Node) =>
  (node.metadata?.labels === old.metadata?.labels && node.spec?.taints === old.spec?.taints) ||
  JSON.stringify([node.metadata?.labels, node.spec?.taints]) === JSON.stringify([old.metadata?.labels, old.spec?.taints]);

export default Controllers.plugin({
  id: 'controller-daemon-set',
  declares: { loop: 'daemonset' },
  config: z.strictObject({}),
  needs: { informers: Informers, events: Events },
  create: ({ informers, events }, { clock }) =>
    new DaemonSetController({
      sets: informers.of(daemonSets),
      pods: informers.of(podResource),
      nodes: informers.of(nodeResource),
      revisions: informers.of(controllerRevisions),
      recorder: events.recorder('daemonset-controller'),
      clock,
    }),
});
