import { jsonEqual } from '@oarlock/api/json';
import type { KubeObject } from '@oarlock/api/object';
import { Admission, allow, deny } from '@oarlock/spi/admission';
import type { Identity } from '@oarlock/spi/authn';
import { Authz, decisionOf, type Authorizer } from '@oarlock/spi/authz';
import { z } from 'zod';

/** Whether somebody may use a signer: by its name, or by its domain's `domain/*`. */
async function permitted(authz: readonly Authorizer[], identity: Identity, verb: string, signerName: string): Promise<boolean> {
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

interface Bundle extends KubeObject {
  readonly spec?: { readonly signerName?: string; readonly trustBundle?: string };
}

/** Lets only those publish the trust bundle of a signer who may `attest` for it. */
export default Admission.plugin({
  id: 'admission-cluster-trust-bundle-attest',
  config: z.strictObject({}),
  needs: { authz: Authz },
  create: ({ authz }) => ({
    matches: [{ resources: ['clustertrustbundles.certificates.k8s.io'], operations: ['CREATE', 'UPDATE'] }],
    async validate({ object, old, identity }) {
      const next: Bundle = object ?? {};
      if (old !== undefined && jsonEqual(next.spec, (old as Bundle).spec)) return allow;
      const signerName = next.spec?.signerName ?? '';
      return signerName === '' || (await permitted(authz, identity, 'attest', signerName))
        ? allow
        : deny(`user not permitted to attest for signerName ${JSON.stringify(signerName)}`);
    },
  }),
});
