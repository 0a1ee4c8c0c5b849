import { existsSync } from 'node:fs';
import { posix } from 'node:path';
import type { ContainerConfig, Mount } from '@oarlock/spi/runtime';
import type { DeviceSource } from './devices.ts';
import type { SpecMount } from './runtime-spec.ts';

export interface MountSources {
  /** Directory of the pod's shared memory; undefined for a tmpfs of the container's own. */
  readonly shm: string | undefined;
  /** Files that runtimes create, by the path that the container sees. */
  readonly files: Readonly<Record<string, string>>;
  /** Directories or files of image volumes, by the index of the mount. */
  readonly volumes: Readonly<Record<string, string>>;
  readonly privileged: boolean;
  /** Kernel file systems of the node that the container shares and cannot mount anew. */
  readonly ofNode: { readonly processes: boolean; readonly messageQueues: boolean };
  /** Devices of the node that the container sees. */
  readonly devices: readonly DeviceSource[];
}

const kernelMounts = ({ privileged, ofNode }: MountSources): readonly SpecMount[] => [
  ofNode.processes
    ? { destination: '/proc', type: 'bind', source: '/proc', options: ['rbind', 'rprivate', 'rw'] }
    : { destination: '/proc', type: 'proc', source: 'proc', options: ['nosuid', 'noexec', 'nodev'] },
  { destination: '/dev', type: 'tmpfs', source: 'tmpfs', options: ['nosuid', 'strictatime', 'mode=755', 'size=65536k'] },
  {
    destination: '/dev/pts',
    type: 'devpts',
    source: 'devpts',
    options: ['nosuid', 'noexec', 'newinstance', 'ptmxmode=0666', 'mode=0620', 'gid=5'],
  },
  ...messageQueues(ofNode.messageQueues),
  { destination: '/sys', type: 'sysfs', source: 'sysfs', options: ['nosuid', 'noexec', 'nodev', privileged ? 'rw' : 'ro'] },
  {
    destination: '/sys/fs/cgroup',
    type: 'cgroup',
    source: 'cgroup',
    options: ['nosuid', 'noexec', 'nodev', 'relatime', privileged ? 'rw' : 'ro'],
  },
];

/** The node may not have mounted its message queues. */
function messageQueues(ofNode: boolean): readonly SpecMount[] {
  const destination = '/dev/mqueue';
  if (!ofNode) return [{ destination, type: 'mqueue', source: 'mqueue', options: ['nosuid', 'noexec', 'nodev'] }];
  return existsSync(destination) ? [{ destination, type: 'bind', source: destination, options: ['rbind', 'rprivate', 'rw'] }] : [];
}

/** Returns the mounts of a container, in the order in which they are made. A mount of the pod replaces a default mount at the same path. */
export function containerMounts(config: ContainerConfig, sources: MountSources): readonly SpecMount[] {
  const { shm, files, volumes } = sources;
  const own = config.mounts
    .map((mount, index) => volumeMount(mount, volumes[index]))
    .sort((a, b) => depth(a.destination) - depth(b.destination));
  const replaced = new Set(own.map(({ destination }) => destination));
  const memory: SpecMount =
    shm === undefined
      ? { destination: '/dev/shm', type: 'tmpfs', source: 'shm', options: ['nosuid', 'noexec', 'nodev', 'mode=1777', 'size=65536k'] }
      : { destination: '/dev/shm', type: 'bind', source: shm, options: ['rbind', 'rprivate', 'rw'] };
  const runtimeFiles = Object.entries(files).map(
    ([destination, source]): SpecMount => ({ destination, type: 'bind', source, options: ['bind', 'rprivate', 'rw'] }),
  );
  const devices = sources.devices.map(
    ({ destination, source }): SpecMount => ({ destination, type: 'bind', source, options: ['bind', 'rprivate', 'rw'] }),
  );
  const defaults = [...kernelMounts(sources), memory, ...devices, ...runtimeFiles].filter(({ destination }) => !replaced.has(destination));
  return [...defaults, ...own];
}

/** True if a mount of the container sends its mounts to the node, so that the container's root must not be private. */
export function rootPropagation(mounts: readonly Mount[]): string | undefined {
  if (mounts.some(({ propagation }) => propagation === 'BIDIRECTIONAL')) return 'rshared';
  return mounts.some(({ propagation }) => propagation === 'HOST_TO_CONTAINER') ? 'rslave' : undefined;
}

function volumeMount(mount: Mount, imageVolume: string | undefined): SpecMount {
  const propagation = { PRIVATE: 'rprivate', HOST_TO_CONTAINER: 'rslave', BIDIRECTIONAL: 'rshared' }[mount.propagation ?? 'PRIVATE'];
  const access = mount.readonly !== true && imageVolume === undefined ? 'rw' : mount.recursiveReadOnly ? 'rro' : 'ro';
  return {
    destination: posix.resolve('/', mount.containerPath),
    type: 'bind',
    source: imageVolume ?? mount.hostPath,
    options: ['rbind', propagation, access],
  };
}

const depth = (path: string) => path.split('/').length;
