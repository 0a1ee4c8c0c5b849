import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Pod, VolumeMount } from '@oarlock/api/types/core-v1';
import type { Device, IdMappings, Mount } from '@oarlock/spi/runtime';
import { expand } from './expansion.ts';
import { hostNetworkHostsFile, hostsFile, podHostname } from './hosts-file.ts';
import type { NodeContext } from './node-context.ts';
import type { ContainerRequest } from './pod-config.ts';
import { isHostNetwork, podUid } from './pods.ts';
import { mountsImages } from './volumes/image-volumes.ts';
import { mayChangeOwners } from './volumes/ownership.ts';
import { prepareSubPath } from './volumes/sub-path.ts';

/** Volumes that the container has as block devices. @throws Error for one that is not there */
export function blockDevices({ container, volumes }: ContainerRequest): readonly Device[] {
  return (container.volumeDevices ?? []).map(({ name, devicePath }) => {
    const volume = volumes.get(name);
    if (volume?.device !== true) throw new Error(`cannot find volume "${name}" to pass into container "${container.name}"`);
    return { containerPath: devicePath, hostPath: volume.hostPath, permissions: volume.readOnly ? 'r' : 'mrw' };
  });
}

const propagations: Readonly<Record<string, NonNullable<Mount['propagation']>>> = {
  HostToContainer: 'HOST_TO_CONTAINER',
  Bidirectional: 'BIDIRECTIONAL',
};

/** Whether mounts below this one are to be read-only as well, where the runtime can (KEP-3857). */
export const isRecursive = ({ recursiveReadOnly }: Pick<VolumeMount, 'recursiveReadOnly'>): boolean =>
  recursiveReadOnly === 'Enabled' || recursiveReadOnly === 'IfPossible';

/** What a container sees of the node: its volumes, the pod's hosts file, and where its termination message goes. */
export async function mountsOf(
  request: ContainerRequest,
  lookup: (name: string) => string | undefined,
  users: IdMappings | undefined,
): Promise<readonly Mount[]> {
  const { pod, container, node, restartCount, podIPs } = request;
  const mounts: Mount[] = [];
  for (const [index, mount] of (container.volumeMounts ?? []).entries()) {
    const volume = request.volumes.get(mount.name);
    if (!volume) throw new Error(`cannot find volume "${mount.name}" to mount into container "${container.name}"`);
    const subPath = subPathOf(mount, lookup);
    const recursive = request.runtime.hub.supports(request.handler ?? '', 'recursiveReadOnlyMounts');
    if (mount.recursiveReadOnly === 'Enabled' && !recursive)
      throw new Error(`volume "${mount.name}" requested recursive read-only mode, but it is not supported by the runtime`);
    const image = request.mountedImages?.get(mount.name);
    if (image !== undefined) {
      const { hub } = request.runtime;
      if (!mountsImages(hub)) throw new Error(`volume "${mount.name}" is an image, and ${hub.name} ${hub.version} does not mount images`);
      mounts.push({
        containerPath: mount.mountPath,
        hostPath: '',
        readonly: true,
        image,
        ...(subPath !== undefined && { imageSubPath: subPath }),
      });
      continue;
    }
    const hostPath =
      subPath === undefined
        ? volume.hostPath
        : await prepareSubPath({
            volumePath: volume.hostPath,
            subPath,
            target: mayChangeOwners() ? node.paths.subPath(podUid(pod), mount.name, container.name, index) : undefined,
          });
    const propagation = propagations[mount.mountPropagation ?? ''];
    mounts.push({
      containerPath: mount.mountPath,
      hostPath,
      ...(mount.readOnly && { readonly: true }),
      ...(mount.readOnly && recursive && isRecursive(mount) && { recursiveReadOnly: true }),
      ...(propagation && { propagation }),
    });
  }
  const taken = new Set(mounts.map(({ containerPath }) => containerPath));
  if (!taken.has('/etc/hosts')) mounts.push({ containerPath: '/etc/hosts', hostPath: await writeHosts(pod, podIPs, node) });
  const messagePath = container.terminationMessagePath ?? '/dev/termination-log';
  if (messagePath !== '') {
    const file = node.paths.terminationLog(podUid(pod), container.name, restartCount);
    await mkdir(dirname(file), { recursive: true, mode: 0o755 });
    await writeFile(file, '', { mode: 0o666 });
    await chmod(file, 0o666); // the container's user may be any
    mounts.push({ containerPath: messagePath, hostPath: file });
  }
  return users ? mounts.map((mount) => (mount.image === undefined ? { ...mount, idMappings: users } : mount)) : mounts;
}

function subPathOf({ subPath, subPathExpr }: VolumeMount, lookup: (name: string) => string | undefined): string | undefined {
  if (!subPathExpr) return subPath || undefined;
  return expand(subPathExpr, (name) => {
    const value = lookup(name);
    if (value === undefined) throw new Error(`failed to expand subPathExpr: missing value for "${name}"`);
    return value;
  });
}

async function writeHosts(pod: Pod, podIPs: readonly string[], node: NodeContext): Promise<string> {
  const file = node.paths.hosts(podUid(pod));
  const text = isHostNetwork(pod)
    ? hostNetworkHostsFile(pod, await readFile('/etc/hosts', 'utf8').catch(() => '127.0.0.1\tlocalhost\n'))
    : hostsFile(pod, podIPs, podHostname(pod, { hostname: node.hostname, domain: node.facts.domain }));
  await mkdir(dirname(file), { recursive: true, mode: 0o750 });
  await writeFile(file, text, { mode: 0o644 });
  await chmod(file, 0o644);
  return file;
}
