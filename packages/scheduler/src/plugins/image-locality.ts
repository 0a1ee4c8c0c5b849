import { Scheduling, skip, success, type PodInfo, type SchedulingPlugin, type Snapshot } from '@oarlock/spi/scheduling';
import { z } from 'zod';

const mebibyte = 1024 * 1024;
/** Image sizes in bytes below which and above which the score does not change (upstream's minThreshold and maxContainerThreshold). */
const minThreshold = 23 * mebibyte;
const maxContainerThreshold = 1000 * mebibyte;

const preScoreKey = Symbol('ImageLocality');

/** The images of the pod with their sizes in bytes, scaled by the share of the cluster's nodes that have the image, to prevent node heating. */
type ScaledImages = readonly (readonly [image: string, size: number])[];

/** Returns an image name with the default tag, as the image names in a node's status have. */
const normalizedImageName = (image: string) => (image.lastIndexOf(':') <= image.lastIndexOf('/') ? `${image}:latest` : image);

/** Returns the images of containers and image volumes. An image that occurs twice counts twice. */
function imagesOf({ pod: { spec } }: PodInfo): readonly string[] {
  const containers = [...(spec?.initContainers ?? []), ...(spec?.containers ?? [])].map(({ image = '' }) => image);
  return [...containers, ...(spec?.volumes ?? []).flatMap(({ image }) => (image ? [image.reference ?? ''] : []))].map(normalizedImageName);
}

function scaledImages(pod: PodInfo, snapshot: Snapshot): ScaledImages {
  return imagesOf(pod).flatMap((image): ScaledImages => {
    const state = snapshot.imageState(image);
    return state ? [[image, Math.floor(state.sizeBytes * (state.nodeCount / snapshot.nodes.length))]] : [];
  });
}

function scoreOf(size: number, { pod: { spec } }: PodInfo): number {
  // 1.36 does not count image volumes here
  const maxThreshold = maxContainerThreshold * Math.max(1, (spec?.containers.length ?? 1) + (spec?.initContainers?.length ?? 0));
  return Math.floor((100 * (Math.min(Math.max(size, minThreshold), maxThreshold) - minThreshold)) / (maxThreshold - minThreshold));
}

/** Prefers nodes that have the images of the pod. */
export const imageLocality = Scheduling.plugin({
  id: 'scheduling-image-locality',
  config: z.strictObject({}),
  create: (): SchedulingPlugin => ({
    name: 'ImageLocality',
    preScore(state, pod) {
      const images = scaledImages(pod, state.snapshot);
      if (images.length === 0) return skip;
      state.write<ScaledImages>(preScoreKey, images);
      return success;
    },
    score(state, pod, node) {
      let sum = 0;
      for (const [image, size] of state.read<ScaledImages>(preScoreKey) ?? []) if (node.images.has(image)) sum += size;
      return scoreOf(sum, pod);
    },
  }),
});
