import { jsonEqual } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';
import { Admission, allow, deny } from '@oarlock/spi/admission';
import { Authz } from '@oarlock/spi/authz';
import { isAuthorizedForSignerName } from '@oarlock/admission-rules/signers';
import { z } from 'zod';

interface Bundle extends KubeObject {
  readonly spec?: { readonly signerName?: string; readonly trustBundle?: string };
}

/** Requires the `attest` permission for the signer to write its ClusterTrustBundles (ClusterTrustBundleAttest). */
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
      return signerName === '' || (await isAuthorizedForSignerName(authz, { identity, verb: 'attest', signerName }))
        ? allow
        : deny(`user not permitted to attest for signerName ${JSON.stringify(signerName)}`);
    },
  }),
});
