import { persistentVolumes } from '@oarlock/api/resources';
import { volumeContract, type VolumeFixture } from '@oarlock/spi/volume/contract';
import { vi } from 'vitest';
import { waiting, World } from './support/csi-environment.ts';

const isRoot = process.getuid?.() === 0;

volumeContract('volume-csi', async (): Promise<VolumeFixture> => {
  const world = await World.open();
  let worlds = 0;
  const driver = await world.plugin();
  return {
    driver,
    sample: async (name) => {
      const { metadata } = await world.claim(`claim-${++worlds}`);
      const persistentVolume = await vi.waitFor(() => {
        const volume = world.api.object(persistentVolumes, { name: `pvc-${metadata?.uid}` });
        if (volume === undefined) throw new Error('not provisioned yet');
        return volume;
      }, waiting);
      return { volume: { name, persistentVolumeClaim: { claimName: `claim-${worlds}` } }, persistentVolume };
    },
    broken: (name) => ({
      volume: { name, persistentVolumeClaim: { claimName: 'lost' } },
      persistentVolume: { spec: { csi: { driver: 'hostpath.csi.oarlock.dev', volumeHandle: 'lost' }, accessModes: ['ReadWriteOnce'] } },
    }),
    reopen: () => world.plugin(),
    unsupported: {
      private: 'a claim outlives its pods',
      refreshing: 'nothing in the API is the content of a claim',
      ...(!isRoot && { fsGroup: 'needs root' }),
    },
    dispose: () => world[Symbol.asyncDispose](),
  };
});
