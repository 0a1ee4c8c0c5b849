import { buildImage, busyboxLayer, imageArchive } from '../../fixtures/test-image.ts';

/** Prints its arguments; the default is `default arguments`. */
export const entrypointImage = 'oarlock.test/entrypoint:1';
/** busybox as user 1000. */
export const userImage = 'oarlock.test/user:1';

export async function nodeImages(): Promise<Buffer> {
  const layer = await busyboxLayer();
  const Env = ['PATH=/usr/sbin:/usr/bin:/sbin:/bin'];
  return imageArchive([
    buildImage(entrypointImage, layer, { Entrypoint: ['echo', 'image-entry'], Cmd: ['default', 'arguments'], Env }),
    buildImage(userImage, layer, { Cmd: ['sh'], User: '1000', Env }),
  ]);
}
