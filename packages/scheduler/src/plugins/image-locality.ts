import { Scheduling, skip, success, type NodeInfo, type PodInfo, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { z } from 'zod';

const mebibyte = 1024 * 1024;
/** Image sizes in bytes below which and above which the score does not change (upstream's minThreshold and maxContainerThreshold). */
const minThreshold = 23 * mebibyte;
const maxContainerThreshold = 1000 * mebibyte;

const preScoreKey = Symbol('ImageLocality');

interface PreScoreState {
  readonly images: readonly string[];
  /** The number of feasible nodes that have each image. */
  readonly nodeCounts: ReadonlyMap<string, number>;
}

/** Returns an image name with the default tag, as the image names in a node's status have. */
const normalizedImageName = (image: string) => (/[:@][^/]*$/.test(image) ? image : `${image}:latest`);

/**
 * Returns the total size in bytes of the pod's images that the node has. Scales each size by the share of nodes that have the image, to prevent
 * node heating.
 */
function sumImageSizes({ images, nodeCounts }: PreScoreState, node: NodeInfo, totalNodes: number): number {
  let sum = 0;
  for (const image of images) sum += Math.floor((node.images.get(image) ?? 0) * ((nodeCounts.get(image) ?? 0) / Math.max(1, totalNodes)));
  return sum;
}

function scoreOf(size: number, { pod: { spec } }: PodInfo): number {
  const maxThreshold = maxContainerThreshold * Math.max(1, (spec?.containers.length ?? 1) + (spec?.initContainers?.length ?? 0));
  return Math.floor((100 * (Math.min(Math.max(size, minThreshold), maxThreshold) - minThreshold)) / (maxThreshold - minThreshold));
}

/** Prefers nodes that have the images of the pod. */
export const imageLocality = Scheduling.plugin({
  id: 'scheduling-image-locality',
  config: z.strictObject({}),
  create: (): SchedulingPlugin => ({
    name: 'ImageLocality',
    preScore(state, { pod }, nodes) {
      const images = [...(pod.spec?.initContainers ?? []), ...(pod.spec?.containers ?? [])].map(({ image = '' }) =>
        normalizedImageName(image),
      );
      const nodeCounts = new Map(
        images.map((image) => [image, nodes.reduce((count, node) => count + (node.images.has(image) ? 1 : 0), 0)]),
      );
      if ([...nodeCounts.values()].every((count) => count === 0)) return skip;
      state.write<PreScoreState>(preScoreKey, { images, nodeCounts });
      return success;
    },
    score(state, pod, node) {
      const preScore = state.read<PreScoreState>(preScoreKey);
      return preScore === undefined ? 0 : scoreOf(sumImageSizes(preScore, node, state.snapshot.nodes.length), pod);
    },
  }),
});
