import { resource } from '@oarlock/api/resource';
import type { KubeObject } from '@oarlock/api/object';
import type { Attributes } from '@oarlock/spi/authz';
import { admissionContract, admissionRequest } from '@oarlock/spi/admission/contract';
import { openAdmission } from '@oarlock/testing/open-admission';
import plugin from '../src/plugin.ts';

const named = (name: string, ...groups: string[]) => ({ name, groups });
const allows = ({ verb, identity, ...asked }: Attributes) =>
  asked.kind === 'resource' &&
  asked.resource === 'signers' &&
  asked.group === 'certificates.k8s.io' &&
  identity.name === `${verb} ${asked.name}`;
const bundles = resource<KubeObject>('certificates.k8s.io', 'v1beta1', 'clustertrustbundles', 'ClusterTrustBundle', false);
const bundle = (signerName: string, trustBundle = 'x'): KubeObject => ({
  metadata: { name: 'b' },
  ...{ spec: { signerName, trustBundle } },
});

admissionContract('admission-cluster-trust-bundle-attest', async () => ({
  plugin: (await openAdmission(plugin, { allows })).plugin,
  cases: [
    {
      title: 'by name',
      request: admissionRequest('CREATE', bundles, bundle('a.io/b'), { identity: named('attest a.io/b') }),
      expected: 'allowed',
    },
    {
      title: 'by domain',
      request: admissionRequest('CREATE', bundles, bundle('a.io/b'), { identity: named('attest a.io/*') }),
      expected: 'allowed',
    },
    { title: 'of no signer', request: admissionRequest('CREATE', bundles, bundle('')), expected: 'allowed' },
    { title: 'unchanged', request: admissionRequest('UPDATE', bundles, bundle('a.io/b'), { old: bundle('a.io/b') }), expected: 'allowed' },
    {
      title: 'somebody else',
      request: admissionRequest('UPDATE', bundles, bundle('a.io/b', 'y'), { old: bundle('a.io/b') }),
      expected: 'denied',
      message: 'user not permitted to attest for signerName "a.io/b"',
    },
  ],
}));
