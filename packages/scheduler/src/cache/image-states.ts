import type { ImageState } from '@oarlock/spi/scheduling';

/** The images on the nodes, with the number of nodes that have each. */
export class ImageStates {
  readonly #states = new Map<string, { readonly sizeBytes: number; readonly nodes: Set<string> }>();

  get(image: string): ImageState | undefined {
    const state = this.#states.get(image);
    return state && { sizeBytes: state.sizeBytes, nodeCount: state.nodes.size };
  }

  /** Replaces the images of a node. As upstream, the size of an image is that on the first node that reported it. */
  replace(node: string, before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>): void {
    if (before === after) return;
    for (const image of before.keys()) if (!after.has(image)) this.#remove(node, image);
    for (const [image, sizeBytes] of after) {
      const state = this.#states.get(image);
      if (state) state.nodes.add(node);
      else this.#states.set(image, { sizeBytes, nodes: new Set([node]) });
    }
  }

  #remove(node: string, image: string): void {
    const nodes = this.#states.get(image)?.nodes;
    nodes?.delete(node);
    if (nodes?.size === 0) this.#states.delete(image);
  }
}
