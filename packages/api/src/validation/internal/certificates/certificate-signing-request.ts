import { duplicate, fieldForbidden, invalid, required } from '../../../field/field-error.ts';
import type { CertificateSigningRequest } from '../../../generated/types/certificates-v1.ts';
import { repeatedIndexes, validateEnum, validateOptionalEnum, type Errors } from '../checks.ts';
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
  if (repeatedIndexes(old?.spec?.usages ?? []).length === 0)
    for (const i of repeatedIndexes(usages)) errors.push(duplicate(`spec.usages[${i}]`, usages[i]));
  if (expirationSeconds !== undefined && expirationSeconds < 600)
    errors.push(invalid('spec.expirationSeconds', expirationSeconds, 'may not specify a duration less than 600 seconds (10 minutes)'));
}

type Condition = NonNullable<NonNullable<CertificateSigningRequest['status']>['conditions']>[number];

/** Types of conditions that are only ever true, and that no update removes. */
const finalTypes = ['Approved', 'Denied', 'Failed'];
/** The types of conditions that only the approval subresource sets. */
const approvalTypes = ['Approved', 'Denied'];
const conditionsPath = 'status.conditions';
const count = (conditions: readonly Condition[] | undefined, type: string) => conditions?.filter((one) => one.type === type).length ?? 0;
const hasBoth = (conditions: readonly Condition[]) => approvalTypes.every((type) => count(conditions, type) > 0);

/** Validates an update of the status, which must not approve or deny. */
export function validateCertificateSigningRequestStatus(
  errors: Errors,
  object: CertificateSigningRequest,
  old: CertificateSigningRequest,
): void {
  validateUpdate(errors, object, old);
  for (const type of approvalTypes)
    if (count(object.status?.conditions, type) > count(old.status?.conditions, type))
      errors.push(fieldForbidden(conditionsPath, `updates may not add a condition of type ${JSON.stringify(type)}`));
  if (old.status?.certificate && object.status?.certificate !== old.status.certificate)
    errors.push(fieldForbidden('status.certificate', 'updates may not modify existing certificate content'));
}

/** Validates an update of the approval, which keeps the certificate. */
export function validateCertificateSigningRequestApproval(
  errors: Errors,
  object: CertificateSigningRequest,
  old: CertificateSigningRequest,
): void {
  validateUpdate(errors, object, old);
}

/** Faults of conditions and certificates that the stored object already has are tolerated. */
function validateUpdate(errors: Errors, object: CertificateSigningRequest, old: CertificateSigningRequest): void {
  validateCertificateSigningRequest(errors, object, old);
  validateConditions(errors, object.status?.conditions ?? [], old.status?.conditions ?? []);
  const { certificate } = object.status ?? {};
  if (certificate !== old.status?.certificate && certificateFault(old.status?.certificate) === undefined) {
    const fault = certificateFault(certificate);
    if (fault !== undefined) errors.push(invalid('status.certificate', '<certificate data>', fault));
  }
  for (const type of finalTypes)
    if (count(object.status?.conditions, type) < count(old.status?.conditions, type))
      errors.push(fieldForbidden(conditionsPath, `updates may not remove a condition of type ${JSON.stringify(type)}`));
}

function validateConditions(errors: Errors, conditions: readonly Condition[], old: readonly Condition[]): void {
  const repeated = new Set(repeatedIndexes(conditions, ({ type }) => type));
  const allowsDuplicates = repeatedIndexes(old, ({ type }) => type).length > 0;
  const allowsEmptyType = old.some(({ type }) => type === '');
  const allowsBoth = hasBoth(old);
  const seen = new Set<string>();
  for (const [i, { type = '', status = '' }] of conditions.entries()) {
    if (type === '' && !allowsEmptyType) errors.push(required(`${conditionsPath}[${i}].type`));
    validateEnum(errors, `${conditionsPath}[${i}].status`, status, finalTypes.includes(type) ? ['True'] : ['False', 'True', 'Unknown']);
    seen.add(type);
    if (!allowsBoth && approvalTypes.includes(type) && approvalTypes.every((other) => seen.has(other)))
      errors.push(invalid(conditionsPath, type, 'Approved and Denied conditions are mutually exclusive'));
    if (repeated.has(i) && !allowsDuplicates) errors.push(duplicate(`${conditionsPath}[${i}].type`, type));
  }
}
