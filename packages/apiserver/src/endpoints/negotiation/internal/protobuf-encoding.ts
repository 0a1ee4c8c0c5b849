import type { ListMeta } from '@oarlock/api/object';
import { apiVersionOf, type Resource } from '@oarlock/api/resource';
import type { Status } from '@oarlock/api/status';
import type { ResponseEncoding } from '../response-encoding.ts';
import { protobufType } from '../negotiation.ts';
import type { ByteSink, EncodedObject, ProtobufCodec, WatchFrame } from '../../request/response.ts';
import { partialMetadataProtobuf, metaApiVersion, type MetaVersion } from './partial-object-metadata.ts';

/** The tag of the field `items`, which has number 2 in every list. */
const itemsTag = (2 << 3) | 2;

/** The common part of both protobuf encodings. A list is a concatenation of messages that were encoded once per object version. */
abstract class MessageEncoding implements ResponseEncoding {
  readonly contentType = protobufType;
  readonly streamType = `${protobufType};stream=watch`;
  protected readonly codec: ProtobufCodec;
  readonly #opening = Buffer.allocUnsafe(10);

  constructor(codec: ProtobufCodec) {
    this.codec = codec;
  }

  protected abstract message(item: EncodedObject): Buffer;
  protected abstract kindOf(item: EncodedObject): { readonly apiVersion: string; readonly kind: string };
  protected abstract readonly listKind: { readonly apiVersion: string; readonly kind: string };
  abstract frame(frame: WatchFrame): Buffer;

  item(item: EncodedObject): Buffer {
    const { apiVersion, kind } = this.kindOf(item);
    const message = this.message(item);
    return Buffer.concat([this.codec.envelopeHead(apiVersion, kind, message.length), message, this.codec.envelopeTail]);
  }

  itemLength(item: EncodedObject): number {
    const { length } = this.message(item);
    return 1 + varintSize(length) + length;
  }

  listHead(metadata: ListMeta, length: number): Buffer {
    const head = this.codec.listMetadata(metadata);
    const { apiVersion, kind } = this.listKind;
    return Buffer.concat([this.codec.envelopeHead(apiVersion, kind, head.length + length), head]);
  }

  listItem(item: EncodedObject, _first: boolean, sink: ByteSink): void {
    const message = this.message(item);
    const opening = this.#opening;
    opening[0] = itemsTag;
    let end = 1;
    let rest = message.length;
    for (; rest > 127; rest >>>= 7) opening[end++] = (rest & 0x7f) | 0x80;
    opening[end++] = rest;
    sink.add(opening.subarray(0, end));
    sink.add(message);
  }

  listTail(_metadata: ListMeta): Buffer {
    return this.codec.envelopeTail;
  }

  error(status: Status): Buffer {
    return this.codec.watchEvent('ERROR', 'v1', 'Status', this.codec.message({ ...status, kind: 'Status', apiVersion: 'v1' } as object));
  }
}

function varintSize(value: number): number {
  let size = 1;
  for (let rest = value; rest > 127; rest >>>= 7) size += 1;
  return size;
}

/** Encodes objects in protobuf without transformation. */
export class ProtobufEncoding extends MessageEncoding {
  protected readonly listKind: { readonly apiVersion: string; readonly kind: string };

  constructor(codec: ProtobufCodec, resource: Resource) {
    super(codec);
    this.listKind = { apiVersion: apiVersionOf(resource), kind: `${resource.kind}List` };
  }

  protected message(item: EncodedObject): Buffer {
    return item.protobuf(this.codec);
  }
  protected kindOf({ object: { apiVersion = '', kind = '' } }: EncodedObject) {
    return { apiVersion, kind };
  }
  frame(frame: WatchFrame): Buffer {
    return frame.protobuf(this.codec);
  }
}

/** Encodes objects in protobuf as `PartialObjectMetadata` and lists as `PartialObjectMetadataList`. */
export class ProtobufMetadataEncoding extends MessageEncoding {
  readonly #apiVersion: string;
  protected readonly listKind: { readonly apiVersion: string; readonly kind: string };

  constructor(codec: ProtobufCodec, version: MetaVersion) {
    super(codec);
    this.#apiVersion = metaApiVersion(version);
    this.listKind = { apiVersion: this.#apiVersion, kind: 'PartialObjectMetadataList' };
  }

  protected message(item: EncodedObject): Buffer {
    return partialMetadataProtobuf(item, this.codec);
  }
  protected kindOf() {
    return { apiVersion: this.#apiVersion, kind: 'PartialObjectMetadata' };
  }
  frame({ type, item }: WatchFrame): Buffer {
    return this.codec.watchEvent(type, this.#apiVersion, 'PartialObjectMetadata', this.message(item));
  }
}
