import type { KubeObject } from '@oarlock/api/object';
import type { EncodedObject, ProtobufCodec } from '../../request/response.ts';

export type MetaVersion = 'v1' | 'v1beta1';
export const metaApiVersion = (version: MetaVersion): string => `meta.k8s.io/${version}`;

const caches: Readonly<Record<MetaVersion, WeakMap<EncodedObject, Buffer>>> = { v1: new WeakMap(), v1beta1: new WeakMap() };

/** Returns the `PartialObjectMetadata` of an object as JSON. Encoded once per version of the object. */
export function partialMetadataJson(item: EncodedObject, version: MetaVersion): Buffer {
  const cache = caches[version];
  let json = cache.get(item);
  if (json === undefined) {
    json = Buffer.from(encode(item.object, version));
    cache.set(item, json);
  }
  return json;
}

function encode({ metadata }: KubeObject, version: MetaVersion): string {
  return `{"kind":"PartialObjectMetadata","apiVersion":"${metaApiVersion(version)}","metadata":${JSON.stringify(metadata ?? {})}}`;
}

const messages = new WeakMap<EncodedObject, Buffer>();

/**
 * Returns the `PartialObjectMetadata` of an object as a protobuf message, which is equal in all versions of meta.k8s.io. Encoded once per version of
 * the object.
 */
export function partialMetadataProtobuf(item: EncodedObject, codec: ProtobufCodec): Buffer {
  let message = messages.get(item);
  if (message === undefined) {
    message = codec.metadata(item.object);
    messages.set(item, message);
  }
  return message;
}
