import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

const cipherName = 'aes-256-gcm';
const [keyBytes, nonceBytes, tagBytes] = [32, 12, 16];

/** Returns a new random key for `seal`, of 32 bytes. */
export const newSealingKey = (): Buffer => randomBytes(keyBytes);

/**
 * Encrypts a text with AES-256-GCM and returns nonce, ciphertext and tag in base64. `purpose` is authenticated: a sealed text cannot be opened as a
 * text of another purpose. The key must have at least 128 bits of entropy; HKDF-SHA256 derives the key of the cipher from it.
 */
export function seal(key: Uint8Array, purpose: string, text: string): string {
  const nonce = randomBytes(nonceBytes);
  const cipher = createCipheriv(cipherName, derive(key, purpose), nonce).setAAD(Buffer.from(purpose));
  return Buffer.concat([nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]).toString('base64');
}

/** Decrypts a text of `seal`. @throws Error if the text was sealed with another key or for another purpose, or was changed */
export function unseal(key: Uint8Array, purpose: string, sealed: string): string {
  const bytes = Buffer.from(sealed, 'base64');
  if (bytes.length < nonceBytes + tagBytes) throw new Error('the sealed text is too short');
  const decipher = createDecipheriv(cipherName, derive(key, purpose), bytes.subarray(0, nonceBytes), { authTagLength: tagBytes })
    .setAAD(Buffer.from(purpose))
    .setAuthTag(bytes.subarray(bytes.length - tagBytes));
  return Buffer.concat([decipher.update(bytes.subarray(nonceBytes, bytes.length - tagBytes)), decipher.final()]).toString('utf8');
}

const derive = (key: Uint8Array, purpose: string): Buffer => Buffer.from(hkdfSync('sha256', key, '', `oarlock ${purpose}`, keyBytes));
