import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';

/** One way to write values down. The name of its key is in front of each value, in the form that upstream has. */
export interface Transformer {
  /** `k8s:enc:aesgcm:v1:key1:`; '' for values as they are. */
  readonly prefix: string;
  /** `context` is bound to the value: the storage key, so that a value moved to another key is refused. */
  seal(value: Uint8Array, context: string): Buffer;
  /** What was sealed, without the prefix. @throws Error when it was not sealed like this, with this key and context */
  open(sealed: Uint8Array, context: string): Buffer;
}

const mark = 'k8s:enc:';
const aesName = (mode: 'gcm' | 'cbc', key: Buffer) => `aes-${key.length * 8}-${mode}`;

/** AES-GCM: a nonce of 12 bytes, the ciphertext, a tag of 16 bytes; the storage key is authenticated with it. */
export function aesGcm(name: string, key: Buffer): Transformer {
  const prefix = `${mark}aesgcm:v1:${name}:`;
  const [nonceBytes, tagBytes] = [12, 16];
  return {
    prefix,
    seal(value, context) {
      const nonce = randomBytes(nonceBytes);
      const cipher = createCipheriv(aesName('gcm', key) as 'aes-256-gcm', key, nonce).setAAD(Buffer.from(context));
      return Buffer.concat([Buffer.from(prefix), nonce, cipher.update(value), cipher.final(), cipher.getAuthTag()]);
    },
    open(sealed, context) {
      if (sealed.length < nonceBytes + tagBytes) throw new Error('it is too short');
      const decipher = createDecipheriv(aesName('gcm', key) as 'aes-256-gcm', key, sealed.subarray(0, nonceBytes), {
        authTagLength: tagBytes,
      })
        .setAAD(Buffer.from(context))
        .setAuthTag(sealed.subarray(sealed.length - tagBytes));
      return Buffer.concat([decipher.update(sealed.subarray(nonceBytes, sealed.length - tagBytes)), decipher.final()]);
    },
  };
}

/** AES-CBC with PKCS #7 padding behind an initialization vector of 16 bytes. Bound to no context; for what upstream wrote. */
export function aesCbc(name: string, key: Buffer): Transformer {
  const prefix = `${mark}aescbc:v1:${name}:`;
  const blockBytes = 16;
  return {
    prefix,
    seal(value) {
      const vector = randomBytes(blockBytes);
      const cipher = createCipheriv(aesName('cbc', key), key, vector);
      return Buffer.concat([Buffer.from(prefix), vector, cipher.update(value), cipher.final()]);
    },
    open(sealed) {
      const decipher = createDecipheriv(aesName('cbc', key), key, sealed.subarray(0, blockBytes));
      return Buffer.concat([decipher.update(sealed.subarray(blockBytes)), decipher.final()]);
    },
  };
}

/** Values as they are. */
export const identity: Transformer = {
  prefix: '',
  seal: (value) => Buffer.from(value.buffer, value.byteOffset, value.byteLength),
  open: (value) => Buffer.from(value.buffer, value.byteOffset, value.byteLength),
};

/** Whether a value is in the form of any transformer but `identity`. */
export function isSealed(value: Uint8Array): boolean {
  return startsWith(value, mark);
}

/** Whether a value begins with this text of ASCII. */
export function startsWith(value: Uint8Array, text: string): boolean {
  if (value.length < text.length) return false;
  for (let at = 0; at < text.length; at += 1) if (value[at] !== text.charCodeAt(at)) return false;
  return true;
}
