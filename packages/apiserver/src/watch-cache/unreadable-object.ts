import { failure, type StatusError } from '@oarlock/api/status';
import { isEncrypted } from '../storage/encryption/transformers.ts';
import type { Codec, Item } from './item.ts';

/** A stored value that this API server cannot decrypt or decode. Reads that would include it fail; they must not omit it. */
export class UnreadableObject {
  readonly storageKey: string;
  /** True if the value is encrypted with a key that this API server does not have. */
  readonly isEncrypted: boolean;

  constructor(storageKey: string, value: Uint8Array) {
    this.storageKey = storageKey;
    this.isEncrypted = isEncrypted(value);
  }

  /** The error of requests that read the object. It does not contain parts of the value. */
  get error(): StatusError {
    const key = JSON.stringify(this.storageKey);
    return failure(
      'InternalError',
      this.isEncrypted
        ? `Internal error occurred: unable to transform key ${key}: no encryption key of this API server decrypts the value`
        : `Internal error occurred: unable to decode object at key ${key}`,
    );
  }
}

/** Decoded entries of a resource; `unreadable` has those that cannot be decoded, by object key. */
export interface DecodedObjects {
  readonly items: readonly Item[];
  readonly unreadable: ReadonlyMap<string, UnreadableObject>;
}

/** The stored objects of a resource that cannot be decrypted or decoded, by key. */
export class UnreadableObjects extends Map<string, UnreadableObject> {
  /** The number of objects that cannot be decrypted. */
  get undecryptableCount(): number {
    let count = 0;
    for (const { isEncrypted } of this.values()) if (isEncrypted) count++;
    return count;
  }

  /** @throws StatusError InternalError if there is an object in the namespace, or with the key */
  requireNone({ key, namespace = '' }: { readonly key?: string | undefined; readonly namespace?: string }): void {
    if (this.size === 0) return;
    const found = key === undefined ? [...this].find(([each]) => namespace === '' || each.startsWith(`${namespace}/`))?.[1] : this.get(key);
    if (found !== undefined) throw found.error;
  }
}

export interface StoredValue {
  readonly storageKey: string;
  /** The key of the object: `namespace/name`, or `name` for a cluster-scoped object. */
  readonly key: string;
  readonly value: Uint8Array;
  readonly revision: number;
}

/** Decodes a stored value. @throws StatusError InternalError if the value cannot be decrypted or decoded */
export function decodeStored(codec: Codec, { storageKey, key, value, revision }: StoredValue): Item {
  try {
    return codec.parse(key, value, revision);
  } catch {
    throw new UnreadableObject(storageKey, value).error; // the cause may quote the value
  }
}
