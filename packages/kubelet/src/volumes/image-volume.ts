import type { Container, EphemeralContainer, Pod, Volume } from '@oarlock/api/types/core-v1';
import type { VolumeDriver } from '@oarlock/spi/volume';
import type { ImageManager, ImageRequest } from '../images/image-manager.ts';

/** The first version of each runtime that can mount images (KEP-4639). */
const since: Readonly<Record<string, readonly [major: number, minor: number]>> = {
  containerd: [2, 1],
  'cri-o': [1, 31],
  docker: [28, 0],
  oci: [0, 0],
  simulated: [0, 0],
};

/** Returns true if the runtime can mount images, which is determined from the runtime's name and version. */
export function supportsImageVolumes({ name, version }: { readonly name: string; readonly version: string }): boolean {
  const first = since[name.toLowerCase()];
  const [major = 0, minor = 0] = (/(\d+)\.(\d+)/.exec(version) ?? []).slice(1).map(Number);
  return first !== undefined && (major > first[0] || (major === first[0] && minor >= first[1]));
}

/** The driver of image volumes. The runtime mounts the images, so the kubelet creates no files for such a volume. */
export class ImageVolumeDriver implements VolumeDriver {
  supports(volume: Volume): boolean {
    return volume.image !== undefined;
  }
  mount(): Promise<{ readonly hostPath: string }> {
    return Promise.resolve({ hostPath: '' });
  }
  unmount(): Promise<void> {
    return Promise.resolve();
  }
}

/** The container whose image volumes are pulled. */
export interface ImageVolumePull {
  readonly container: Container | EphemeralContainer;
  readonly images: ImageManager;
  readonly request: Omit<ImageRequest, 'pod' | 'container'>;
}

/** Pulls the images of the image volumes that a container mounts, and returns the images keyed by volume name. @throws ImageError if a pull fails */
export async function pullVolumeImages(pod: Pod, { container, images, request }: ImageVolumePull): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>();
  for (const { name, image } of pod.spec?.volumes ?? []) {
    if (image === undefined || !container.volumeMounts?.some((mount) => mount.name === name)) continue;
    const { reference = '', pullPolicy } = image;
    const asked = { ...container, image: reference, ...(pullPolicy !== undefined && { imagePullPolicy: pullPolicy }) };
    found.set(name, (await images.ensureImageExists({ ...request, pod, container: asked })).reference);
  }
  return found;
}
