import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';

/** A transformer of stored values (value.Transformer upstream). Each stored value begins with the name of the provider and the key. */
export interface Transformer {
  /** The prefix of stored values, such as `k8s:enc:aesgcm:v1:key1:`; '' for unencrypted values. */
  readonly prefix: string;
  /**
   * Encrypts a value. `context` is the storage key, which is authenticated together with the value: a value that was copied to another
   * storage key cannot be decrypted.
   */
  transformToStorage(value: Uint8Array, context: string): Buffer;
  /**
   * Decrypts a stored value whose prefix has been removed. `context` is the storage key.
   * @throws Error if the value was not encrypted by this transformer with the same encryption key and context
   */
  transformFromStorage(sealed: Uint8Array, context: string): Buffer;
}

const mark = 'k8s:enc:';
const aesName = (mode: 'gcm' | 'cbc', key: Buffer) => `aes-${key.length * 8}-${mode}`;

/** Returns a transformer for AES-GCM: a nonce of 12 bytes, the ciphertext, and a tag of 16 bytes that also authenticates the storage key. */
export function aesGcm(name: string, key: Buffer): Transformer {
  const prefix = `${mark}aesgcm:v1:${name}:`;
  const [nonceBytes, tagBytes] = [12, 16];
  return {
    prefix,
    transformToStorage(value, context) {
      const nonce = randomBytes(nonceBytes);
      const cipher = createCipheriv(aesName('gcm', key) as 'aes-256-gcm', key, nonce).setAAD(Buffer.from(context));
      return Buffer.concat([Buffer.from(prefix), nonce, cipher.update(value), cipher.final(), cipher.getAuthTag()]);
    },
    transformFromStorage(sealed, context) {
      if (sealed.length < nonceBytes + tagBytes) throw new Error('the value is too short');
      const decipher = createDecipheriv(aesName('gcm', key) as 'aes-256-gcm', key, sealed.subarray(0, nonceBytes), {
        authTagLength: tagBytes,
      })
        .setAAD(Buffer.from(context))
        .setAuthTag(sealed.subarray(sealed.length - tagBytes));
      return Buffer.concat([decipher.update(sealed.subarray(nonceBytes, sealed.length - tagBytes)), decipher.final()]);
    },
  };
}

/**
 * Returns a transformer for AES-CBC with PKCS #7 padding after an initialization vector of 16 bytes. Does not authenticate the storage key. Intended
 * to read values that upstream wrote.
 */
export function aesCbc(name: string, key: Buffer): Transformer {
  const prefix = `${mark}aescbc:v1:${name}:`;
  const blockBytes = 16;
  return {
    prefix,
    transformToStorage(value) {
      const vector = randomBytes(blockBytes);
      const cipher = createCipheriv(aesName('cbc', key), key, vector);
      return Buffer.concat([Buffer.from(prefix), vector, cipher.update(value), cipher.final()]);
    },
    transformFromStorage(sealed) {
      const decipher = createDecipheriv(aesName('cbc', key), key, sealed.subarray(0, blockBytes));
      return Buffer.concat([decipher.update(sealed.subarray(blockBytes)), decipher.final()]);
    },
  };
}

/** The transformer of unencrypted values, which does not change them. */
export const identity: Transformer = {
  prefix: '',
  transformToStorage: (value) => Buffer.from(value.buffer, value.byteOffset, value.byteLength),
  transformFromStorage: (value) => Buffer.from(value.buffer, value.byteOffset, value.byteLength),
};

/** Returns true if a value has the prefix of an encrypting transformer. */
export function isEncrypted(value: Uint8Array): boolean {
  return startsWith(value, mark);
}

/** Returns true if a value begins with the bytes of an ASCII text. */
export function startsWith(value: Uint8Array, text: string): boolean {
  if (value.length < text.length) return false;
  for (let at = 0; at < text.length; at += 1) if (value[at] !== text.charCodeAt(at)) return false;
  return true;
}
