import { Volumes } from '@oarlock/spi/volume';
import { z } from 'zod';
import { DirectoryVolumes } from './directory-volumes.ts';

export default Volumes.plugin({
  id: '__ID__',
  config: z.strictObject({}),
  create: () => new DirectoryVolumes(),
});
