import type { Image, RegistryAuth, RuntimeCallOptions } from '@oarlock/spi/runtime';
import { sandboxImage } from './cgroup-driver.ts';
import type { CriClient } from './cri-client.ts';
import { authConfig } from './config-encoding.ts';
import * as wire from './status-decoding.ts';
import { required, ignoreNotFound } from './runtime-errors.ts';

/** The disk usage of images in bytes and inodes. */
export interface ImageUsage {
  readonly mountpoint: string;
  readonly usedBytes: number;
  readonly inodesUsed: number;
}

/** Credentials and sandbox of a pull. */
export interface ImagePull {
  readonly auth: RegistryAuth | undefined;
  readonly sandboxConfig: object | undefined;
}

/** A client of the CRI ImageService. */
export class CriImageService {
  readonly #client: CriClient;
  readonly #pullTimeoutMs: number;
  /** The sandbox image; an empty string if the runtime does not report it, undefined before it is read. */
  #sandboxImage: string | undefined;

  constructor(client: CriClient, pullTimeoutMs: number) {
    this.#client = client;
    this.#pullTimeoutMs = pullTimeoutMs;
  }

  async list(call?: RuntimeCallOptions): Promise<readonly Image[]> {
    const { images } = await this.#client.cri<{ images: readonly wire.WireImage[] }>('ListImages', {}, call);
    this.#sandboxImage ??= await sandboxImage(this.#client, call);
    const pause = this.#sandboxImage;
    return images.map(wire.image).map((image) => (pause !== '' && image.repoTags.includes(pause) ? { ...image, pinned: true } : image));
  }

  async status(image: string, call?: RuntimeCallOptions): Promise<Image | undefined> {
    const { image: found } = await this.#client.cri<{ image: wire.WireImage | null }>('ImageStatus', { image: { image } }, call);
    return found ? wire.image(found) : undefined;
  }

  /** Pulls an image for the pod of `sandboxConfig` and returns the runtime's reference of the image. */
  async pull(image: string, { auth, sandboxConfig }: ImagePull, call?: RuntimeCallOptions): Promise<string> {
    // containerd uses credentials with a server address only if it is a URL of the host that it dials, which differs for Docker Hub
    const credentials = auth && { auth: authConfig({ ...auth, serverAddress: '' }) };
    const request = { image: { image }, ...credentials, ...(sandboxConfig && { sandboxConfig }) };
    const { imageRef } = await this.#client.cri<{ imageRef: string }>('PullImage', request, call, this.#pullTimeoutMs);
    return imageRef;
  }

  async remove(image: string, call?: RuntimeCallOptions): Promise<void> {
    await ignoreNotFound(this.#client.cri('RemoveImage', { image: { image } }, call));
  }

  async usage(call?: RuntimeCallOptions): Promise<ImageUsage> {
    type Usage = {
      readonly fsId: { readonly mountpoint: string } | null;
      readonly usedBytes: { readonly value: number } | null;
      readonly inodesUsed: { readonly value: number } | null;
    };
    const { imageFilesystems } = await this.#client.cri<{ imageFilesystems: readonly Usage[] }>('ImageFsInfo', {}, call);
    const usage = required(imageFilesystems[0] ?? null, 'ImageFsInfo');
    return { mountpoint: usage.fsId?.mountpoint ?? '', usedBytes: usage.usedBytes?.value ?? 0, inodesUsed: usage.inodesUsed?.value ?? 0 };
  }
}
