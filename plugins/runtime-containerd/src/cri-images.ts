import type { Image, RegistryAuth, RuntimeCall } from '@oarlock/spi/runtime';
import { sandboxImage } from './cgroup-driver.ts';
import type { CriChannel } from './cri-channel.ts';
import { authConfig } from './cri-config.ts';
import * as wire from './cri-status.ts';
import { required, unlessGone } from './runtime-errors.ts';

/** What images take of the disk, in bytes and inodes. */
export interface ImageUsage {
  readonly mountpoint: string;
  readonly usedBytes: number;
  readonly inodesUsed: number;
}

/** The image service of a CRI runtime. */
export class CriImages {
  readonly #channel: CriChannel;
  readonly #pullTimeoutMs: number;
  /** Which image sandboxes run; '' when the runtime does not say. */
  #sandboxImage: string | undefined;

  constructor(channel: CriChannel, pullTimeoutMs: number) {
    this.#channel = channel;
    this.#pullTimeoutMs = pullTimeoutMs;
  }

  async list(call?: RuntimeCall): Promise<readonly Image[]> {
    const { images } = await this.#channel.cri<{ images: readonly wire.WireImage[] }>('ListImages', {}, call);
    this.#sandboxImage ??= await sandboxImage(this.#channel, call);
    const own = this.#sandboxImage;
    return images.map(wire.image).map((image) => (own !== '' && image.repoTags.includes(own) ? { ...image, pinned: true } : image));
  }

  async status(image: string, call?: RuntimeCall): Promise<Image | undefined> {
    const { image: found } = await this.#channel.cri<{ image: wire.WireImage | null }>('ImageStatus', { image: { image } }, call);
    return found ? wire.image(found) : undefined;
  }

  /** `sandboxConfig`: of the pod that it is for. Gives the reference under which the runtime has it. */
  async pull(image: string, auth: RegistryAuth | undefined, sandboxConfig: object | undefined, call?: RuntimeCall): Promise<string> {
    const request = { image: { image }, ...(auth && { auth: authConfig(auth) }), ...(sandboxConfig && { sandboxConfig }) };
    const { imageRef } = await this.#channel.cri<{ imageRef: string }>('PullImage', request, call, this.#pullTimeoutMs);
    return imageRef;
  }

  async remove(image: string, call?: RuntimeCall): Promise<void> {
    await unlessGone(this.#channel.cri('RemoveImage', { image: { image } }, call));
  }

  async usage(call?: RuntimeCall): Promise<ImageUsage> {
    type Usage = {
      readonly fsId: { readonly mountpoint: string } | null;
      readonly usedBytes: { readonly value: number } | null;
      readonly inodesUsed: { readonly value: number } | null;
    };
    const { imageFilesystems } = await this.#channel.cri<{ imageFilesystems: readonly Usage[] }>('ImageFsInfo', {}, call);
    const usage = required(imageFilesystems[0] ?? null, 'ImageFsInfo');
    return { mountpoint: usage.fsId?.mountpoint ?? '', usedBytes: usage.usedBytes?.value ?? 0, inodesUsed: usage.inodesUsed?.value ?? 0 };
  }
}
