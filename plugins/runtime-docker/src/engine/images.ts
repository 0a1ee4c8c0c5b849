import { withDefaultTag } from '@oarlock/api/component-helpers/image-reference';
import { statfs } from 'node:fs/promises';
import { RuntimeError, type Image, type RegistryAuth, type RuntimeCallOptions } from '@oarlock/spi/runtime';
import type { EngineClient } from './engine-client.ts';
import { engineError, hasCode } from './engine-errors.ts';
import type { EngineImage, EngineInfo } from './engine-types.ts';

export interface ImagesOptions {
  readonly engine: EngineClient;
  readonly pullTimeoutMs: number;
  /** The image that is reported as pinned, so that image garbage collection keeps the image. */
  readonly pinned: string;
}

/** The name that the engine gives to an untagged image. */
const none = /^<none>/;
const maxProgressLength = 1024 * 1024;

/** Implements CRI's ImageService with the images of the Docker engine. */
export class Images {
  readonly #options: ImagesOptions;

  constructor(options: ImagesOptions) {
    this.#options = options;
  }

  async list({ signal }: RuntimeCallOptions): Promise<readonly Image[]> {
    const images = await this.#options.engine.call<readonly EngineImage[]>('GET', '/images/json', { signal });
    return images.map((image) => this.#image(image));
  }

  async find(reference: string, { signal }: RuntimeCallOptions): Promise<Image | undefined> {
    const found = await this.#inspect(reference, signal);
    return found && this.#image(found);
  }

  /** Returns the image id to create containers from, and the image names for the container statuses. @throws RuntimeError `NotFound` if it is missing */
  async resolve(
    reference: string,
    { signal }: RuntimeCallOptions,
  ): Promise<{ readonly id: string; readonly names: { readonly image: string; readonly imageRef: string } }> {
    const found = await this.#inspect(reference, signal);
    if (!found) throw new RuntimeError('NotFound', `no such image: ${reference}`);
    const { repoTags } = this.#image(found);
    return {
      id: found.Id,
      names: { image: repoTags.includes(reference) ? reference : (repoTags[0] ?? reference), imageRef: referenceOf(found) },
    };
  }

  /**
   * Pulls an image and returns the registry's digest of the image.
   * @throws RuntimeError `NotFound` if the image does not exist, `PermissionDenied` if the credentials are not accepted
   */
  async pull(reference: string, auth: RegistryAuth | undefined, { signal }: RuntimeCallOptions): Promise<string> {
    const { engine, pullTimeoutMs } = this.#options;
    const timeout = AbortSignal.timeout(pullTimeoutMs);
    const response = await engine.open('POST', '/images/create', {
      // without a tag the engine would pull all tags
      query: { fromImage: withDefaultTag(reference) },
      ...(auth && { headers: { 'X-Registry-Auth': registryAuth(auth) } }),
      timeoutMs: pullTimeoutMs,
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    });
    let text = '';
    response.setEncoding('utf8');
    for await (const chunk of response) {
      text += chunk as string;
      const lines = text.split('\n');
      text = lines.pop() ?? '';
      if (text.length > maxProgressLength) throw new RuntimeError('Internal', 'a progress message of the docker engine is too long');
      for (const line of lines) if (line.trim() !== '') throwIfFailed(line);
    }
    if (text.trim() !== '') throwIfFailed(text);
    const found = await this.#inspect(reference, signal);
    if (!found) throw new RuntimeError('NotFound', `the image ${reference} does not exist after it was pulled`);
    return referenceOf(found);
  }

  /** Removes an image and all of its names, because CRI removes images, not names. */
  async remove(reference: string, { signal }: RuntimeCallOptions): Promise<void> {
    const found = await this.#inspect(reference, signal);
    if (!found) return;
    const { repoTags, repoDigests } = this.#image(found);
    for (const name of [...repoTags, ...repoDigests, found.Id]) {
      try {
        await this.#options.engine.call('DELETE', `/images/${name}`, { signal });
      } catch (error) {
        // the engine removes the image together with its last name
        if (!hasCode(error, 'NotFound')) throw error;
      }
    }
  }

  /** Returns the disk usage of images. Layers that several images share are counted for each image. */
  async usage({
    signal,
  }: RuntimeCallOptions): Promise<{ readonly mountpoint: string; readonly usedBytes: number; readonly inodesUsed: number }> {
    const [{ DockerRootDir }, images] = await Promise.all([
      this.#options.engine.call<EngineInfo>('GET', '/info', { signal }),
      this.list({ ...(signal && { signal }) }),
    ]);
    const { files, ffree } = await statfs(DockerRootDir);
    return { mountpoint: DockerRootDir, usedBytes: images.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0), inodesUsed: files - ffree };
  }

  async #inspect(reference: string, signal: AbortSignal | undefined): Promise<EngineImage | undefined> {
    try {
      return await this.#options.engine.call<EngineImage>('GET', `/images/${reference}/json`, { signal });
    } catch (error) {
      if (hasCode(error, 'NotFound')) return undefined;
      throw error;
    }
  }

  #image({ Id, RepoTags, RepoDigests, Size, Config }: EngineImage): Image {
    const [user = ''] = (Config?.User ?? '').split(':');
    const repoTags = (RepoTags ?? []).filter((tag) => !none.test(tag));
    return {
      id: Id,
      repoTags,
      repoDigests: (RepoDigests ?? []).filter((digest) => !none.test(digest)),
      sizeBytes: Size,
      ...(user !== '' && (/^\d+$/.test(user) ? { uid: Number(user) } : { username: user })),
      ...(repoTags.includes(this.#options.pinned) && { pinned: true }),
    };
  }
}

/** Returns the digest by which the image was pulled; the image id if it was never pulled. */
function referenceOf({ Id, RepoDigests }: EngineImage): string {
  return RepoDigests?.find((digest) => !none.test(digest)) ?? Id;
}

/**
 * Encodes credentials, without their server address: the engine ignores credentials whose address it does not write like the caller. It also ignores base64url
 * without padding.
 */
export function registryAuth({ username, password, auth, identityToken, registryToken }: RegistryAuth): string {
  const [user, secret] = auth === undefined ? [] : Buffer.from(auth, 'base64').toString('utf8').split(/:(.*)/s);
  const config = {
    username: username ?? user,
    password: password ?? secret,
    identitytoken: identityToken,
    registrytoken: registryToken,
  };
  return Buffer.from(JSON.stringify(config)).toString('base64').replaceAll('+', '-').replaceAll('/', '_');
}

/** Throws the error of a progress line. The engine responds with 200 before the pull, and reports failures in the body. */
function throwIfFailed(line: string): void {
  const { error, errorDetail } = JSON.parse(line) as { error?: string; errorDetail?: { message?: string } };
  if (error !== undefined) throw engineError(500, errorDetail?.message ?? error);
}
