import type { RuntimeFeatures } from '@oarlock/spi/runtime';
import type { EngineInfo } from './engine-types.ts';

/** The minor API version that introduced each feature. */
export const since = {
  /** Read-only mounts with an explicit recursive or non-recursive mode: Docker 25.0. */
  recursiveReadOnly: 44,
  /** Image mounts: Docker 28.0. */
  imageMounts: 48,
} as const;

/** The first kernel version with recursive read-only mounts (`mount_setattr`). */
const recursiveKernel = [5, 12] as const;

/**
 * Returns the features of an engine. The handlers are the engine's named OCI runtimes. User namespaces are not supported, because the engine maps
 * users for all containers or for none.
 */
export function featuresOf({ Runtimes, KernelVersion }: EngineInfo, minor: number): RuntimeFeatures {
  const [major = 0, patch = 0] = KernelVersion.split('.').map((part) => Number.parseInt(part, 10));
  const kernelSupported = major > recursiveKernel[0] || (major === recursiveKernel[0] && patch >= recursiveKernel[1]);
  const recursiveReadOnlyMounts = kernelSupported && minor >= since.recursiveReadOnly;
  const handlers = ['', ...Object.keys(Runtimes ?? {})];
  return {
    handlers: handlers.map((name) => ({ name, recursiveReadOnlyMounts, userNamespaces: false })),
    supplementalGroupsPolicy: false,
  };
}
