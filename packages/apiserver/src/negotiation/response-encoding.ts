import type { ListMeta } from '@oarlock/api/object';
import type { Status } from '@oarlock/api/status';
import type { EncodedObject, WatchFrame } from '../request/response.ts';

/** What a row carries besides its cells: nothing, `PartialObjectMetadata`, or the whole object. */
export type IncludeObject = 'None' | 'Metadata' | 'Object';

/** Takes the bytes of a list one after the other. */
export interface ByteSink {
  add(bytes: Buffer): void;
}

/** How one request wants what it asked for. */
export interface ResponseEncoding {
  readonly contentType: string;
  /** Of watches. */
  readonly streamType: string;
  item(item: EncodedObject): Buffer;
  /** What an item takes in a list, where the head of a list says how long it is. */
  readonly itemLength?: (item: EncodedObject) => number;
  /** `length` is that of all items. */
  listHead(metadata: ListMeta, length: number): Buffer;
  listItem(item: EncodedObject, first: boolean, sink: ByteSink): void;
  listTail(metadata: ListMeta): Buffer;
  /** One line of a watch, or what stands for it. */
  frame(frame: WatchFrame): Buffer;
  /** The end of a watch that fails. */
  error(status: Status): Buffer;
}

export interface ResponseEncodingOptions {
  readonly includeObject: IncludeObject;
  readonly now: () => number;
}
