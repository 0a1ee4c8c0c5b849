import { expect, it } from 'vitest';
import { gvkOf } from '../../src/kinds.ts';
import type { KubeObject } from '../../src/object.ts';
import { validateObject } from '../../src/validation/validate-object.ts';
import { certificateRequest } from '@oarlock/testing/sample-certificates';

const signing = (signerName: string): KubeObject =>
  ({
    apiVersion: 'certificates.k8s.io/v1',
    kind: 'CertificateSigningRequest',
    metadata: { name: 'x' },
    spec: { request: certificateRequest, signerName, usages: ['client auth'] },
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

it('CertificateSigningRequests may only get PEM certificates in the status', () => {
  const faults = (certificate: string) => {
    const old = { ...signing('example.com/x'), metadata: { name: 'x', resourceVersion: '1' } };
    const object = { ...old, status: { certificate } } as KubeObject;
    return validateObject(gvkOf(object), object, old, { subresource: 'status' }).map(({ field, message }) => `${field}: ${message}`);
  };
  const invalid = 'status.certificate: Invalid value: "<certificate data>": ';
  expect(faults(Buffer.from('text').toString('base64'))).toEqual([`${invalid}must contain at least one CERTIFICATE PEM block`]);
  expect(faults(certificateRequest)).toEqual([`${invalid}only CERTIFICATE PEM blocks are allowed, found "CERTIFICATE REQUEST"`]);
  const broken = Buffer.from('-----BEGIN CERTIFICATE-----\neA==\n-----END CERTIFICATE-----\n').toString('base64');
  expect(faults(broken)).toEqual([`${invalid}x509: malformed certificate`]);
});
