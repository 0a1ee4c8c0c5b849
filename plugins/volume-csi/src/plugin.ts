import { Client, Events, Informers } from '@oarlock/spi/client';
import { Volumes } from '@oarlock/spi/volume';
import { volumeCsiConfig } from './driver/config.ts';
import { VolumeCsi } from './volume-csi.ts';

/** Provides volumes of CSI drivers, and does the work of the CSI sidecars. */
export default Volumes.plugin({
  id: 'volume-csi',
  config: volumeCsiConfig,
  needs: { client: Client, informers: Informers, events: Events },
  create: ({ config, client, informers, events }, { clock, log, dataDir }) =>
    new VolumeCsi({ config, client, informers, events, clock, log, dataDir }),
});
