import { mkdirSync, realpathSync, statSync } from 'node:fs';
import { SupervisorError } from '@oarlock/process-supervisor/protocol/supervisor-protocol';
import type { Mount } from '@oarlock/spi/runtime';

/**
 * Resolves the links in the sources of a container's mounts on the node, because a container without an OCI runtime mounts them below another root.
 * Creates missing sources as directories, as other runtimes do.
 * @throws SupervisorError `FailedPrecondition` if a source is not the file that the kubelet checked
 */
export function resolveMountSources(mounts: readonly Mount[]): readonly Mount[] {
  return mounts.map((mount) => (mount.image === undefined ? { ...mount, hostPath: resolveSource(mount) } : mount));
}

function resolveSource({ hostPath, containerPath, checkedFile }: Mount): string {
  if (!statSync(hostPath, { throwIfNoEntry: false })) mkdirSync(hostPath, { recursive: true, mode: 0o755 });
  const path = realpathSync(hostPath);
  const { dev, ino } = statSync(path, { bigint: true });
  if (checkedFile !== undefined && checkedFile !== `${dev}:${ino}`)
    throw new SupervisorError('FailedPrecondition', `the source of the mount at ${containerPath} changed after the kubelet checked it`);
  return path;
}
