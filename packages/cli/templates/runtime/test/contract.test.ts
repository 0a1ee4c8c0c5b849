import { runtimeContract, shellPrograms } from '@oarlock/spi/runtime/contract';
import { __Class__ } from '../src/runtime.ts';

runtimeContract('__ID__', async () => ({
  driver: new __Class__(),
  image: 'host',
  command: shellPrograms(),
  // features that the runtime will never have, with the reason
  unsupported: {
    images: 'it runs what is on the machine, as its traits say',
    imagePull: 'it has no images',
    imageRemove: 'it has no images',
  },
  dispose: async () => {},
}));
