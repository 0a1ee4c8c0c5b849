import { objectKey, type ObjectKey } from '@oarlock/api/object';
import { nodes as nodeResource, pods as podResource } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/time';
import type { Node, Pod, Taint } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/kernel/clock';
import { Events, Informers, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { z } from 'zod';
import { isTerminating } from '../pod-state.ts';
import { nameOf, typed } from '../pod-template.ts';
import { byNode, nodeOf } from '../pods-by-node.ts';
import { tolerates } from '../tolerations.ts';

interface Parts {
  readonly nodes: Informer<Node>;
  readonly pods: Informer<Pod>;
  readonly recorder: EventRecorder;
  readonly clock: Clock;
}

const evicting = (node: Node | undefined): readonly Taint[] => (node?.spec?.taints ?? []).filter(({ effect }) => effect === 'NoExecute');

/** How long the pod bears these taints, in milliseconds; 0: not at all; undefined: for ever. */
export function bearsFor(pod: Pod, taints: readonly Taint[]): number | undefined {
  let shortest: number | undefined;
  for (const taint of taints) {
    const used = (pod.spec?.tolerations ?? []).filter((toleration) => tolerates(toleration, taint));
    if (used.length === 0) return 0;
    for (const { tolerationSeconds } of used)
      if (tolerationSeconds !== undefined) shortest = Math.min(shortest ?? Number.POSITIVE_INFINITY, Math.max(0, tolerationSeconds) * 1000);
  }
  return shortest;
}

/** Deletes pods from nodes with NoExecute taints that they do not tolerate, or no longer do. */
export class TaintEvictionController implements Controller {
  readonly name = 'taint-eviction';
  readonly workers = 8;
  readonly watches;
  readonly #parts: Parts;
  /** Since when pods bear the taints of their node, on the monotonic clock. */
  readonly #since = new Map<ObjectKey, { readonly uid: string; readonly at: number }>();

  constructor(parts: Parts) {
    this.#parts = parts;
    parts.pods.addIndex(byNode, nodeOf);
    this.watches = [
      watch(parts.pods, (pod, old) =>
        (pod.spec?.nodeName && evicting(parts.nodes.get(pod.spec.nodeName)).length > 0 && (old === undefined || matters(pod, old))) ||
        this.#since.has(objectKey(pod))
          ? [objectKey(pod)]
          : [],
      ),
      watch(parts.nodes, (node, old) => (old !== undefined && sameTaints(evicting(node), evicting(old)) ? [] : this.#concerned(node, old))),
    ];
  }

  #concerned(node: Node, old: Node | undefined): readonly ObjectKey[] {
    if (evicting(node).length === 0 && evicting(old).length === 0) return [];
    return this.#parts.pods.byIndex(byNode, node.metadata?.name ?? '').map(objectKey);
  }

  async reconcile(key: ObjectKey, { client }: ReconcileContext): Promise<ReconcileResult | void> {
    const { pods, nodes, recorder, clock } = this.#parts;
    const pod = pods.get(key);
    const uid = pod?.metadata?.uid ?? '';
    const taints = pod === undefined || isTerminating(pod) ? [] : evicting(nodes.get(pod.spec?.nodeName ?? ''));
    const bears = pod === undefined || taints.length === 0 ? undefined : bearsFor(pod, taints);
    const known = this.#since.get(key);
    if (pod === undefined || bears === undefined) {
      this.#since.delete(key);
      if (known !== undefined && pod !== undefined && !isTerminating(pod))
        recorder.event(pod, 'Normal', 'TaintManagerEviction', `Cancelling deletion of Pod ${key}`);
      return undefined;
    }
    const since = known?.uid === uid ? known.at : clock.monotonic();
    const left = since + bears - clock.monotonic();
    if (left > 0) {
      this.#since.set(key, { uid, at: since });
      return { requeueAfterMs: left };
    }
    recorder.event(pod, 'Normal', 'TaintManagerEviction', `Marking for deletion Pod ${key}`);
    try {
      if (!pod.status?.conditions?.some(({ type, status }) => type === 'DisruptionTarget' && status === 'True')) {
        const conditions = [
          ...(pod.status?.conditions ?? []).filter(({ type }) => type !== 'DisruptionTarget'),
          {
            type: 'DisruptionTarget',
            status: 'True',
            reason: 'DeletionByTaintManager',
            message: 'Taint manager: deleting due to NoExecute taint',
            lastTransitionTime: formatTime(clock.now()),
          },
        ];
        await client.update(podResource, { ...typed(podResource, pod), status: { ...pod.status, conditions } }, { subresource: 'status' });
      }
      await client.delete(podResource, nameOf(pod), { preconditions: { uid } });
    } catch (error) {
      if (!isStatus(error, 'NotFound')) throw error;
    }
    this.#since.delete(key);
    return undefined;
  }
}

const matters = (pod: Pod, old: Pod) => pod.spec !== old.spec || pod.metadata?.deletionTimestamp !== old.metadata?.deletionTimestamp;
const sameTaints = (a: readonly Taint[], b: readonly Taint[]) => {
  const text = (taints: readonly Taint[]) => taints.map(({ key, value = '' }) => `${key}=${value}`).join(',');
  return text(a) === text(b);
};

export default Controllers.plugin({
  id: 'controller-taint-eviction',
  declares: { loop: 'taint-eviction' },
  config: z.strictObject({}),
  needs: { informers: Informers, events: Events },
  create: ({ informers, events }, { clock }) =>
    new TaintEvictionController({
      nodes: informers.of(nodeResource),
      pods: informers.of(podResource),
      recorder: events.recorder('taint-eviction-controller'),
      clock,
    }),
});
