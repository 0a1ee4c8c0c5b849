import type { KeyObject } from 'node:crypto';

export const algorithmOf = (key: KeyObject): 'RS256' | 'ES256' => (key.asymmetricKeyType === 'rsa' ? 'RS256' : 'ES256');

const otherKey = new Set(['ERR_JWS_SIGNATURE_VERIFICATION_FAILED', 'ERR_JOSE_ALG_NOT_ALLOWED']);

/** Whether a token that does not verify may yet do so by another key. */
export const isOfAnotherKey = (error: unknown): boolean => otherKey.has((error as { readonly code?: string }).code ?? '');
