import { statfs } from 'node:fs/promises';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Image, RuntimeDriver } from '@oarlock/spi/runtime';

export interface ImageGCManagerOptions {
  readonly driver: RuntimeDriver;
  readonly clock: Clock;
  readonly log: Logger;
  /** Percentages of disk usage. If usage exceeds the high threshold, images are removed until usage is at the low threshold. */
  readonly highThresholdPercent: number;
  readonly lowThresholdPercent: number;
  /** The minimum age of an image to be removed, because a pod may be about to use a younger image. Milliseconds. */
  readonly minAgeMs: number;
  /** Images that were unused for this long are always removed; 0 disables the rule. Milliseconds. */
  readonly maxAgeMs: number;
  imagesRemoved(): void;
  /** Records an event for the Node object. */
  recordNodeEvent(reason: string, message: string): void;
  /** Returns the size and the free bytes of the file system that contains the path. */
  readonly disk?: (path: string) => Promise<{ readonly capacity: number; readonly available: number }>;
}

interface ImageRecord {
  readonly detected: number;
  lastUsed: number;
}

async function diskOf(path: string) {
  const { blocks, bsize, bavail } = await statfs(path);
  return { capacity: blocks * bsize, available: bavail * bsize };
}

/** Formats a size with one decimal, in the largest binary unit that it reaches: `10.0 GiB`. */
function sizeText(bytes: number): string {
  const exponent = Math.min(sizeUnits.length - 1, Math.max(0, Math.floor(Math.log2(bytes) / 10)));
  return `${(bytes / 1024 ** exponent).toFixed(1)} ${sizeUnits[exponent]}`;
}
const sizeUnits = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'] as const;

/** Removes images that no container uses, least recently used first, when the disk is full (ImageGCManager upstream). */
export class ImageGCManager {
  readonly #options: ImageGCManagerOptions;
  readonly #imageRecords = new Map<string, ImageRecord>();

  constructor(options: ImageGCManagerOptions) {
    this.#options = options;
  }

  /** Removes unused images if disk usage exceeds the high threshold, and images beyond the maximum age. @throws RuntimeError if the runtime fails */
  async garbageCollect(signal: AbortSignal): Promise<void> {
    const { driver, highThresholdPercent: high, lowThresholdPercent: low, maxAgeMs, clock, recordNodeEvent, disk = diskOf } = this.#options;
    const unused = await this.#unused(signal);
    const old = maxAgeMs > 0 ? unused.filter(({ id }) => clock.monotonic() - (this.#imageRecords.get(id)?.lastUsed ?? 0) > maxAgeMs) : [];
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
      const used = (((capacity - available) * 100) / capacity).toFixed(1);
      recordNodeEvent(
        'FreeDiskSpaceFailed',
        `Insufficient free disk space on the node's image filesystem (${used}% of ${sizeText(capacity)} used). ` +
          'Failed to free sufficient space by deleting unused images. Consider resizing the disk or deleting unused files.',
      );
    }
  }

  /** Removes all unused images, regardless of disk usage. */
  async deleteUnusedImages(signal: AbortSignal): Promise<void> {
    await this.#remove(await this.#unused(signal), Number.POSITIVE_INFINITY, signal);
  }

  /** Returns the images that no container uses, least recently used first. */
  async #unused(signal: AbortSignal): Promise<readonly Image[]> {
    const { driver, clock } = this.#options;
    const [images, containers] = await Promise.all([driver.listImages({ signal }), driver.listContainers({}, { signal })]);
    const now = clock.monotonic();
    const used = new Set(containers.flatMap(({ image, imageRef }) => [image, imageRef]));
    const present = new Set(images.map(({ id }) => id));
    for (const id of this.#imageRecords.keys()) if (!present.has(id)) this.#imageRecords.delete(id);
    const unused: Image[] = [];
    for (const image of images) {
      const known = this.#imageRecords.get(image.id) ?? { detected: now, lastUsed: 0 };
      this.#imageRecords.set(image.id, known);
      if ([image.id, ...image.repoTags, ...image.repoDigests].some((name) => used.has(name))) known.lastUsed = now;
      else if (image.pinned !== true) unused.push(image);
    }
    const ageOf = ({ id }: Image) => this.#imageRecords.get(id) ?? { detected: now, lastUsed: now };
    return unused.sort((a, b) => ageOf(a).lastUsed - ageOf(b).lastUsed || ageOf(a).detected - ageOf(b).detected);
  }

  async #remove(images: readonly Image[], bytes: number, signal: AbortSignal): Promise<number> {
    const { driver, clock, log, minAgeMs, imagesRemoved: removed } = this.#options;
    let freed = 0;
    for (const { id, sizeBytes } of images) {
      if (freed >= bytes) break;
      if (clock.monotonic() - (this.#imageRecords.get(id)?.detected ?? 0) < minAgeMs) continue;
      try {
        await driver.removeImage(id, { signal });
        this.#imageRecords.delete(id);
        freed += sizeBytes;
      } catch (error) {
        signal.throwIfAborted();
        log.warn({ err: error, image: id }, 'removing an unused image failed');
      }
    }
    if (freed > 0) removed();
    return freed;
  }
}
