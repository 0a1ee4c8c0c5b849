import type { RuntimeFeatures } from '@oarlock/spi/runtime';
import type { EngineInfo } from './engine-shapes.ts';

/** The minor versions of the API from which on containers can have it. */
export const since = {
  /** A mount says whether those below it are read-only as well: 25.0. */
  recursiveReadOnly: 44,
  /** Images are mounted: 28.0. */
  imageMounts: 48,
} as const;

/** The first kernel that makes mounts read-only together with those below them. */
const recursiveKernel = [5, 12] as const;

/** Handlers are the OCI runtimes that the engine knows by a name of their own. It maps users for all of its containers or for none. */
export function featuresOf({ Runtimes, KernelVersion }: EngineInfo, minor: number): RuntimeFeatures {
  const [major = 0, patch = 0] = KernelVersion.split('.').map((part) => Number.parseInt(part, 10));
  const able = major > recursiveKernel[0] || (major === recursiveKernel[0] && patch >= recursiveKernel[1]);
  const recursiveReadOnlyMounts = able && minor >= since.recursiveReadOnly;
  const handlers = ['', ...Object.keys(Runtimes ?? {})];
  return {
    handlers: handlers.map((name) => ({ name, recursiveReadOnlyMounts, userNamespaces: false })),
    supplementalGroupsPolicy: false,
  };
}
