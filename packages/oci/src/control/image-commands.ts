import type { Readable } from 'node:stream';
import type { ImageRecord, ImageStore } from '../image-store.ts';
import { OciError } from '../oci-error.ts';

/** What a command shows of an image. */
export type ListedImage = Pick<ImageRecord, 'id' | 'manifestDigest' | 'repoTags' | 'repoDigests' | 'sizeBytes' | 'notes'>;

/** What commands do with the images of a node: on the store itself, or through the process that has it open. Methods throw `OciError`. */
export interface ImageCommands {
  list(): Promise<readonly ListedImage[]>;
  pull(reference: string, signal?: AbortSignal): Promise<ListedImage>;
  /** Adds the images of an archive; `name` is for an image without a name. Destroys the stream. */
  load(archive: Readable, options?: { readonly name?: string | undefined; readonly signal?: AbortSignal }): Promise<readonly ListedImage[]>;
  /** Removes a name, or by id the image with all its names. @throws OciError `NotFound` if the store has no such image */
  remove(image: string): Promise<void>;
}

function listed({ id, manifestDigest, repoTags, repoDigests, sizeBytes, notes }: ImageRecord): ListedImage {
  return { id, manifestDigest, repoTags, repoDigests, sizeBytes, notes };
}

/** Returns the commands of a store. */
export function commandsOf(store: ImageStore): ImageCommands {
  return {
    list: async () => store.list().map(listed),
    pull: async (reference, signal) => listed(await store.pull({ reference, signal })),
    load: async (archive, { name, signal } = {}) => (await store.load({ archive, name, signal })).map(listed),
    remove: async (image) => {
      if (store.status(image) === undefined) throw new OciError('NotFound', `the image ${JSON.stringify(image)} is not in the store`);
      await store.remove(image);
    },
  };
}
