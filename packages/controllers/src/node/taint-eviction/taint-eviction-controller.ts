import { toleratesTaint } from '@oarlock/api/component-helpers/tolerations';
import { objectKey, splitKey, type ObjectKey } from '@oarlock/api/object';
import { nodes as nodeResource, pods as podResource } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/values/time';
import type { Node, Pod, Taint } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/primitives/clock';
import { Events, Informers, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { z } from 'zod';
import { isTerminating } from '../../pods/pod-state.ts';
import { objectName, withTypeMeta } from '../../objects/object-identity.ts';
import { podsByNodeIndex, podNodeKeys } from '../../indexes/pods-by-node.ts';

interface TaintEvictionControllerOptions {
  readonly nodes: Informer<Node>;
  readonly pods: Informer<Pod>;
  readonly recorder: EventRecorder;
  readonly clock: Clock;
}

const noExecuteTaints = (node: Node | undefined): readonly Taint[] =>
  (node?.spec?.taints ?? []).filter(({ effect }) => effect === 'NoExecute');

/** Returns how long the pod tolerates these taints, in milliseconds: 0 if the pod does not tolerate them, undefined if it always does. */
export function minTolerationTime(pod: Pod, taints: readonly Taint[]): number | undefined {
  let shortest: number | undefined;
  for (const taint of taints) {
    const matching = (pod.spec?.tolerations ?? []).filter((toleration) => toleratesTaint(toleration, taint));
    if (matching.length === 0) return 0;
    for (const { tolerationSeconds } of matching)
      if (tolerationSeconds !== undefined) shortest = Math.min(shortest ?? Number.POSITIVE_INFINITY, Math.max(0, tolerationSeconds) * 1000);
  }
  return shortest;
}

/** Deletes pods from nodes with NoExecute taints that the pods do not tolerate, or whose toleration time has passed. */
export class TaintEvictionController implements Controller {
  readonly name = 'taint-eviction';
  readonly concurrentReconciles = 8;
  readonly watches;
  readonly #options: TaintEvictionControllerOptions;
  /** Start of the toleration time of each pod, in milliseconds of the monotonic clock. */
  readonly #evictionStarts = new Map<ObjectKey, { readonly uid: string; readonly at: number }>();
  /** The uid of each pod that is being evicted, until the cache shows that it is gone: its change of status must not evict it again. */
  readonly #evicted = new Map<ObjectKey, string>();

  constructor(options: TaintEvictionControllerOptions) {
    this.#options = options;
    options.pods.addIndexer(podsByNodeIndex, podNodeKeys);
    this.watches = [
      watch(options.pods, (pod, old) =>
        (pod.spec?.nodeName &&
          noExecuteTaints(options.nodes.get(pod.spec.nodeName)).length > 0 &&
          (old === undefined || isRelevantPodChange(pod, old))) ||
        this.#evictionStarts.has(objectKey(pod)) ||
        this.#evicted.has(objectKey(pod))
          ? [objectKey(pod)]
          : [],
      ),
      watch(options.nodes, (node, old) =>
        old !== undefined && sameTaints(noExecuteTaints(node), noExecuteTaints(old)) ? [] : this.#podsAffectedByTaints(node, old),
      ),
    ];
  }

  #podsAffectedByTaints(node: Node, old: Node | undefined): readonly ObjectKey[] {
    if (noExecuteTaints(node).length === 0 && noExecuteTaints(old).length === 0) return [];
    return this.#options.pods.byIndex(podsByNodeIndex, node.metadata?.name ?? '').map(objectKey);
  }

  async reconcile(key: ObjectKey, { client }: ReconcileContext): Promise<ReconcileResult | void> {
    const { pods, nodes, recorder, clock } = this.#options;
    const pod = pods.get(key);
    const uid = pod?.metadata?.uid ?? '';
    const taints = pod === undefined || isTerminating(pod) ? [] : noExecuteTaints(nodes.get(pod.spec?.nodeName ?? ''));
    const toleratedMs = pod === undefined || taints.length === 0 ? undefined : minTolerationTime(pod, taints);
    const known = this.#evictionStarts.get(key);
    // the event for the planned eviction follows when the pod is gone
    if (pod !== undefined && isTerminating(pod)) return undefined;
    if (this.#evicted.get(key) === uid) return undefined;
    this.#evicted.delete(key);
    if (known !== undefined && (pod === undefined || !(toleratedMs !== undefined && toleratedMs > 0))) {
      recorder.event(pod ?? deletedPod(key), 'Normal', 'TaintManagerEviction', `Cancelling deletion of Pod ${key}`);
      this.#evictionStarts.delete(key);
    }
    if (pod === undefined || toleratedMs === undefined) return undefined;
    const since = known?.uid === uid ? known.at : clock.monotonic();
    const remainingMs = since + toleratedMs - clock.monotonic();
    if (remainingMs > 0) {
      this.#evictionStarts.set(key, { uid, at: since });
      return { requeueAfterMs: remainingMs };
    }
    recorder.event(pod, 'Normal', 'TaintManagerEviction', `Marking for deletion Pod ${key}`);
    this.#evicted.set(key, uid);
    try {
      if (!pod.status?.conditions?.some(({ type, status }) => type === 'DisruptionTarget' && status === 'True')) {
        const conditions = [
          ...(pod.status?.conditions ?? []).filter(({ type }) => type !== 'DisruptionTarget'),
          {
            type: 'DisruptionTarget',
            ...(pod.metadata?.generation !== undefined && { observedGeneration: pod.metadata.generation }),
            status: 'True',
            reason: 'DeletionByTaintManager',
            message: 'Taint manager: deleting due to NoExecute taint',
            lastTransitionTime: formatTime(clock.now()),
          },
        ];
        await client.update(
          podResource,
          { ...withTypeMeta(podResource, pod), status: { ...pod.status, conditions } },
          { subresource: 'status' },
        );
      }
      await client.delete(podResource, objectName(pod), { preconditions: { uid } });
    } catch (error) {
      if (!isStatus(error, 'NotFound')) {
        this.#evicted.delete(key);
        throw error;
      }
    }
    this.#evictionStarts.delete(key);
    return undefined;
  }
}

/** Returns a reference to a pod that the cache does not have any more, for its event. */
function deletedPod(key: ObjectKey): Pod {
  const { namespace, name } = splitKey(key);
  return { apiVersion: 'v1', kind: 'Pod', metadata: { ...(namespace !== undefined && { namespace }), name } };
}

const isRelevantPodChange = (pod: Pod, old: Pod) =>
  pod.spec !== old.spec || pod.metadata?.deletionTimestamp !== old.metadata?.deletionTimestamp;
const sameTaints = (a: readonly Taint[], b: readonly Taint[]) => {
  const comparable = (taints: readonly Taint[]) => taints.map(({ key, value = '' }) => `${key}=${value}`).join(',');
  return comparable(a) === comparable(b);
};

export default Controllers.plugin({
  id: 'controller-taint-eviction',
  declares: { loop: 'taint-eviction' },
  config: z.strictObject({}),
  needs: { informers: Informers, events: Events },
  create: ({ informers, events }, { clock }) =>
    new TaintEvictionController({
      nodes: informers.forResource(nodeResource),
      pods: informers.forResource(podResource),
      recorder: events.recorder('taint-eviction-controller'),
      clock,
    }),
});
