import { pods, services } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Informers } from '@oarlock/spi/client';
import { names } from './labels.ts';
import type { KubeletContext, PodRuntime } from './node-context.ts';
import type { NodeAgent } from './node/node-agent.ts';
import type { FoundPod } from './node/node-pods.ts';
import { PodLeftovers } from './pod-leftovers.ts';
import { attachmentOf } from './pod-sandbox.ts';
import { podUid } from './pods.ts';
import { isMirror } from './static/annotations.ts';
import type { StaticPods } from './static/static-pods.ts';
import type { Attachment } from '@oarlock/spi/network';

type Owned = FoundPod & { readonly owner: string };

/** Hands pods to the nodes they are bound to: those of the API, and at the beginning what the runtimes still have of earlier ones. */
export class PodSource {
  readonly #context: KubeletContext;
  readonly #agents: ReadonlyMap<string, NodeAgent>;
  #found = new Map<string, Owned>();

  #static: StaticPods | undefined;

  constructor(context: KubeletContext, agents: ReadonlyMap<string, NodeAgent>) {
    this.#context = context;
    this.#agents = agents;
  }

  /** Looks what the runtimes have of our nodes' pods. Returns the attachments of those that run on the node's network. */
  async look(runtimes: Iterable<PodRuntime>): Promise<readonly Attachment[]> {
    const held: Attachment[] = [];
    for (const runtime of runtimes) {
      for (const [owner, byUid] of await runtime.hub.found(this.#context.signal)) {
        for (const [uid, found] of byUid) {
          this.#found.set(uid, { runtime, found, owner });
          for (const {
            state,
            annotations,
            metadata: { namespace, name, attempt },
          } of found.sandboxes) {
            if (state === 'READY' && annotations[names.podIPs] !== undefined)
              held.push(attachmentOf({ uid, namespace, name, pod: {} }, attempt));
          }
        }
      }
    }
    return held;
  }

  /** What the runtimes have of a pod since before, once. */
  claim(uid: string): FoundPod | undefined {
    const found = this.#found.get(uid);
    this.#found.delete(uid);
    return found;
  }

  /** Who looks after mirrors. */
  mirrorsTo(pods: StaticPods): void {
    this.#static = pods;
  }

  /** Follows the API. Resolves when its first state was handed on, and what is not in it was given up. `nodeName`: one node only. */
  async follow(informers: Informers, nodeName: string | undefined): Promise<void> {
    const { signal, services: environment } = this.#context;
    const serviceInformer = informers.of(services);
    await serviceInformer.whenSynced(signal);
    serviceInformer.on({
      added: (service) => environment.changed(service),
      updated: (service) => environment.changed(service),
      deleted: (service) => environment.changed(service),
    });
    // with many nodes one watch of all pods costs less than one for each
    const informer = informers.of(pods, nodeName === undefined ? {} : { fieldSelector: `spec.nodeName=${nodeName}` });
    informer.on({
      added: (pod, cause) => {
        if (isMirror(pod)) {
          this.#static?.mirror(pod);
          return;
        }
        const uid = podUid(pod);
        this.#podsOf(pod)?.added(pod, cause, this.claim(uid));
      },
      updated: (pod, _old, cause) => (isMirror(pod) ? this.#static?.mirror(pod) : this.#podsOf(pod)?.updated(pod, cause)),
      deleted: (pod, cause) => (isMirror(pod) ? this.#static?.mirrorGone(pod) : this.#podsOf(pod)?.deleted(pod, cause)),
    });
    await informer.whenSynced(signal);
    this.#static?.synced();
    const owners = new Map([...this.#agents.values()].map((agent) => [agent.owner, agent]));
    for (const [uid, found] of this.#found) owners.get(found.owner)?.pods.orphan(uid, found);
    this.#found.clear();
    await new PodLeftovers(this.#context, (uid) =>
      [...this.#agents.values()].some(({ pods: known }) => known.get(uid) !== undefined),
    ).sweep();
  }

  #podsOf(pod: Pod) {
    return this.#agents.get(pod.spec?.nodeName ?? '')?.pods;
  }
}
