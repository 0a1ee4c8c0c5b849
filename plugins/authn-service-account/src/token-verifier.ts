import type { KeyObject } from 'node:crypto';
import { tokenAlgorithmOf } from '@oarlock/spi/cluster';
import type { JWTPayload, JWTVerifyOptions } from 'jose';

/** The error codes after which another key may still verify the token. */
const otherKeyErrors = new Set(['ERR_JWS_SIGNATURE_VERIFICATION_FAILED', 'ERR_JOSE_ALG_NOT_ALLOWED']);
const mayHaveOtherKey = (error: unknown): boolean => otherKeyErrors.has((error as { readonly code?: string }).code ?? '');

/** Returns the payload of a token if one of the keys signed it and it satisfies `options`; undefined otherwise. */
export async function verifyWithKeys(
  token: string,
  keys: readonly KeyObject[],
  options: Omit<JWTVerifyOptions, 'algorithms'>,
): Promise<JWTPayload | undefined> {
  const { jwtVerify } = await import('jose');
  for (const key of keys) {
    try {
      return (await jwtVerify(token, key, { ...options, algorithms: [tokenAlgorithmOf(key)] })).payload;
    } catch (error) {
      if (!mayHaveOtherKey(error)) return undefined;
    }
  }
  return undefined;
}
