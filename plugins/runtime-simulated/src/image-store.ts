import { withDefaultRegistry, withDefaultTag } from '@oarlock/api/component-helpers/image-reference';
import { createHash } from 'node:crypto';
import { RuntimeError, type Image } from '@oarlock/spi/runtime';

/** Simulated images run as this user, so that pods with `runAsNonRoot` start as well. */
const simulatedUser = 65_534;

/** Completes a reference as runtimes do: `nginx` is `docker.io/library/nginx:latest`. */
const qualify = (reference: string): string => withDefaultTag(withDefaultRegistry(reference));

/** Stores pulled images by name. Every name can be pulled, except those that the configuration lists as missing. */
export class ImageStore {
  readonly #byName = new Map<string, Image>();
  readonly #byId = new Map<string, Image>();
  readonly #missing: ReadonlySet<string>;

  constructor(present: readonly string[], missing: readonly string[]) {
    this.#missing = new Set(missing.map(qualify));
    for (const reference of present) this.pull(reference);
  }

  find(reference: string): Image | undefined {
    return this.#byId.get(reference) ?? this.#byName.get(reference) ?? this.#byName.get(qualify(reference));
  }

  /** Pulls an image. @throws RuntimeError `NotFound` if the configuration lists the image as missing */
  pull(reference: string): Image {
    const known = this.find(reference);
    if (known) return known;
    const name = qualify(reference);
    if (this.#missing.has(name))
      throw new RuntimeError(
        'NotFound',
        `failed to pull and unpack image "${name}": failed to resolve reference "${name}": ${name}: not found`,
      );
    const id = `sha256:${createHash('sha256').update(name).digest('hex')}`;
    const digest = name.includes('@') ? name : `${name.slice(0, name.lastIndexOf(':'))}@${id}`;
    const image: Image = Object.freeze({
      id,
      repoTags: name.includes('@') ? [] : [name],
      repoDigests: [digest],
      sizeBytes: 1024 * 1024,
      uid: simulatedUser,
    });
    this.#byName.set(name, image);
    this.#byName.set(reference, image);
    this.#byId.set(id, image);
    return image;
  }

  remove(reference: string): void {
    const image = this.find(reference);
    if (!image) return;
    this.#byId.delete(image.id);
    for (const [name, candidate] of this.#byName) if (candidate === image) this.#byName.delete(name);
  }

  list(): readonly Image[] {
    return [...this.#byId.values()];
  }
}
