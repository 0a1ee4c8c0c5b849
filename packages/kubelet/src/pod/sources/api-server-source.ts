import { pods, services } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Informers } from '@oarlock/spi/client';
import { runtimeLabels } from '../../runtime/labels.ts';
import type { ApiAccess, PodRuntime } from '../node-context.ts';
import type { NodeAgent } from '../../node/node-agent.ts';
import type { AdoptedPod } from '../worker/pod-workers.ts';
import { OrphanedPodDirs, type OrphanedPodDirsContext } from '../../node/orphaned-pod-dirs.ts';
import { networkAttachmentOf } from '../../kuberuntime/pod-sandbox.ts';
import { podUid } from '../../pod-util/pods.ts';
import { isMirrorPod } from '../../pod-util/config-source.ts';
import type { StaticPodSource } from './static-pod-source.ts';
import type { Attachment } from '@oarlock/spi/network';

type ApiServerSourceContext = OrphanedPodDirsContext & Pick<ApiAccess, 'serviceEnvironment'>;
type OwnedRuntimePod = AdoptedPod & { readonly owner: string };

/** The pod source `api`, which passes each pod to the node that the pod is bound to, together with the pod's state in the runtime at startup. */
export class ApiServerSource {
  readonly #context: ApiServerSourceContext;
  readonly #agents: ReadonlyMap<string, NodeAgent>;
  #runtimePods = new Map<string, OwnedRuntimePod>();

  #static: StaticPodSource | undefined;

  constructor(context: ApiServerSourceContext, agents: ReadonlyMap<string, NodeAgent>) {
    this.#context = context;
    this.#agents = agents;
  }

  /** Lists the pods of this process's nodes in the runtimes. Returns the network attachments of pods that use the node's network namespace. */
  async listRuntimePods(runtimes: Iterable<PodRuntime>): Promise<readonly Attachment[]> {
    const held: Attachment[] = [];
    for (const runtime of runtimes) {
      for (const [owner, byUid] of await runtime.pleg.listPods(this.#context.signal)) {
        for (const [uid, found] of byUid) {
          this.#runtimePods.set(uid, { runtime, found, owner });
          for (const {
            state,
            annotations,
            metadata: { namespace, name, attempt },
          } of found.sandboxes) {
            if (state === 'READY' && annotations[runtimeLabels.podIPs] !== undefined)
              held.push(networkAttachmentOf({ uid, namespace, name, pod: {} }, attempt));
          }
        }
      }
    }
    return held;
  }

  /** Removes and returns the state that a pod had in the runtime at startup; undefined if the runtime did not have the pod. */
  takeRuntimePod(uid: string): AdoptedPod | undefined {
    const found = this.#runtimePods.get(uid);
    this.#runtimePods.delete(uid);
    return found;
  }

  /** Sets the static pod source, which receives mirror pods. */
  setMirrorHandler(pods: StaticPodSource): void {
    this.#static = pods;
  }

  /**
   * Watches pods and Services. Resolves when the initial pods were passed on and orphaned pods are being terminated. `nodeName` limits the watch to
   * the pods of one node.
   */
  async start(informers: Informers, nodeName: string | undefined): Promise<void> {
    const { signal, serviceEnvironment: environment } = this.#context;
    const serviceInformer = informers.forResource(services);
    await serviceInformer.whenSynced(signal);
    serviceInformer.addEventHandler({
      onAdd: (service) => environment.changed(service),
      onUpdate: (service) => environment.changed(service),
      onDelete: (service) => environment.changed(service),
    });
    // with many nodes one watch of all pods is cheaper than one per node
    const informer = informers.forResource(pods, nodeName === undefined ? {} : { fieldSelector: `spec.nodeName=${nodeName}` });
    informer.addEventHandler({
      onAdd: (pod, spanContext) => {
        if (isMirrorPod(pod)) {
          this.#static?.mirrorPodUpdated(pod);
          return;
        }
        const uid = podUid(pod);
        this.#podsOf(pod)?.podAdded(pod, { spanContext, found: this.takeRuntimePod(uid) });
      },
      onUpdate: (pod, _old, spanContext) =>
        isMirrorPod(pod) ? this.#static?.mirrorPodUpdated(pod) : this.#podsOf(pod)?.podUpdated(pod, spanContext),
      onDelete: (pod, spanContext) =>
        isMirrorPod(pod) ? this.#static?.mirrorPodDeleted(pod) : this.#podsOf(pod)?.podDeleted(pod, spanContext),
    });
    await informer.whenSynced(signal);
    this.#static?.mirrorPodsSynced();
    const owners = new Map([...this.#agents.values()].map((agent) => [agent.owner, agent]));
    for (const [uid, found] of this.#runtimePods) owners.get(found.owner)?.pods.terminateOrphan(uid, found);
    this.#runtimePods.clear();
    await new OrphanedPodDirs(this.#context, (uid) =>
      [...this.#agents.values()].some(({ pods: known }) => known.get(uid) !== undefined),
    ).cleanup();
  }

  #podsOf(pod: Pod) {
    return this.#agents.get(pod.spec?.nodeName ?? '')?.pods;
  }
}
