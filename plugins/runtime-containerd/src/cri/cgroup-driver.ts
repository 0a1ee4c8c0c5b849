import { RuntimeError, type RuntimeCallOptions } from '@oarlock/spi/runtime';
import type { CgroupParent } from './config-encoding.ts';
import type { CriClient } from './cri-client.ts';

export type CgroupDriver = 'cgroupfs' | 'systemd';

/** Converts a cgroup path to systemd's nested slices: `/kubepods/burstable/pod1-2` is `/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice`. */
export function systemdSlice(path: string): string {
  const names = path.split('/').filter((name) => name !== '');
  if (names.length === 0 || names.at(-1)?.endsWith('.slice')) return path;
  const escaped = names.map((name) => name.replaceAll('-', '_'));
  return escaped.map((_, index) => `/${escaped.slice(0, index + 1).join('-')}.slice`).join('');
}

export const cgroupParentOf = (driver: CgroupDriver): CgroupParent => (driver === 'systemd' ? systemdSlice : (path) => path);

/** Returns the runtime's cgroup driver, from RuntimeConfig (containerd 2, CRI-O 1.28) or else from the configuration in its verbose status. */
export async function detectCgroupDriver(channel: CriClient): Promise<CgroupDriver> {
  try {
    const { linux } = await channel.cri<{ linux: { cgroupDriver: string } | null }>('RuntimeConfig', {});
    if (linux) return linux.cgroupDriver === 'SYSTEMD' ? 'systemd' : 'cgroupfs';
  } catch (error) {
    if (!(error instanceof RuntimeError && error.code === 'Unsupported')) throw error;
  }
  const { info } = await channel.cri<{ info: Readonly<Record<string, string>> }>('Status', { verbose: true });
  return driverInConfig(info['config']);
}

/** Returns the sandbox (pause) image in the runtime's verbose status; empty if there is none. Older containerd versions do not pin this image. */
export async function sandboxImage(channel: CriClient, call: RuntimeCallOptions = {}): Promise<string> {
  const { info } = await channel.cri<{ info: Readonly<Record<string, string>> }>('Status', { verbose: true }, call);
  try {
    const { sandboxImage: image } = JSON.parse(info['config'] ?? '{}') as ContainerdConfig;
    return image ?? '';
  } catch {
    return '';
  }
}

interface ContainerdConfig {
  readonly sandboxImage?: string;
  readonly systemdCgroup?: boolean;
  readonly containerd?: {
    readonly defaultRuntimeName?: string;
    readonly runtimes?: Readonly<Record<string, { readonly options?: { readonly SystemdCgroup?: boolean } | null }>>;
  };
}

/** Reads the cgroup driver from containerd's `info.config`, the JSON of its CRI plugin's configuration. The default is cgroupfs, as in containerd. */
export function driverInConfig(json: string | undefined): CgroupDriver {
  if (json === undefined) return 'cgroupfs';
  let config: ContainerdConfig;
  try {
    config = JSON.parse(json) as ContainerdConfig;
  } catch {
    return 'cgroupfs';
  }
  const options = config.containerd?.runtimes?.[config.containerd.defaultRuntimeName ?? 'runc']?.options;
  return config.systemdCgroup === true || options?.SystemdCgroup === true ? 'systemd' : 'cgroupfs';
}
