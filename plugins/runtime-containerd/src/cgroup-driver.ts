import { RuntimeError, type RuntimeCall } from '@oarlock/spi/runtime';
import type { CgroupParent } from './cri-config.ts';
import type { CriChannel } from './cri-channel.ts';

export type CgroupDriver = 'cgroupfs' | 'systemd';

/** `/kubepods/burstable/pod1-2` is `/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice`: systemd nests by dashes. */
export function systemdSlice(path: string): string {
  const names = path.split('/').filter((name) => name !== '');
  if (names.length === 0 || names.at(-1)?.endsWith('.slice')) return path;
  const escaped = names.map((name) => name.replaceAll('-', '_'));
  return escaped.map((_, index) => `/${escaped.slice(0, index + 1).join('-')}.slice`).join('');
}

export const cgroupParentOf = (driver: CgroupDriver): CgroupParent => (driver === 'systemd' ? systemdSlice : (path) => path);

/** Asks the runtime: by RuntimeConfig (containerd 2, CRI-O 1.28), else by what its verbose status says of its configuration. */
export async function detectCgroupDriver(channel: CriChannel): Promise<CgroupDriver> {
  try {
    const { linux } = await channel.cri<{ linux: { cgroupDriver: string } | null }>('RuntimeConfig', {});
    if (linux) return linux.cgroupDriver === 'SYSTEMD' ? 'systemd' : 'cgroupfs';
  } catch (error) {
    if (!(error instanceof RuntimeError && error.code === 'Unsupported')) throw error;
  }
  const { info } = await channel.cri<{ info: Readonly<Record<string, string>> }>('Status', { verbose: true });
  return driverInConfig(info['config']);
}

/** The image of sandboxes, by the runtime's verbose status; '' when it does not say. Older containerd does not pin it itself. */
export async function sandboxImage(channel: CriChannel, call: RuntimeCall = {}): Promise<string> {
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

/** containerd's `info.config` is JSON of its CRI plugin's configuration; cgroupfs where it says nothing, as containerd's default. */
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
