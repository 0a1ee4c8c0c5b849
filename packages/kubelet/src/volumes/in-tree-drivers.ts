import type { VolumeDriver } from '@oarlock/spi/volume';
import { EmptyDirDriver, type EmptyDirOptions } from './internal/empty-dir.ts';
import { ImageVolumeDriver } from './image-volume.ts';
import { HostPathDriver } from './internal/host-path.ts';
import { LocalVolumeDriver, type LocalOptions } from './internal/local-volume.ts';
import {
  ConfigMapDriver,
  DownwardApiDriver,
  ProjectedDriver,
  SecretDriver,
  type ObjectVolumeSources,
} from './internal/api-object-volumes.ts';

/** Returns the drivers of the in-tree volume types, keyed by the volume type's field name. */
export function inTreeVolumeDrivers(
  sources: ObjectVolumeSources,
  options: EmptyDirOptions & LocalOptions,
): ReadonlyMap<string, VolumeDriver> {
  return new Map<string, VolumeDriver>([
    ['emptyDir', new EmptyDirDriver(options)],
    ['hostPath', new HostPathDriver()],
    ['local', new LocalVolumeDriver(options)],
    ['image', new ImageVolumeDriver()],
    ['configMap', new ConfigMapDriver(sources)],
    ['secret', new SecretDriver(sources)],
    ['downwardAPI', new DownwardApiDriver(sources)],
    ['projected', new ProjectedDriver(sources)],
  ]);
}

/** The volume types that may contain secrets. They are stored in the volatile directory if the node has one. */
export const inMemoryVolumeTypes: ReadonlySet<string> = new Set(['secret', 'projected', 'downwardAPI']);
