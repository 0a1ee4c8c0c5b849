import { volumeContract } from '@oarlock/spi/volume/contract';
import { DirectoryVolumes } from '../src/directory-volumes.ts';

volumeContract('__ID__', async () => ({
  driver: new DirectoryVolumes(),
  reopen: async () => new DirectoryVolumes(),
  sample: (name) => ({ volume: { name, csi: { driver: '__ID__' } } }),
  broken: (name) => ({ volume: { name, csi: { driver: '__ID__', volumeAttributes: { size: 'large' } } } }),
  unsupported: {
    refreshing: 'the volume has no content to refresh',
    fsGroup: 'group ownership is not changed',
    usage: 'usage is not measured',
  },
}));
