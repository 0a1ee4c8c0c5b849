import { ManagedFieldsFilter } from './managed-fields.ts';

export interface TextOptions {
  /** Leaves the managed fields of objects out before the bytes become text. */
  readonly withoutManagedFields?: boolean;
}

/** The size of the memory into which a body is read, in bytes: that of the parts in which browsers give them. */
const partSize = 64 * 1024;

/** Yields the text of a body as it arrives. Ends the request when the caller stops. */
export async function* textPartsOf(
  body: ReadableStream<Bytes>,
  { withoutManagedFields = false }: TextOptions = {},
): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  const filter = withoutManagedFields ? new ManagedFieldsFilter() : undefined;
  const reader = readerOf(body);
  try {
    let memory = new ArrayBuffer(partSize);
    for (;;) {
      const { done, value } = await reader.read(new Uint8Array(memory));
      if (done) return;
      yield decoder.decode(filter === undefined ? value : filter.apply(value), { stream: true });
      memory = value.buffer;
    }
  } finally {
    reader.cancel().catch(() => undefined); // the stream has failed already
  }
}

type Bytes = Uint8Array<ArrayBuffer>;

interface PartReader {
  read(
    memory: Bytes,
  ): Promise<{ readonly done: false; readonly value: Bytes } | { readonly done: true; readonly value?: Bytes | undefined }>;
  cancel(): Promise<void>;
}

/**
 * Returns a reader that reads into the memory of the part before, if the body is a stream of bytes. A memory for each part is garbage that browsers collect late,
 * because it is not in the heap of scripts: 90 MiB of it at 9,000 events a second.
 */
function readerOf(body: ReadableStream<Bytes>): PartReader {
  try {
    return body.getReader({ mode: 'byob' });
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    const reader = body.getReader(); // throws if the body is read already
    return { read: () => reader.read(), cancel: () => reader.cancel() };
  }
}
