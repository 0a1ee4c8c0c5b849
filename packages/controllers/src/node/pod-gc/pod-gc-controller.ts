import { objectKey } from '@oarlock/api/object';
import { nodes, pods as podResource } from '@oarlock/api/resources';
import { formatTime } from '@oarlock/api/values/time';
import type { Node, Pod } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/primitives/clock';
import { Informers, type Client, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { z } from 'zod';
import { ignoreNotFound } from '../../errors/ignore-not-found.ts';
import { isTerminal, isTerminating } from '../../pods/pod-state.ts';
import { objectName } from '../../objects/object-identity.ts';
import { podsByNodeIndex, podNodeKeys } from '../../indexes/pods-by-node.ts';

const terminatedIndex = 'ended';
const terminatedPodKeys = (pod: Pod) => (isTerminal(pod) ? ['all'] : []);
const outOfServiceTaint = 'node.kubernetes.io/out-of-service';
/** Key in the work queue for the reconcile that enforces the threshold of terminated pods. */
const terminatedKey = 'ended';
const nodePrefix = 'node/';
const podPrefix = 'pod/';

/** Returns true if the node has the out-of-service taint and is not ready: no pod runs on the node. */
const isOutOfService = (node: Node | undefined) =>
  node !== undefined &&
  (node.spec?.taints?.some(({ key }) => key === outOfServiceTaint) ?? false) &&
  !node.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True');
/** Returns true if the pod is being deleted and has no node: no kubelet will confirm the pod's termination. */
const isUnscheduledTerminating = (pod: Pod) => isTerminating(pod) && !pod.spec?.nodeName;
const isEvicted = ({ status }: Pod) => status?.phase === 'Failed' && status.reason === 'Evicted';
/** Compares terminated pods: evicted pods first, which no controller needs, then older pods, then by name. */
function byEvictionAndCreation(a: Pod, b: Pod): number {
  if (isEvicted(a) !== isEvicted(b)) return isEvicted(a) ? -1 : 1;
  const key = ({ metadata }: Pod) => `${metadata?.creationTimestamp ?? ''} ${metadata?.name ?? ''}`;
  return key(a) < key(b) ? -1 : 1;
}

interface PodGcControllerOptions {
  readonly pods: Informer<Pod>;
  readonly nodes: Informer<Node>;
  readonly clock: Clock;
  /** Number of terminated pods above which terminated pods are deleted, evicted and old ones first. 0: never. */
  readonly terminatedPodThreshold: number;
  /** Time in milliseconds for which a node must be missing before the node's pods are deleted. */
  readonly quarantineMs: number;
}

interface PodDeletion {
  /** Sets the pod's phase to Failed before the deletion, so that a Job counts the pod. */
  readonly markFailed: boolean;
  /** Adds the DisruptionTarget condition to the pod before the deletion. */
  readonly markDisrupted: boolean;
}

/**
 * Deletes pods that no kubelet deletes: pods of nodes that are deleted or out of service, deleted pods that were never scheduled, and the oldest
 * terminated pods above a threshold.
 */
export class PodGcController implements Controller {
  readonly name = 'pod-garbage-collector';
  readonly concurrentReconciles = 1;
  readonly watches;
  readonly #options: PodGcControllerOptions;
  /** Time since which each missing node is missing while pods refer to it, in milliseconds of the monotonic clock. */
  readonly #missingSince = new Map<string, number>();

  constructor(options: PodGcControllerOptions) {
    this.#options = options;
    const { pods, nodes } = options;
    pods.addIndexer(podsByNodeIndex, podNodeKeys);
    pods.addIndexer(terminatedIndex, terminatedPodKeys);
    this.watches = [
      watch(nodes, ({ metadata }) => [`${nodePrefix}${metadata?.name}`]),
      watch(pods, (pod, old) => this.#keysOfPod(pod, old)),
    ];
  }

  async reconcile(key: string, { client }: ReconcileContext): Promise<ReconcileResult | void> {
    if (key === terminatedKey) return this.#deleteTerminated(client);
    if (key.startsWith(podPrefix)) return this.#deleteTerminating(key.slice(podPrefix.length), client);
    return this.#deletePodsOfNode(key.slice(nodePrefix.length), client);
  }

  #keysOfPod(pod: Pod, old: Pod | undefined): readonly string[] {
    const { pods, nodes, terminatedPodThreshold } = this.#options;
    const keys: string[] = [];
    const node = pod.spec?.nodeName;
    if (node && (old === undefined || old.spec?.nodeName !== node) && nodes.get(node) === undefined) keys.push(`${nodePrefix}${node}`);
    if (this.#isStuckTerminating(pod)) keys.push(`${podPrefix}${objectKey(pod)}`);
    if (terminatedPodThreshold > 0 && isTerminal(pod) && pods.byIndex(terminatedIndex, 'all').length > terminatedPodThreshold)
      keys.push(terminatedKey);
    return keys;
  }

  #isStuckTerminating(pod: Pod): boolean {
    return isUnscheduledTerminating(pod) || (isTerminating(pod) && isOutOfService(this.#options.nodes.get(pod.spec?.nodeName ?? '')));
  }

  async #deleteTerminated(client: Client): Promise<void> {
    const { pods, terminatedPodThreshold } = this.#options;
    const terminated = pods.byIndex(terminatedIndex, 'all');
    const excess = Math.max(0, terminated.length - terminatedPodThreshold);
    for (const pod of terminated.toSorted(byEvictionAndCreation).slice(0, excess))
      await this.#delete(pod, client, { markFailed: false, markDisrupted: false });
  }

  async #deleteTerminating(key: string, client: Client): Promise<void> {
    const pod = this.#options.pods.get(key);
    if (pod !== undefined && this.#isStuckTerminating(pod)) await this.#delete(pod, client, { markFailed: true, markDisrupted: false });
  }

  async #deletePodsOfNode(name: string, client: Client): Promise<ReconcileResult | undefined> {
    const { pods, nodes: nodeInformer, clock, quarantineMs } = this.#options;
    const node = nodeInformer.get(name);
    if (isOutOfService(node))
      for (const pod of pods.byIndex(podsByNodeIndex, name))
        if (isTerminating(pod)) await this.#delete(pod, client, { markFailed: true, markDisrupted: false });
    const orphans = node === undefined ? pods.byIndex(podsByNodeIndex, name) : [];
    if (orphans.length === 0) {
      this.#missingSince.delete(name);
      return undefined;
    }
    const since = this.#missingSince.get(name) ?? clock.monotonic();
    this.#missingSince.set(name, since);
    const remainingMs = since + quarantineMs - clock.monotonic();
    if (remainingMs > 0) return { requeueAfterMs: remainingMs };
    // the cache may be stale
    if ((await ignoreNotFound(() => client.get(nodes, { name }))) !== undefined) return undefined;
    for (const pod of orphans) await this.#delete(pod, client, { markFailed: true, markDisrupted: true });
    this.#missingSince.delete(name);
    return undefined;
  }

  async #delete(pod: Pod, client: Client, { markFailed, markDisrupted }: PodDeletion): Promise<void> {
    // only finalizers keep such a pod
    if (isTerminal(pod) && isTerminating(pod) && pod.metadata?.deletionGracePeriodSeconds === 0) return;
    const preconditions = { uid: pod.metadata?.uid ?? '' };
    await ignoreNotFound(async () => {
      if (markFailed && !isTerminal(pod)) await this.#markFailed(pod, client, markDisrupted);
      await client.delete(podResource, objectName(pod), { gracePeriodSeconds: 0, preconditions });
    });
  }

  async #markFailed(pod: Pod, client: Client, markDisrupted: boolean): Promise<void> {
    const { uid, resourceVersion, generation } = pod.metadata ?? {};
    const observedGeneration = generation !== undefined && { observedGeneration: generation };
    const disrupted = {
      type: 'DisruptionTarget',
      ...observedGeneration,
      status: 'True',
      reason: 'DeletionByPodGC',
      message: 'PodGC: node no longer exists',
      lastTransitionTime: formatTime(this.#options.clock.now()),
    };
    const status = { phase: 'Failed', ...observedGeneration, ...(markDisrupted && { conditions: [disrupted] }) };
    // the RBAC role of the controller permits to patch pods/status, not to update it
    await client.patch(
      podResource,
      objectName(pod),
      'strategic',
      { metadata: { uid, resourceVersion }, status },
      { subresource: 'status' },
    );
  }
}

export default Controllers.plugin({
  id: 'controller-pod-gc',
  declares: { loop: 'pod-garbage-collector' },
  config: z.strictObject({
    /** Number of terminated pods above which terminated pods are deleted; 0 turns this off. */
    terminatedPodThreshold: z.number().int().min(0).default(12_500),
    /** Seconds for which a node must be missing before the node's pods are deleted. */
    quarantineSeconds: z.number().int().min(0).default(40),
  }),
  needs: { informers: Informers },
  create: ({ config, informers }, { clock }) =>
    new PodGcController({
      pods: informers.forResource(podResource),
      nodes: informers.forResource(nodes),
      clock,
      terminatedPodThreshold: config.terminatedPodThreshold,
      quarantineMs: config.quarantineSeconds * 1000,
    }),
});
