import { parseExact, stringifyExact } from '@oarlock/api/json/exact-json';
import { deepFreeze, type KubeObject } from '@oarlock/api/object';
import { Codec } from '../../watch-cache/item.ts';

/** A codec for a resource whose storage version has changed. Each object is encoded in the version in which it is stored. */
export class CustomCodec extends Codec {
  override encode(object: KubeObject): Buffer {
    const { kind: _kind, apiVersion = this.apiVersion, metadata, ...rest } = object;
    const { resourceVersion: _revision, ...meta } = metadata ?? {};
    return Buffer.from(stringifyExact({ kind: this.kind, apiVersion, metadata: meta, ...rest }));
  }

  override decode(value: Uint8Array, revision: number): KubeObject {
    const buffer = Buffer.isBuffer(value) ? value : Buffer.from(value.buffer, value.byteOffset, value.byteLength);
    const object = parseExact(buffer.toString('utf8')) as KubeObject;
    const metadata = { ...object.metadata, resourceVersion: String(revision) };
    return deepFreeze({ ...object, metadata });
  }
}
