import { volumeContract } from '@oarlock/spi/volume.contract';
import { DirectoryVolumes } from '../src/directory-volumes.ts';

volumeContract('__ID__', async () => ({
  driver: new DirectoryVolumes(),
  reopen: async () => new DirectoryVolumes(),
  sample: (name) => ({ volume: { name, csi: { driver: '__ID__' } } }),
  broken: (name) => ({ volume: { name, csi: { driver: '__ID__', volumeAttributes: { size: 'large' } } } }),
  lacks: { refreshing: 'it has no content of its own', fsGroup: 'it leaves groups alone', usage: 'it does not measure' },
}));
