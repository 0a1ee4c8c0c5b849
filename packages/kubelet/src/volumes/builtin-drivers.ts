import type { VolumeDriver } from '@oarlock/spi/volume';
import { EmptyDirDriver, type EmptyDirOptions } from './empty-dir.ts';
import { ImageVolumeDriver } from './image-volumes.ts';
import { HostPathDriver } from './host-path.ts';
import { LocalDriver, type LocalOptions } from './local.ts';
import { ConfigMapDriver, DownwardApiDriver, ProjectedDriver, SecretDriver, type ObjectVolumeSources } from './object-volumes.ts';

/** The kinds of volumes that every kubelet knows, by the name of their field. */
export function builtinDrivers(sources: ObjectVolumeSources, told: EmptyDirOptions & LocalOptions): ReadonlyMap<string, VolumeDriver> {
  return new Map<string, VolumeDriver>([
    ['emptyDir', new EmptyDirDriver(told)],
    ['hostPath', new HostPathDriver()],
    ['local', new LocalDriver(told)],
    ['image', new ImageVolumeDriver()],
    ['configMap', new ConfigMapDriver(sources)],
    ['secret', new SecretDriver(sources)],
    ['downwardAPI', new DownwardApiDriver(sources)],
    ['projected', new ProjectedDriver(sources)],
  ]);
}

/** Kinds that hold secrets: kept in memory where the node has a place for it. */
export const inMemory: ReadonlySet<string> = new Set(['secret', 'projected', 'downwardAPI']);
