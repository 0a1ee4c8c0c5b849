import { dirname, basename } from 'node:path';
import { SupervisorError } from '@oarlock/process-supervisor/protocol/supervisor-protocol';
import { lockedFlags, type MountEntry } from '@oarlock/process-supervisor/host/mount-table';
import type { RuntimeSpec, SpecMount } from '../spec/runtime-spec.ts';

/** With which rights containers are made: those of root, or those that an ordinary user has in a user namespace. */
export type UnshareMode = 'root' | 'user';

export interface OperationContext {
  readonly mode: UnshareMode;
  /** The mounts of the node, whose flags a user namespace must keep. */
  readonly table: readonly MountEntry[];
  /** The container's directories in the hierarchies of control groups. */
  readonly cgroups: readonly string[];
}

const devices = ['null', 'zero', 'full', 'random', 'urandom', 'tty'] as const;
const links = [
  ['/proc/self/fd', '/dev/fd'],
  ['/proc/self/fd/0', '/dev/stdin'],
  ['/proc/self/fd/1', '/dev/stdout'],
  ['/proc/self/fd/2', '/dev/stderr'],
  ['pts/ptmx', '/dev/ptmx'],
] as const;
const kernelFlags = 'nosuid,nodev,noexec';

/** Returns the operations of the script `makeRoot` for the mounts, devices and restrictions of a container. @throws SupervisorError `Unsupported` */
export function rootOperations(spec: RuntimeSpec, context: OperationContext): readonly string[] {
  const { linux, mounts, root } = spec;
  const own = linux.namespaces.map(({ type }) => type);
  return [
    ...mounts.flatMap((mount) => mountOperation(mount, own, context)),
    ...devices.flatMap((name) => ['bind', `/dev/${name}`, `/dev/${name}`, deviceFlags(`/dev/${name}`, context)]),
    ...links.flatMap((link) => ['link', ...link]),
    ...linux.maskedPaths.flatMap((path) => ['mask', path]),
    ...linux.readonlyPaths.flatMap((path) => ['readonly', path]),
    ...(root.readonly ? ['root-readonly'] : []),
  ];
}

/** Returns the flags of a device of the node. Root may change the mode and owner of a device, but not through a read-only mount, which programs may write to. */
function deviceFlags(path: string, { mode, table }: OperationContext): string {
  return mode === 'root' ? ['ro', ...lockedFlags(path, table)].join(',') : '';
}

function mountOperation(mount: SpecMount, own: readonly string[], { mode, table, cgroups }: OperationContext): readonly string[] {
  const { destination, type, source, options } = mount;
  const plain = options.filter((option) => !/^r?(?:private|slave|shared)$/.test(option));
  if (destination === '/dev' && type === 'tmpfs') return []; // the script makes it before the others
  if (type === 'bind') {
    if (options.includes('rshared'))
      throw new SupervisorError('Unsupported', `mount propagation of ${destination} to the node needs an OCI runtime`);
    const readonly = options.includes('ro') || options.includes('rro');
    return ['bind', source, destination, readonly ? ['ro', ...lockedFlags(source, table)].join(',') : ''];
  }
  if (type === 'cgroup') return cgroupOperations(destination, cgroups);
  // the kernel lets only the owner of the network and IPC namespaces mount these
  if (type === 'sysfs' && mode === 'user') return ['bind', '/sys', destination, `ro,${kernelFlags}`];
  const kept = type === 'devpts' && mode === 'user' ? plain.filter((option) => !option.startsWith('gid=')) : plain;
  return ['mount', type, source, destination, kept.join(',')];
}

function cgroupOperations(destination: string, cgroups: readonly string[]): readonly string[] {
  if (cgroups.length === 0) return [];
  if (cgroups.length === 1) return ['bind', cgroups[0] ?? '', destination, `ro,${kernelFlags}`];
  const hierarchies = cgroups.flatMap((directory) => {
    const hierarchy = /^\/sys\/fs\/cgroup\/([^/]+)\//.exec(`${dirname(directory)}/`)?.[1] ?? basename(directory);
    return ['bind', directory, `${destination}/${hierarchy}`, `ro,${kernelFlags}`];
  });
  return ['mount', 'tmpfs', 'tmpfs', destination, `${kernelFlags},mode=755,size=64k`, ...hierarchies];
}
