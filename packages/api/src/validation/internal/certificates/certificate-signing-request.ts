import { duplicate, fieldForbidden, invalid, notSupported, required } from '../../../field/field-error.ts';
import type { CertificateSigningRequest } from '../../../generated/types/certificates-v1.ts';
import { repeatedIndexes, validateOptionalEnum, type Errors } from '../checks.ts';
import { validateSignerName } from '../signer-name.ts';
import { certificateFault } from './certificate.ts';
import { certificateRequestFault } from './certificate-request.ts';

const keyUsages = [
  'signing',
  'digital signature',
  'content commitment',
  'key encipherment',
  'key agreement',
  'data encipherment',
  'cert sign',
  'crl sign',
  'encipher only',
  'decipher only',
  'any',
  'server auth',
  'client auth',
  'code signing',
  'email protection',
  's/mime',
  'ipsec end system',
  'ipsec tunnel',
  'ipsec user',
  'timestamping',
  'ocsp signing',
  'microsoft sgc',
  'netscape sgc',
];
const legacySigner = 'kubernetes.io/legacy-unknown';
export function validateCertificateSigningRequest(
  errors: Errors,
  { spec }: CertificateSigningRequest,
  old?: CertificateSigningRequest,
): void {
  const { request = '', signerName = '', usages = [], expirationSeconds } = spec ?? {};
  if (old === undefined) {
    const fault = certificateRequestFault(request);
    if (fault !== undefined) errors.push(invalid('spec.request', request, fault));
    if (usages.length === 0) errors.push(required('spec.usages'));
  }
  if (signerName === legacySigner && old?.spec?.signerName !== legacySigner)
    errors.push(invalid('spec.signerName', signerName, 'the legacy signerName is not allowed via this API version'));
  else validateSignerName(errors, 'spec.signerName', signerName);
  if (old === undefined) for (const [i, usage] of usages.entries()) validateOptionalEnum(errors, `spec.usages[${i}]`, usage, keyUsages);
  for (const i of repeatedIndexes(usages)) errors.push(duplicate(`spec.usages[${i}]`, usages[i]));
  if (expirationSeconds !== undefined && expirationSeconds < 600)
    errors.push(invalid('spec.expirationSeconds', expirationSeconds, 'may not specify a duration less than 600 seconds (10 minutes)'));
}

/** Rules for writes to the status or approval: a decision is final. */
export function validateCertificateSigningRequestStatus(
  errors: Errors,
  { status }: CertificateSigningRequest,
  old?: CertificateSigningRequest,
): void {
  const list = status?.conditions ?? [];
  const types = new Set<string>();
  for (const [i, { type = '', status: is }] of list.entries()) {
    const at = `status.conditions[${i}]`;
    if (type === '') errors.push(required(`${at}.type`));
    if (types.has(type)) errors.push(duplicate(`${at}.type`, type));
    types.add(type);
    if ((type === 'Approved' && types.has('Denied')) || (type === 'Denied' && types.has('Approved')))
      errors.push(invalid(`${at}.type`, type, 'Approved and Denied conditions are mutually exclusive'));
    if (['Approved', 'Denied', 'Failed'].includes(type)) {
      if (is !== 'True') errors.push(notSupported(`${at}.status`, is ?? '', ['True']));
    } else if (!['True', 'False', 'Unknown'].includes(is ?? ''))
      errors.push(notSupported(`${at}.status`, is ?? '', ['False', 'True', 'Unknown']));
  }
  for (const type of ['Approved', 'Denied', 'Failed'])
    if (old?.status?.conditions?.some((condition) => condition.type === type) === true && !types.has(type))
      errors.push(fieldForbidden('status.conditions', `updates may not remove a condition of type ${JSON.stringify(type)}`));
  if (status?.certificate !== old?.status?.certificate) {
    const fault = certificateFault(status?.certificate);
    if (fault !== undefined) errors.push(invalid('status.certificate', '<certificate data>', fault));
  }
  if (old?.status?.certificate && status?.certificate !== old.status.certificate)
    errors.push(invalid('status.certificate', status?.certificate ?? '', 'field is immutable'));
}
