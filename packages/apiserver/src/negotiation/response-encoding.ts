import type { ListMeta } from '@oarlock/api/object';
import type { Status } from '@oarlock/api/status';
import type { EncodedObject, WatchFrame } from '../request/response.ts';

/** What a table row contains besides its cells: nothing, `PartialObjectMetadata`, or the whole object (`includeObject` of TableOptions). */
export type IncludeObject = 'None' | 'Metadata' | 'Object';

/** Receives the bytes of a list, part by part. */
export interface ByteSink {
  add(bytes: Buffer): void;
}

/** Encodes the response of one request in its negotiated format. */
export interface ResponseEncoding {
  readonly contentType: string;
  /** The content type of watches. */
  readonly streamType: string;
  item(item: EncodedObject): Buffer;
  /** Returns the encoded length of an item in a list, for formats whose list head contains the total length. */
  readonly itemLength?: (item: EncodedObject) => number;
  /** Returns the bytes before the first item. `length` is the total length of all items. */
  listHead(metadata: ListMeta, length: number): Buffer;
  listItem(item: EncodedObject, first: boolean, sink: ByteSink): void;
  listTail(metadata: ListMeta): Buffer;
  /** Returns one watch event. */
  frame(frame: WatchFrame): Buffer;
  /** Returns the last event of a watch that fails. */
  error(status: Status): Buffer;
}

export interface ResponseEncodingOptions {
  readonly includeObject: IncludeObject;
  readonly now: () => number;
}
