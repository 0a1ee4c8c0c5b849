import { expect, it } from 'vitest';
import { gvkOf } from '../../src/kinds.ts';
import type { KubeObject } from '../../src/object.ts';
import { validateObject } from '../../src/validation/validate-object.ts';

const request = Buffer.from('-----BEGIN CERTIFICATE REQUEST-----\n').toString('base64');
const signing = (signerName: string): KubeObject =>
  ({
    apiVersion: 'certificates.k8s.io/v1',
    kind: 'CertificateSigningRequest',
    metadata: { name: 'x' },
    spec: { request, signerName, usages: ['client auth'] },
  }) as KubeObject;
const rejections = (object: KubeObject, old?: KubeObject): string[] =>
  validateObject(gvkOf(object), object, old)
    .filter(({ field }) => field === 'spec.signerName')
    .map(({ field, message }) => `${field}: ${message}`);

it('CertificateSigningRequests of v1 may not name the legacy signer, unless they have done so before', () => {
  const legacy = signing('kubernetes.io/legacy-unknown');
  expect(rejections(legacy)).toEqual([
    'spec.signerName: Invalid value: "kubernetes.io/legacy-unknown": the legacy signerName is not allowed via this API version',
  ]);
  expect(rejections(legacy, legacy)).toEqual([]);
  expect(rejections(signing('kubernetes.io/kube-apiserver-client'))).toEqual([]);
});
