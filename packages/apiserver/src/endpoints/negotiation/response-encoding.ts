import type { ListMeta } from '@oarlock/api/object';
import type { Status } from '@oarlock/api/status';
import type { ByteSink, EncodedObject, WatchFrame } from '../request/response.ts';

/** The content of the `object` field of a table row (`includeObject` of TableOptions): nothing, the `PartialObjectMetadata`, or the whole object. */
export type IncludeObject = 'None' | 'Metadata' | 'Object';

/** The encoding of one response in its negotiated format. */
export interface ResponseEncoding {
  readonly contentType: string;
  /** The content type of a watch in this encoding. */
  readonly streamType: string;
  item(item: EncodedObject): Buffer;
  /** Returns the encoded length of a list item. Defined for formats whose list head contains the total length. */
  readonly itemLength?: (item: EncodedObject) => number;
  /** Returns the bytes before the first item of a list. `length` is the encoded length of all items. */
  listHead(metadata: ListMeta, length: number): Buffer;
  listItem(item: EncodedObject, first: boolean, sink: ByteSink): void;
  listTail(metadata: ListMeta): Buffer;
  /** Returns the bytes of one watch event. */
  frame(frame: WatchFrame): Buffer;
  /** Returns the bytes of the ERROR event that ends a failed watch. */
  error(status: Status): Buffer;
}

export interface ResponseEncodingOptions {
  readonly includeObject: IncludeObject;
  readonly now: () => number;
}
