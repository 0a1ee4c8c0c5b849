import { mkdir, rm } from 'node:fs/promises';
import { Volumes } from '@oarlock/spi/volume';
import { config, orMisbehave } from './faults.ts';

/** Mounts the inline volumes of the CSI driver with the plugin's name as directories. */
export default Volumes.plugin({
  id: 'volume-faulty',
  config,
  create: ({ config: settings }) => ({
    supports: ({ csi }) => csi?.driver === settings.name,
    mount: ({ path }) =>
      orMisbehave(settings, async () => {
        await mkdir(path, { recursive: true });
        return { hostPath: path };
      }),
    unmount: ({ path }) => rm(path, { recursive: true, force: true }),
  }),
});
