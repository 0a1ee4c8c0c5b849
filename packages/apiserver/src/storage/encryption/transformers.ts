import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';

/** A form of stored values (value.Transformer upstream). Each value begins with the name of its provider and key. */
export interface Transformer {
  /** `k8s:enc:aesgcm:v1:key1:`; '' for plain values. */
  readonly prefix: string;
  /** Encrypts a value. `context` is the storage key, authenticated with the value: a value copied to another key is rejected. */
  transformToStorage(value: Uint8Array, context: string): Buffer;
  /** Decrypts a value without its prefix. @throws Error if it was not encrypted with this transformer, key and context */
  transformFromStorage(sealed: Uint8Array, context: string): Buffer;
}

const mark = 'k8s:enc:';
const aesName = (mode: 'gcm' | 'cbc', key: Buffer) => `aes-${key.length * 8}-${mode}`;

/** AES-GCM: a nonce of 12 bytes, the ciphertext, a tag of 16 bytes; the storage key is authenticated with it. */
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

/** AES-CBC with PKCS #7 padding after an initialization vector of 16 bytes. Not bound to a context; reads values that upstream wrote. */
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

/** Stores values unencrypted. */
export const identity: Transformer = {
  prefix: '',
  transformToStorage: (value) => Buffer.from(value.buffer, value.byteOffset, value.byteLength),
  transformFromStorage: (value) => Buffer.from(value.buffer, value.byteOffset, value.byteLength),
};

/** Returns true if a value has the prefix of any transformer except `identity`. */
export function isEncrypted(value: Uint8Array): boolean {
  return startsWith(value, mark);
}

/** Returns true if a value begins with an ASCII text. */
export function startsWith(value: Uint8Array, text: string): boolean {
  if (value.length < text.length) return false;
  for (let at = 0; at < text.length; at += 1) if (value[at] !== text.charCodeAt(at)) return false;
  return true;
}
