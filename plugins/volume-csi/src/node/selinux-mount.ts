import { access, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Pod, SELinuxOptions } from '@oarlock/api/types/core-v1';
import type { CSIDriverSpec } from '@oarlock/api/types/storage-v1';
import { VolumeError, type VolumeRequest } from '@oarlock/spi/volume';

/**
 * Returns the SELinux context of files of containers on this machine, such as `system_u:object_r:container_file_t:s0`; undefined if the kernel has no
 * SELinux or the policy has no contexts for containers. `root` is the root directory of the machine.
 */
export async function containerFileContext(root = '/'): Promise<string | undefined> {
  if (!(await exists(join(root, 'sys/fs/selinux/enforce')))) return undefined;
  const policy = /^\s*SELINUXTYPE\s*=\s*(\S+)/m.exec((await readIfExists(join(root, 'etc/selinux/config'))) ?? '')?.[1] ?? 'targeted';
  for (const path of ['usr/share/containers/selinux/contexts', `etc/selinux/${policy}/contexts/lxc_contexts`]) {
    const context = /^\s*file\s*=\s*"?([^"\s]+)"?\s*$/m.exec((await readIfExists(join(root, path))) ?? '')?.[1];
    if (context !== undefined) return context;
  }
  return undefined;
}

/**
 * Returns the mount option that labels a volume with the SELinux context of the containers that use it (KEP-1710), as an empty or single-element list.
 *
 * The option is passed for PersistentVolumes with the only access mode ReadWriteOncePod, if the driver's CSIDriver has `seLinuxMount` and the pod does
 * not request recursive relabeling; the feature gate SELinuxMount, for other access modes, is off in 1.36. Unlike upstream, containers without a level
 * cause no option: each of them gets a random level from the runtime, so that none could read a volume with another.
 *
 * @throws VolumeError `InvalidArgument` if containers with different contexts use the volume
 */
export function selinuxMountOptions(
  { pod, volume, persistentVolume }: VolumeRequest,
  spec: CSIDriverSpec | undefined,
  fileContext: string | undefined,
): readonly string[] {
  if (fileContext === undefined || spec?.seLinuxMount !== true) return [];
  const { accessModes = [] } = persistentVolume?.spec ?? {};
  if (accessModes.length !== 1 || accessModes[0] !== 'ReadWriteOncePod') return [];
  if (pod.spec?.securityContext?.seLinuxChangePolicy === 'Recursive') return [];
  const options = optionsOfUsers(pod, volume.name);
  const contexts = new Set(options.map((each) => fileContextWith(fileContext, each)));
  if (contexts.size > 1) throw new VolumeError('InvalidArgument', `multiple SELinux labels found: ${[...contexts].sort().join(',')}`);
  // quoted, because levels contain commas
  return options.every(({ level }) => level) ? [...contexts].map((context) => `context="${context}"`) : [];
}

/** Returns the SELinux options of the containers that mount a volume. Containers without options are omitted, as upstream. */
function optionsOfUsers({ spec }: Pod, volumeName: string): readonly SELinuxOptions[] {
  const containers = [...(spec?.initContainers ?? []), ...(spec?.containers ?? []), ...(spec?.ephemeralContainers ?? [])];
  return containers
    .filter(({ volumeMounts = [] }) => volumeMounts.some(({ name }) => name === volumeName))
    .map(({ securityContext }) => securityContext?.seLinuxOptions ?? spec?.securityContext?.seLinuxOptions)
    .filter((options) => options !== undefined && Object.values(options).some((value) => value !== '')) as readonly SELinuxOptions[];
}

/** Replaces the user and the level of a context. The role and the type of options are those of processes, not of files. */
function fileContextWith(context: string, options: SELinuxOptions): string {
  const [user = '', role = '', type = '', ...level] = context.split(':');
  return [options.user || user, role, type, options.level || level.join(':')].join(':');
}

const readIfExists = (path: string): Promise<string | undefined> => readFile(path, 'utf8').catch(undefinedIfMissing);
const exists = async (path: string): Promise<boolean> => (await access(path).then(() => true, undefinedIfMissing)) === true;
function undefinedIfMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT' && error.code !== 'ENOTDIR') throw error;
}
