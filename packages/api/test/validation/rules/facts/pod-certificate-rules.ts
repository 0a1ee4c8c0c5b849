import { generateKeyPairSync, sign, type KeyObject } from 'node:crypto';
import {
  authorityPem,
  certificateRequestPem,
  leafPem,
  leafTimes,
  leafWithNamesPem,
  leafWithNamesKey,
  leafWithNamesTimes,
} from '@oarlock/testing/sample-certificates';
import type { ValidationRule } from '../rule-samples.ts';

const omitted = 'spec.trustBundle: Invalid value: "<value omitted>"';
const bundle = (trustBundle: string) => ({ spec: { trustBundle } });
const derOf = (key: KeyObject) => key.export({ format: 'der', type: 'spki' }).toString('base64');
const [ed25519, secp256k1, rsa, p256] = [
  generateKeyPairSync('ed25519'),
  generateKeyPairSync('ec', { namedCurve: 'secp256k1' }),
  generateKeyPairSync('rsa', { modulusLength: 1024 }),
  generateKeyPairSync('ec', { namedCurve: 'P-256' }),
];
const proofOf = (key: KeyObject, hash: string | null, uid = 'u') => sign(hash, Buffer.from(uid), key).toString('base64');
const keyed = (pkixPublicKey: string | undefined, proofOfPossession: string | undefined, stubPKCS10Request?: string) => ({
  spec: { stubPKCS10Request, pkixPublicKey, proofOfPossession },
});
const request = (spec: object) => ({ spec });
const condition = (type: string, status = 'True') => ({
  type,
  status,
  reason: 'R',
  message: '',
  lastTransitionTime: '2026-01-01T00:00:00Z',
});
const issued = (status: object = {}) => ({
  status: { conditions: [condition('Issued')], certificateChain: `${leafPem}${authorityPem}`, ...leafTimes, ...status },
});
const exactlyOne = 'spec: Invalid value: exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set';
const create = { kind: 'PodCertificateRequest' } as const;
const statusWrite = { kind: 'PodCertificateRequest', subresource: 'status', old: {} } as const;

const nameErrors = [
  'status.certificateChain: Invalid value: "": leaf certificate should not contain empty DNSName',
  `status.certificateChain: Invalid value: "a..b": leaf certificate's DNSName should not contain '..'`,
  `status.certificateChain: Invalid value: ".a": leaf certificate's DNSName should not start or end with '.'`,
  `status.certificateChain: Invalid value: "a.": leaf certificate's DNSName should not start or end with '.'`,
  'status.certificateChain: Invalid value: "bad": leaf certificate should not contain invalid EmailAddress',
  'status.certificateChain: Invalid value: "a@": leaf certificate should not contain invalid EmailAddress',
];
const notNow = `status.notBefore: Invalid value: "${leafTimes.notBefore}": must be set to within 5 minutes of kube-apiserver's current time`;

/** Rules of ClusterTrustBundles and PodCertificateRequests. */
export const podCertificateRules: readonly ValidationRule[] = [
  ...(
    [
      ['no anchor', '', ['at least one trust anchor must be provided']],
      ['a text without blocks', 'text', ['at least one trust anchor must be provided']],
      ['another block', `${authorityPem}${certificateRequestPem}`, ['entry 1 has bad block type: CERTIFICATE REQUEST']],
      ['headers', authorityPem.replace('-----\n', '-----\nA: b\n\n'), ['entry 0 has PEM block headers']],
      ['malformed', '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n', ['entry 0 does not parse as X.509']],
      ['not an authority', leafPem, ['entry 0 does not have the CA bit set']],
      ['duplicates', `${authorityPem}text\n${authorityPem}`, ['duplicate trust anchor (indices [0 1])']],
    ] as const
  ).map(([rule, text, faults]) => ({
    rule: `certificates.validateTrustBundle: ${rule}`,
    kind: 'ClusterTrustBundle',
    fields: bundle(text),
    errors: faults.map((fault) => `${omitted}: ${fault}`),
  })),
  {
    rule: 'certificates.validateTrustBundle: the size',
    kind: 'ClusterTrustBundle',
    fields: bundle('x'.repeat(1024 * 1024 + 1)),
    errors: ['spec.trustBundle: Too long: may not be more than 1048576 bytes'],
  },
  {
    rule: 'certificates.ValidateClusterTrustBundleUpdate: an unchanged bundle stays valid',
    kind: 'ClusterTrustBundle',
    fields: { ...bundle('text'), metadata: { labels: { a: 'b' } } },
    old: bundle('text'),
    errors: [],
  },
  {
    rule: 'certificates.ValidatePodCertificateRequestCreate: names and uids',
    ...create,
    fields: request({ podName: 'A', podUID: '', serviceAccountUID: 'u'.repeat(129), nodeUID: '' }),
    errors: [
      'spec.podName: Invalid value: "A": a lowercase RFC 1123 subdomain…',
      'spec.podUID: Invalid value: "": must not be empty',
      'spec.serviceAccountUID: Too long: may not be more than 128 bytes',
      'spec.nodeUID: Invalid value: "": must not be empty',
    ],
  },
  {
    rule: 'certificates.ValidatePodCertificateRequestCreate: the longest lifetime',
    ...create,
    fields: request({ maxExpirationSeconds: 7_862_401 }),
    errors: ['spec.maxExpirationSeconds: Invalid value: 7862401: must be in the range [3600, 7862400]'],
  },
  {
    rule: 'certificates.ValidatePodCertificateRequestCreate: the longest lifetime of Kubernetes signers',
    ...create,
    fields: request({ signerName: 'kubernetes.io/kube-apiserver-client-pod', maxExpirationSeconds: 86_401 }),
    errors: ['spec.maxExpirationSeconds: Invalid value: 86401: must be in the range [3600, 86400]'],
  },
  {
    rule: 'certificates.ValidatePodCertificateRequestCreate: no key',
    ...create,
    fields: keyed(undefined, undefined),
    errors: [exactlyOne],
  },
  {
    rule: 'certificates.ValidatePodCertificateRequestCreate: a request and a key',
    ...create,
    fields: request({ pkixPublicKey: derOf(ed25519.publicKey) }),
    errors: [exactlyOne],
  },
  {
    rule: 'certificates.ValidatePodCertificateRequestCreate: a malformed request',
    ...create,
    fields: request({ stubPKCS10Request: 'AA==' }),
    errors: ['spec.stubPKCS10Request: Invalid value: must be a valid PKCS#10 CSR'],
  },
  {
    rule: 'certificates.ValidatePodCertificateRequestCreate: the size of keys',
    ...create,
    fields: keyed(Buffer.alloc(10_241).toString('base64'), 'AA=='),
    errors: ['spec.pkixPublicKey: Too long: may not be more than 10240 bytes'],
  },
  {
    rule: 'certificates.ValidatePodCertificateRequestCreate: a malformed key',
    ...create,
    fields: keyed('AA==', 'AA=='),
    errors: ['spec.pkixPublicKey: Invalid value: "AA==": must be a valid PKIX-serialized public key'],
  },
  {
    rule: 'certificates.ValidatePodCertificateRequestCreate: the curve',
    ...create,
    fields: keyed(derOf(secp256k1.publicKey), 'AA=='),
    errors: ['spec.pkixPublicKey: Invalid value: "curve secp256k1": elliptic public keys must use curve P256 or P384'],
  },
  {
    rule: 'certificates.ValidatePodCertificateRequestCreate: the size of RSA keys',
    ...create,
    fields: keyed(derOf(rsa.publicKey), 'AA=='),
    errors: ['spec.pkixPublicKey: Invalid value: "1024-bit modulus": RSA keys must have modulus size 3072 or 4096'],
  },
  {
    rule: 'certificates.ValidatePodCertificateRequestCreate: the proof is of another uid',
    ...create,
    fields: keyed(derOf(ed25519.publicKey), proofOf(ed25519.privateKey, null, 'v')),
    errors: ['spec.proofOfPossession: Invalid value: could not verify proof-of-possession signature'],
  },
  ...(
    [
      ['Ed25519', ed25519, null],
      ['ECDSA', p256, 'sha256'],
    ] as const
  ).map(([name, { publicKey, privateKey }, hash]) => ({
    rule: `certificates.ValidatePodCertificateRequestCreate: a valid proof, ${name}`,
    ...create,
    fields: keyed(derOf(publicKey), proofOf(privateKey, hash)),
    errors: [],
  })),
  {
    rule: 'certificates.ValidatePodCertificateRequestUpdate',
    ...create,
    fields: request({ podName: 'q' }),
    old: {},
    errors: ['spec: Invalid value: …'],
  },
  {
    rule: 'certificates.ValidatePodCertificateRequestStatusUpdate: conditions',
    ...statusWrite,
    fields: { status: { conditions: [condition('Denied', 'False'), condition('Failed'), condition('Other')] } },
    errors: [
      'status.conditions.[0].status: Unsupported value: "False": supported values: "True"',
      'status.conditions.[1].type: Invalid value: "Failed": There may be at most one condition with type "Issued", "Denied", or "Failed"',
      'status.conditions.[2].type: Unsupported value: "Other": supported values: "Issued", "Denied", "Failed"',
    ],
  },
  {
    rule: 'certificates.ValidatePodCertificateRequestStatusUpdate: without a condition',
    ...statusWrite,
    fields: { status: { certificateChain: leafPem } },
    errors: ['status: Invalid value: status is immutable unless transitioning to "Issued", "Denied", or "Failed"'],
  },
  {
    rule: 'certificates.ValidatePodCertificateRequestStatusUpdate: a denial with a certificate',
    ...statusWrite,
    fields: { status: { conditions: [condition('Denied')], certificateChain: leafPem } },
    errors: ['status: Invalid value: non-condition status fields must be empty when denying or failing the PodCertificateRequest'],
  },
  {
    rule: 'certificates.ValidatePodCertificateRequestStatusUpdate: final',
    ...statusWrite,
    fields: { status: { conditions: [condition('Denied')] } },
    old: { status: { conditions: [condition('Failed')] } },
    errors: ['status: Invalid value: immutable after PodCertificateRequest is issued, denied, or failed'],
  },
  { rule: 'certificates.ValidatePodCertificateRequestStatusUpdate: issued', ...statusWrite, fields: issued(), errors: [] },
  ...(
    [
      [
        'no certificate',
        { certificateChain: '' },
        'status.certificateChain: Invalid value: "": issued certificate chain must contain at least one certificate',
      ],
      ['another key', { certificateChain: authorityPem }, 'status.certificateChain: Invalid value: …'],
      ['no time', { notBefore: undefined }, 'status.notBefore: Required value: must be present and consistent with the issued certificate'],
      [
        'another end',
        { notAfter: '2026-11-29T20:30:24Z' },
        'status.notAfter: Invalid value: "2026-11-29T20:30:24Z": must be set to the NotAfter time encoded in the leaf certificate',
      ],
      [
        'an early refresh',
        { beginRefreshAt: '2026-11-28T20:31:00Z' },
        'status.beginRefreshAt: Invalid value: "2026-11-28T20:31:00Z": must be at least 10 minutes after status.notBefore',
      ],
      [
        'a late refresh',
        { beginRefreshAt: '2026-11-29T20:30:00Z' },
        'status.beginRefreshAt: Invalid value: "2026-11-29T20:30:00Z": must be at least 10 minutes before status.notAfter',
      ],
    ] as const
  ).map(([rule, status, error]) => ({
    rule: `certificates.ValidatePodCertificateRequestStatusUpdate: issued, ${rule}`,
    ...statusWrite,
    fields: issued(status),
    errors: [error],
  })),
  {
    rule: 'certificates.ValidatePodCertificateRequestStatusUpdate: issued, the names of the certificate',
    ...statusWrite,
    fields: { ...keyed(leafWithNamesKey, 'AA=='), ...issued({ certificateChain: leafWithNamesPem, ...leafWithNamesTimes }) },
    errors: nameErrors,
  },
  {
    rule: 'certificates.ValidatePodCertificateRequestStatusUpdate: issued, names and another key',
    ...statusWrite,
    fields: issued({ certificateChain: leafWithNamesPem, ...leafWithNamesTimes }),
    errors: [...nameErrors, 'status.certificateChain: Invalid value: …'],
  },
  ...(
    [
      ['4 minutes and 59 seconds ago', 299_000, []],
      ['5 minutes ago', 300_000, [notNow]],
      ['in 5 minutes', -300_000, [notNow]],
    ] as const
  ).map(([when, age, errors]) => ({
    rule: `certificates.ValidatePodCertificateRequestStatusUpdate: issued ${when}`,
    ...statusWrite,
    fields: issued(),
    now: Date.parse(leafTimes.notBefore) + age,
    errors,
  })),
  {
    rule: 'certificates.ValidatePodCertificateRequestStatusUpdate: issued for longer than requested',
    ...statusWrite,
    fields: { ...request({ maxExpirationSeconds: 3600 }), ...issued() },
    old: request({ maxExpirationSeconds: 3600 }),
    errors: ['status.certificateChain: Invalid value: "86400s": leaf certificate lifetime must be <= spec.maxExpirationSeconds (3600)'],
  },
];
