import type { LocalKubelet, LocalNodes } from '@oarlock/spi/local-nodes';

/** Registry of the kubelets in this process by node name. */
export class LocalNodeRegistry implements LocalNodes {
  readonly #kubelets = new Map<string, LocalKubelet>();

  register(nodeNames: Iterable<string>, kubelet: LocalKubelet): () => void {
    const names = [...nodeNames];
    for (const name of names) this.#kubelets.set(name, kubelet);
    return () => {
      for (const name of names) if (this.#kubelets.get(name) === kubelet) this.#kubelets.delete(name);
    };
  }

  find(nodeName: string): LocalKubelet | undefined {
    return this.#kubelets.get(nodeName);
  }
}
