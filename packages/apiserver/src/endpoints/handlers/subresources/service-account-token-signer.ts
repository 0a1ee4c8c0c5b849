import { createHash, createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto';
import { tokenAlgorithmOf, type ClusterKeys, type TokenAlgorithm } from '@oarlock/spi/cluster';

interface Signer {
  readonly pem: string;
  readonly key: KeyObject;
  readonly alg: TokenAlgorithm;
  readonly kid: string;
}
const signers = new WeakMap<ClusterKeys, Signer>();

function signerOf(keys: ClusterKeys): Signer {
  const pem = keys.serviceAccount.signingKey; // the key changes on rotation
  let signer = signers.get(keys);
  if (signer?.pem !== pem) {
    const key = createPrivateKey(pem);
    const alg = tokenAlgorithmOf(key);
    const kid = createHash('sha256')
      .update(createPublicKey(key).export({ type: 'spki', format: 'der' }))
      .digest('base64url');
    signers.set(keys, (signer = { pem, key, alg, kid }));
  }
  return signer;
}

/** Returns a signed JWT with the claims. Uses the cluster's current signing key, whose id (`kid`) clients find at `/openid/v1/jwks`. */
export async function signServiceAccountToken(keys: ClusterKeys, claims: Readonly<Record<string, unknown>>): Promise<string> {
  // jose is loaded for the first token, not at server start
  const { SignJWT } = await import('jose');
  const { key, alg, kid } = signerOf(keys);
  return new SignJWT(claims).setProtectedHeader({ alg, kid }).sign(key);
}
