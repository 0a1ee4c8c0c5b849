import { constants, verify, type KeyObject } from 'node:crypto';
import { invalid, tooLong, type FieldError } from '../../../field/field-error.ts';
import type { PodCertificateRequest, PodCertificateRequestSpec } from '../../../generated/types/certificates-v1beta1.ts';
import { isDns1123Subdomain } from '../../../values/names.ts';
import { addInvalid, validateDomainPrefixedPath, validateImmutable, type Errors } from '../checks.ts';
import { validateAnnotations } from '../../meta.ts';
import { validateSignerName } from '../signer-name.ts';
import { parseCertificationRequest, publicKeyOf } from './certificate-request.ts';

const maxUidLength = 128;
const maxKeyMaterialSize = 10 * 1024;
const minSeconds = 3600;
const maxSeconds = 7_862_400;
/** The limit for signers of Kubernetes itself. */
const maxKubernetesSeconds = 86_400;
/** The default of `maxExpirationSeconds`. */
export const defaultExpirationSeconds = 86_400;
const isKubernetesSigner = (name: string) => /^(?:[^/]+\.)?kubernetes\.io\//.test(name);

/** Returns an error of a value that is not printed. */
export const invalidWithoutValue = (field: string, detail: string): FieldError => ({
  type: 'FieldValueInvalid',
  field,
  message: `Invalid value: ${detail}`,
});

/** Validates a PodCertificateRequest, whose spec is immutable (KEP-4317). */
export function validatePodCertificateRequest(
  errors: Errors,
  { spec = {} as PodCertificateRequestSpec }: PodCertificateRequest,
  old?: PodCertificateRequest,
): void {
  if (old !== undefined) {
    validateImmutable(errors, 'spec', spec, old.spec);
    return;
  }
  const { signerName = '', podName = '', podUID = '', serviceAccountName = '', serviceAccountUID = '', nodeName = '', nodeUID = '' } = spec;
  validateSignerName(errors, 'spec.signerName', signerName);
  validateAnnotations(errors, 'spec.unverifiedUserAnnotations', spec.unverifiedUserAnnotations);
  for (const key of Object.keys(spec.unverifiedUserAnnotations ?? {}))
    validateDomainPrefixedPath(errors, 'spec.unverifiedUserAnnotations', key);
  for (const [owner, name, uid] of [
    ['pod', podName, podUID],
    ['serviceAccount', serviceAccountName, serviceAccountUID],
    ['node', nodeName, nodeUID],
  ] as const) {
    addInvalid(errors, `spec.${owner}Name`, name, isDns1123Subdomain(name));
    if (uid === '') errors.push(invalid(`spec.${owner}UID`, uid, 'must not be empty'));
    if (uid.length > maxUidLength) errors.push(tooLong(`spec.${owner}UID`, maxUidLength));
  }
  const { maxExpirationSeconds: seconds = defaultExpirationSeconds } = spec;
  const longest = isKubernetesSigner(signerName) ? maxKubernetesSeconds : maxSeconds;
  if (seconds < minSeconds || seconds > longest)
    errors.push(invalid('spec.maxExpirationSeconds', seconds, `must be in the range [${minSeconds}, ${longest}]`));
  const fault = keyFault(spec);
  if (fault !== undefined) errors.push(fault);
}

/** Returns the first fault of the public key and of the proof that the node has its private key. */
function keyFault({
  stubPKCS10Request = '',
  pkixPublicKey = '',
  proofOfPossession = '',
  podUID,
}: PodCertificateRequestSpec): FieldError | undefined {
  for (const [field, value] of Object.entries({ pkixPublicKey, proofOfPossession, stubPKCS10Request }))
    if (Buffer.from(value, 'base64').length > maxKeyMaterialSize) return tooLong(`spec.${field}`, maxKeyMaterialSize);
  const hasKey = pkixPublicKey !== '' && proofOfPossession !== '';
  const hasPart = pkixPublicKey !== '' || proofOfPossession !== '';
  if (stubPKCS10Request === '' ? !hasKey : hasPart)
    return invalidWithoutValue('spec', 'exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set');
  if (stubPKCS10Request !== '') {
    const request = parseCertificationRequest(Buffer.from(stubPKCS10Request, 'base64'));
    if (request?.key === undefined || request.fault !== undefined)
      return invalidWithoutValue('spec.stubPKCS10Request', 'must be a valid PKCS#10 CSR');
    return keyTypeFault('spec.stubPKCS10Request', request.key);
  }
  const key = publicKeyOf(Buffer.from(pkixPublicKey, 'base64'));
  if (key === undefined) return invalid('spec.pkixPublicKey', pkixPublicKey, 'must be a valid PKIX-serialized public key');
  const fault = keyTypeFault('spec.pkixPublicKey', key);
  if (fault !== undefined || verifiesPossession(key, podUID, proofOfPossession)) return fault;
  return invalidWithoutValue('spec.proofOfPossession', 'could not verify proof-of-possession signature');
}

function keyTypeFault(field: string, { asymmetricKeyType, asymmetricKeyDetails = {} }: KeyObject): FieldError | undefined {
  const { namedCurve = '', modulusLength = 0 } = asymmetricKeyDetails;
  if (asymmetricKeyType === 'ed25519') return undefined;
  if (asymmetricKeyType === 'ec') {
    // upstream also accepts P521, which its text does not name
    if (['prime256v1', 'secp384r1', 'secp521r1'].includes(namedCurve)) return undefined;
    return invalid(field, `curve ${namedCurve}`, 'elliptic public keys must use curve P256 or P384');
  }
  if (asymmetricKeyType === 'rsa') {
    if (modulusLength === 3072 || modulusLength === 4096) return undefined;
    return invalid(field, `${modulusLength}-bit modulus`, 'RSA keys must have modulus size 3072 or 4096');
  }
  return invalidWithoutValue(field, 'unknown public key type; supported types are Ed25519, ECDSA, and RSA');
}

/** Returns true if the proof is the signature of the pod's uid by the key. */
function verifiesPossession(key: KeyObject, podUID: string, proof: string): boolean {
  const pss = { key, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: constants.RSA_PSS_SALTLEN_AUTO };
  const hash = key.asymmetricKeyType === 'ed25519' ? null : 'sha256';
  return verify(hash, Buffer.from(podUID), key.asymmetricKeyType === 'rsa' ? pss : key, Buffer.from(proof, 'base64'));
}
