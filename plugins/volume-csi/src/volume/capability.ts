import type { AccessMode } from '@oarlock/csi/csi-messages';
import type { VolumeCapability } from '@oarlock/csi/csi-types';

const modes: Readonly<Record<string, AccessMode>> = {
  ReadWriteOnce: 'SINGLE_NODE_WRITER',
  ReadOnlyMany: 'MULTI_NODE_READER_ONLY',
  ReadWriteMany: 'MULTI_NODE_MULTI_WRITER',
  ReadWriteOncePod: 'SINGLE_NODE_SINGLE_WRITER',
};

/** Converts access modes to a CSI access mode. A driver without SINGLE_NODE_MULTI_WRITER has no access mode for a single pod. */
export function accessMode(accessModes: readonly string[] = [], singleNodeMultiWriter: boolean): AccessMode {
  const [mode = 'ReadWriteOnce'] = ['ReadWriteMany', 'ReadOnlyMany', 'ReadWriteOnce', 'ReadWriteOncePod'].filter((one) =>
    accessModes.includes(one),
  );
  if (mode === 'ReadWriteOnce' && singleNodeMultiWriter) return 'SINGLE_NODE_MULTI_WRITER';
  return mode === 'ReadWriteOncePod' && !singleNodeMultiWriter ? 'SINGLE_NODE_WRITER' : (modes[mode] ?? 'SINGLE_NODE_WRITER');
}

export interface Usage {
  readonly accessModes: readonly string[] | undefined;
  readonly volumeMode: string | undefined;
  readonly fsType: string | undefined;
  readonly mountOptions: readonly string[] | undefined;
  /** The group that the driver itself sets on the volume, if it has VOLUME_MOUNT_GROUP. */
  readonly mountGroup?: number;
}

/** Returns the CSI volume capability of a volume. `singleNodeMultiWriter` is true if the called service has SINGLE_NODE_MULTI_WRITER. */
export function capability(
  { accessModes, volumeMode, fsType, mountOptions = [], mountGroup }: Usage,
  singleNodeMultiWriter: boolean,
): VolumeCapability {
  const mode = { accessMode: { mode: accessMode(accessModes, singleNodeMultiWriter) } };
  if (volumeMode === 'Block') return { block: {}, ...mode };
  return {
    mount: {
      ...(fsType !== undefined && { fsType }),
      mountFlags: mountOptions,
      ...(mountGroup !== undefined && { volumeMountGroup: String(mountGroup) }),
    },
    ...mode,
  };
}
