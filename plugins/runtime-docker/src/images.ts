import { statfs } from 'node:fs/promises';
import { RuntimeError, type Image, type RegistryAuth, type RuntimeCall } from '@oarlock/spi/runtime';
import type { EngineClient } from './engine-client.ts';
import { engineError, hasCode } from './engine-errors.ts';
import type { EngineImage, EngineInfo } from './engine-shapes.ts';

export interface ImagesOptions {
  readonly engine: EngineClient;
  readonly pullTimeoutMs: number;
  /** Never to be collected. */
  readonly pinned: string;
}

const none = /^<none>/;
const longestProgress = 1024 * 1024;

/** The engine's images. */
export class Images {
  readonly #options: ImagesOptions;

  constructor(options: ImagesOptions) {
    this.#options = options;
  }

  async list({ signal }: RuntimeCall): Promise<readonly Image[]> {
    const images = await this.#options.engine.call<readonly EngineImage[]>('GET', '/images/json', { signal });
    return images.map((one) => this.#image(one));
  }

  async find(reference: string, { signal }: RuntimeCall): Promise<Image | undefined> {
    const found = await this.#inspect(reference, signal);
    return found && this.#image(found);
  }

  /** What containers are made from and what their statuses say. @throws RuntimeError `NotFound` */
  async resolve(
    reference: string,
    { signal }: RuntimeCall,
  ): Promise<{ readonly id: string; readonly names: { readonly image: string; readonly imageRef: string } }> {
    const found = await this.#inspect(reference, signal);
    if (!found) throw new RuntimeError('NotFound', `no such image: ${reference}`);
    const { repoTags } = this.#image(found);
    return {
      id: found.Id,
      names: { image: repoTags.includes(reference) ? reference : (repoTags[0] ?? reference), imageRef: referenceOf(found) },
    };
  }

  /** Resolves with the digest that the registry gave it. @throws RuntimeError `NotFound`, `PermissionDenied` */
  async pull(reference: string, auth: RegistryAuth | undefined, { signal }: RuntimeCall): Promise<string> {
    const { engine, pullTimeoutMs } = this.#options;
    const overdue = AbortSignal.timeout(pullTimeoutMs);
    const answer = await engine.open('POST', '/images/create', {
      query: { fromImage: withTag(reference) },
      ...(auth && { headers: { 'X-Registry-Auth': registryAuth(auth) } }),
      timeoutMs: pullTimeoutMs,
      signal: signal ? AbortSignal.any([signal, overdue]) : overdue,
    });
    let text = '';
    answer.setEncoding('utf8');
    for await (const chunk of answer) {
      text += chunk as string;
      const lines = text.split('\n');
      text = lines.pop() ?? '';
      if (text.length > longestProgress) throw new RuntimeError('Internal', 'a message of the docker engine is too long');
      for (const line of lines) if (line.trim() !== '') throwIfFailed(line);
    }
    if (text.trim() !== '') throwIfFailed(text);
    const found = await this.#inspect(reference, signal);
    if (!found) throw new RuntimeError('NotFound', `the image ${reference} is not there after it was pulled`);
    return referenceOf(found);
  }

  /** With every name that it has: as CRI, which removes images and not names. */
  async remove(reference: string, { signal }: RuntimeCall): Promise<void> {
    const found = await this.#inspect(reference, signal);
    if (!found) return;
    const { repoTags, repoDigests } = this.#image(found);
    for (const name of [...repoTags, ...repoDigests, found.Id]) {
      try {
        await this.#options.engine.call('DELETE', `/images/${name}`, { signal });
      } catch (error) {
        // with its last name it went itself
        if (!hasCode(error, 'NotFound')) throw error;
      }
    }
  }

  /** Layers that images share count for each of them. */
  async usage({ signal }: RuntimeCall): Promise<{ readonly mountpoint: string; readonly usedBytes: number; readonly inodesUsed: number }> {
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

/** The digest it was pulled by; one that was never pulled has only its id. */
function referenceOf({ Id, RepoDigests }: EngineImage): string {
  return RepoDigests?.find((digest) => !none.test(digest)) ?? Id;
}

/** Without one, the engine would pull every tag there is. */
function withTag(reference: string): string {
  const name = reference.slice(reference.lastIndexOf('/') + 1);
  return name.includes(':') || name.includes('@') ? reference : `${reference}:latest`;
}

function registryAuth({ username, password, auth, serverAddress, identityToken, registryToken }: RegistryAuth): string {
  const [user, secret] = auth === undefined ? [] : Buffer.from(auth, 'base64').toString('utf8').split(/:(.*)/s);
  const config = {
    username: username ?? user,
    password: password ?? secret,
    serveraddress: serverAddress,
    identitytoken: identityToken,
    registrytoken: registryToken,
  };
  return Buffer.from(JSON.stringify(config)).toString('base64url');
}

/** The answer begins with 200 before anything was pulled: what goes wrong is told in it. */
function throwIfFailed(line: string): void {
  const { error, errorDetail } = JSON.parse(line) as { error?: string; errorDetail?: { message?: string } };
  if (error !== undefined) throw engineError(500, errorDetail?.message ?? error);
}
