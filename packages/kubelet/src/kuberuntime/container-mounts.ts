import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Container, EphemeralContainer, Pod, VolumeMount } from '@oarlock/api/types/core-v1';
import type { Device, IdMappings, Mount } from '@oarlock/spi/runtime';
import { expand } from '../pod-util/expansion.ts';
import { nodeHostsFile, hostsFile, podHostname } from '../pod/environment/hosts-file.ts';
import type { NodePaths } from '../config/node-paths.ts';
import type { PodVolumes } from '../volumes/volume-manager.ts';
import { isHostNetwork, podUid } from '../pod-util/pods.ts';
import { supportsImageVolumes } from '../volumes/image-volume.ts';
import { canMount } from '../volumes/file-ownership.ts';
import { prepareSafeSubPath } from '../volumes/sub-path.ts';

/** The container whose mounts are generated, and the inputs of its mounts. */
export interface MountRequest {
  readonly pod: Pod;
  readonly container: Container | EphemeralContainer;
  readonly restartCount: number;
  readonly podIPs: readonly string[];
  readonly volumes: PodVolumes;
  /** The images of image volumes to mount, keyed by volume name. */
  readonly mountedImages?: ReadonlyMap<string, string>;
  /** The runtime handler of the pod's RuntimeClass; empty without a RuntimeClass. */
  readonly handler?: string;
  readonly runtime: {
    readonly pleg: {
      readonly name: string;
      readonly version: string;
      supports(handler: string, feature: 'recursiveReadOnlyMounts'): boolean;
    };
  };
  readonly node: { readonly paths: NodePaths; readonly hostname: string; readonly facts: { readonly domain: string } };
}

/** Returns the container's volumeDevices as CRI devices. @throws Error if a volume does not exist */
export function blockDevices({ container, volumes }: MountRequest): readonly Device[] {
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

/** Returns true if the mounts below this read-only mount must be read-only as well, provided that the runtime supports it (KEP-3857). */
export const wantsRecursiveReadOnly = ({ recursiveReadOnly }: Pick<VolumeMount, 'recursiveReadOnly'>): boolean =>
  recursiveReadOnly === 'Enabled' || recursiveReadOnly === 'IfPossible';

/** Returns the container's mounts: its volumes, the pod's hosts file, and the termination message file, which this function creates. */
export async function generateMounts(
  request: MountRequest,
  lookup: (name: string) => string | undefined,
  users: IdMappings | undefined,
): Promise<readonly Mount[]> {
  const { pod, container, node, restartCount, podIPs } = request;
  const mounts: Mount[] = [];
  for (const [index, mount] of (container.volumeMounts ?? []).entries()) {
    const volume = request.volumes.get(mount.name);
    if (!volume) throw new Error(`cannot find volume "${mount.name}" to mount into container "${container.name}"`);
    const subPath = subPathOf(mount, lookup);
    const recursive = request.runtime.pleg.supports(request.handler ?? '', 'recursiveReadOnlyMounts');
    if (mount.recursiveReadOnly === 'Enabled' && !recursive)
      throw new Error(`volume "${mount.name}" requested recursive read-only mode, but it is not supported by the runtime`);
    const image = request.mountedImages?.get(mount.name);
    if (image !== undefined) {
      const { pleg } = request.runtime;
      if (!supportsImageVolumes(pleg))
        throw new Error(`volume "${mount.name}" is an image, and ${pleg.name} ${pleg.version} does not mount images`);
      mounts.push({
        containerPath: mount.mountPath,
        hostPath: '',
        readonly: true,
        image,
        ...(subPath !== undefined && { imageSubPath: subPath }),
      });
      continue;
    }
    const source =
      subPath === undefined
        ? { hostPath: volume.hostPath }
        : await prepareSafeSubPath({
            volumePath: volume.hostPath,
            subPath,
            target: canMount() ? node.paths.subPath(podUid(pod), { volume: mount.name, container: container.name, index }) : undefined,
          });
    const propagation = propagations[mount.mountPropagation ?? ''];
    mounts.push({
      containerPath: mount.mountPath,
      ...source,
      ...((mount.readOnly || volume.readOnly) && { readonly: true }),
      ...(mount.readOnly && recursive && wantsRecursiveReadOnly(mount) && { recursiveReadOnly: true }),
      ...(propagation && { propagation }),
    });
  }
  const mountPaths = new Set(mounts.map(({ containerPath }) => containerPath));
  if (!mountPaths.has('/etc/hosts')) mounts.push({ containerPath: '/etc/hosts', hostPath: await writeHosts(pod, podIPs, node) });
  const messagePath = container.terminationMessagePath ?? '/dev/termination-log';
  if (messagePath !== '') {
    const file = node.paths.terminationLog(podUid(pod), container.name, restartCount);
    await mkdir(dirname(file), { recursive: true, mode: 0o755 });
    await writeFile(file, '', { mode: 0o666 });
    await chmod(file, 0o666); // the container may run as any user
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

async function writeHosts(pod: Pod, podIPs: readonly string[], node: MountRequest['node']): Promise<string> {
  const file = node.paths.hosts(podUid(pod));
  const text = isHostNetwork(pod)
    ? nodeHostsFile(pod, await readFile('/etc/hosts', 'utf8').catch(() => '127.0.0.1\tlocalhost\n'))
    : hostsFile(pod, podIPs, podHostname(pod, { hostname: node.hostname, domain: node.facts.domain }));
  await mkdir(dirname(file), { recursive: true, mode: 0o750 });
  await writeFile(file, text, { mode: 0o644 });
  await chmod(file, 0o644);
  return file;
}
