import type { Identity } from './authn.ts';
import { decisionOf, type Authorizer } from './authz.ts';

/** Whether somebody may `approve`, `sign` or `attest` for a signer: by its name, or by its domain's `domain/*`. */
export async function maySign(
  authz: readonly Authorizer[],
  identity: Identity,
  verb: 'approve' | 'sign' | 'attest',
  signerName: string,
): Promise<boolean> {
  const domain = signerName.split('/')[0] ?? '';
  for (const name of [signerName, `${domain}/*`]) {
    const { decision } = await decisionOf(authz, {
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
