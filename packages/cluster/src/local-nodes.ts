import type { KubeletDoor, LocalNodes } from '@oarlock/spi/local-nodes';

/** The kubelets of one process by the names of their nodes. */
export class NodesOfProcess implements LocalNodes {
  readonly #doors = new Map<string, KubeletDoor>();

  offer(nodeNames: Iterable<string>, door: KubeletDoor): () => void {
    const names = [...nodeNames];
    for (const name of names) this.#doors.set(name, door);
    return () => {
      for (const name of names) if (this.#doors.get(name) === door) this.#doors.delete(name);
    };
  }

  find(nodeName: string): KubeletDoor | undefined {
    return this.#doors.get(nodeName);
  }
}
