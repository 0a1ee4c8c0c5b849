import { hostImage, RuntimeError, type Image } from '@oarlock/spi/runtime';

export function describeHostImage(): Image {
  const uid = process.getuid?.();
  return { id: hostImage, repoTags: [hostImage], repoDigests: [], sizeBytes: 0, pinned: true, ...(uid !== undefined && { uid }) };
}

export function unsupportedImage(reference: string): RuntimeError {
  return new RuntimeError(
    'Unsupported',
    `image ${JSON.stringify(reference)} cannot be run by runtime-process, which runs programs of this host under the image name "host"; runtimes that run images: runtime-oci (no daemon), runtime-containerd (containerd, CRI-O) and runtime-docker, and runtime-simulated, which runs nothing`,
  );
}
