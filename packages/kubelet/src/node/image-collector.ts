import { statfs } from 'node:fs/promises';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { Image, RuntimeDriver } from '@oarlock/spi/runtime';

export interface ImageCollectorOptions {
  readonly driver: RuntimeDriver;
  readonly clock: Clock;
  readonly log: Logger;
  /** Percent of the disk: above `high` images are removed until `low` is reached. */
  readonly high: number;
  readonly low: number;
  /** Younger ones are spared: somebody may be about to use them. Milliseconds. */
  readonly minAgeMs: number;
  /** Images that nobody has used for so long go in any case; 0: never. Milliseconds. */
  readonly maxAgeMs: number;
  removed(): void;
  /** An event about the node. */
  tell(reason: string, message: string): void;
  /** Size and free bytes of a file system. */
  readonly disk?: (path: string) => Promise<{ readonly capacity: number; readonly available: number }>;
}

interface Known {
  readonly detected: number;
  lastUsed: number;
}

async function diskOf(path: string) {
  const { blocks, bsize, bavail } = await statfs(path);
  return { capacity: blocks * bsize, available: bavail * bsize };
}

/** Removes images that no container uses, the longest unused first, when the disk gets full. */
export class ImageCollector {
  readonly #options: ImageCollectorOptions;
  readonly #known = new Map<string, Known>();

  constructor(options: ImageCollectorOptions) {
    this.#options = options;
  }

  /** Looks whether the disk is too full and frees what is above the lower mark. @throws RuntimeError */
  async look(signal: AbortSignal): Promise<void> {
    const { driver, high, low, maxAgeMs, clock, tell, disk = diskOf } = this.#options;
    const unused = await this.#unused(signal);
    const old = maxAgeMs > 0 ? unused.filter(({ id }) => clock.monotonic() - (this.#known.get(id)?.lastUsed ?? 0) > maxAgeMs) : [];
    await this.#remove(old, Number.POSITIVE_INFINITY, signal);
    const { mountpoint } = await driver.imageFsInfo({ signal });
    const { capacity, available } = await disk(mountpoint);
    if (capacity === 0) return;
    const usage = 100 - Math.floor((available * 100) / capacity);
    if (usage < high) return;
    const wanted = Math.ceil((capacity * (100 - low)) / 100) - available;
    const freed = await this.#remove(
      unused.filter((image) => !old.includes(image)),
      wanted,
      signal,
    );
    if (freed < wanted) {
      const message = `Failed to garbage collect required amount of images. Attempted to free ${wanted} bytes, but only found ${freed} bytes eligible to free.`;
      tell('FreeDiskSpaceFailed', message);
    }
  }

  /** Removes every image that nobody uses, whatever is free. */
  async removeUnused(signal: AbortSignal): Promise<void> {
    await this.#remove(await this.#unused(signal), Number.POSITIVE_INFINITY, signal);
  }

  /** Images without containers, the longest unused first. */
  async #unused(signal: AbortSignal): Promise<readonly Image[]> {
    const { driver, clock } = this.#options;
    const [images, containers] = await Promise.all([driver.listImages({ signal }), driver.listContainers({}, { signal })]);
    const now = clock.monotonic();
    const used = new Set(containers.flatMap(({ image, imageRef }) => [image, imageRef]));
    const present = new Set(images.map(({ id }) => id));
    for (const id of this.#known.keys()) if (!present.has(id)) this.#known.delete(id);
    const unused: Image[] = [];
    for (const image of images) {
      const known = this.#known.get(image.id) ?? { detected: now, lastUsed: 0 };
      this.#known.set(image.id, known);
      if ([image.id, ...image.repoTags, ...image.repoDigests].some((name) => used.has(name))) known.lastUsed = now;
      else if (image.pinned !== true) unused.push(image);
    }
    const ageOf = ({ id }: Image) => this.#known.get(id) ?? { detected: now, lastUsed: now };
    return unused.sort((a, b) => ageOf(a).lastUsed - ageOf(b).lastUsed || ageOf(a).detected - ageOf(b).detected);
  }

  async #remove(images: readonly Image[], bytes: number, signal: AbortSignal): Promise<number> {
    const { driver, clock, log, minAgeMs, removed } = this.#options;
    let freed = 0;
    for (const { id, sizeBytes } of images) {
      if (freed >= bytes) break;
      if (clock.monotonic() - (this.#known.get(id)?.detected ?? 0) < minAgeMs) continue;
      try {
        await driver.removeImage(id, { signal });
        this.#known.delete(id);
        freed += sizeBytes;
      } catch (error) {
        signal.throwIfAborted();
        log.warn({ err: error, image: id }, 'an image that nobody uses could not be removed');
      }
    }
    if (freed > 0) removed();
    return freed;
  }
}
