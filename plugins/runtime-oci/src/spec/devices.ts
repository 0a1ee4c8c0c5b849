import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { SupervisorError } from '@oarlock/process-supervisor/protocol/supervisor-protocol';
import type { Device } from '@oarlock/spi/runtime';
import type { SpecDevice, SpecDeviceRule } from './runtime-spec.ts';

export interface ContainerDevices {
  readonly devices: readonly SpecDevice[];
  readonly rules: readonly SpecDeviceRule[];
  /** Where the devices are on the node, for containers that cannot have devices of their own. */
  readonly sources: readonly DeviceSource[];
}
export interface DeviceSource {
  readonly source: string;
  readonly destination: string;
}

/** Devices that every container has, as far as the container may have them at all. */
const ownDevices = new Set(['console', 'ptmx', 'null', 'zero', 'full', 'random', 'urandom', 'tty']);
/** Directories below /dev that every container has for itself. */
const ownDirectories = new Set(['pts', 'shm', 'fd', 'mqueue', '.lxc', '.lxd-mounts', '.udev']);

/** Returns the devices of a container and the rules of its control group: those of the pod, or all of the node for a privileged container. */
export function containerDevices(requested: readonly Device[], privileged: boolean): ContainerDevices {
  if (privileged) {
    const devices = hostDevices('/dev');
    return { devices, rules: [{ allow: true, access: 'rwm' }], sources: devices.map(({ path }) => ({ source: path, destination: path })) };
  }
  const found = requested.map(({ hostPath, containerPath, permissions }) => {
    const device = deviceAt(hostPath, containerPath);
    if (!device) throw new SupervisorError('InvalidArgument', `not a device: ${hostPath}`);
    return { device, permissions };
  });
  const rules = found.map(
    ({ device, permissions }): SpecDeviceRule => ({
      allow: true,
      access: permissions,
      type: device.type,
      major: device.major,
      minor: device.minor,
    }),
  );
  const sources = requested.map(({ hostPath, containerPath }) => ({ source: hostPath, destination: containerPath }));
  return { devices: found.map(({ device }) => device), rules: [{ allow: false, access: 'rwm' }, ...rules], sources };
}

function hostDevices(directory: string): readonly SpecDevice[] {
  return readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
    const path = join(directory, entry.name);
    if (entry.isDirectory()) return directory === '/dev' && ownDirectories.has(entry.name) ? [] : hostDevices(path);
    if ((directory === '/dev' && ownDevices.has(entry.name)) || (!entry.isCharacterDevice() && !entry.isBlockDevice())) return [];
    return deviceAt(path, path) ?? [];
  });
}

function deviceAt(hostPath: string, path: string): SpecDevice | undefined {
  const stat = statSync(hostPath, { throwIfNoEntry: false });
  if (!stat || (!stat.isCharacterDevice() && !stat.isBlockDevice())) return undefined;
  // the encoding of dev_t in glibc and musl
  const rdev = BigInt(stat.rdev);
  return {
    path,
    type: stat.isBlockDevice() ? 'b' : 'c',
    major: Number(((rdev >> 8n) & 0xfffn) | ((rdev >> 32n) & 0xfffff000n)),
    minor: Number((rdev & 0xffn) | ((rdev >> 12n) & 0xffffff00n)),
    fileMode: stat.mode & 0o777,
    uid: stat.uid,
    gid: stat.gid,
  };
}
