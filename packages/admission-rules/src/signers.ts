import type { Identity } from '@oarlock/spi/authn';
import { authorizeChain, type Authorizer } from '@oarlock/spi/authz';

/** The user, the verb and the signer whose use is authorized. */
export interface SignerAccess {
  readonly identity: Identity;
  readonly verb: 'approve' | 'sign' | 'attest';
  readonly signerName: string;
}

/**
 * Returns true if the user may perform `verb` (`approve`, `sign` or `attest`) for a signer: for its name, or for `domain/*`
 * (certificates.IsAuthorizedForSignerName upstream).
 */
export async function isAuthorizedForSignerName(
  authz: readonly Authorizer[],
  { identity, verb, signerName }: SignerAccess,
): Promise<boolean> {
  const domain = signerName.split('/')[0] ?? '';
  for (const name of [signerName, `${domain}/*`]) {
    const { decision } = await authorizeChain(authz, {
      kind: 'resource',
      identity,
      verb,
      group: 'certificates.k8s.io',
      version: '*',
      resource: 'signers',
      subresource: '',
      namespace: '',
      name,
    });
    if (decision === 'allow') return true;
  }
  return false;
}
