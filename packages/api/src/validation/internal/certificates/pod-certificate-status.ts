import type { X509Certificate } from 'node:crypto';
import { invalid, notSupportedInOrder, required, tooLong, type FieldError } from '../../../field/field-error.ts';
import type {
  PodCertificateRequest,
  PodCertificateRequestSpec,
  PodCertificateRequestStatus,
} from '../../../generated/types/certificates-v1beta1.ts';
import { jsonEqual } from '../../../json/json.ts';
import { parseTime } from '../../../values/time.ts';
import type { Errors } from '../checks.ts';
import { validateConditions } from '../../meta.ts';
import { parseCertificationRequest, publicKeyOf } from './certificate-request.ts';
import { alternativeNames, isMailAddress } from './alternative-names.ts';
import { defaultExpirationSeconds, invalidWithoutValue } from './pod-certificate-request.ts';
import { parseCertificate, textBlocks } from './trust-bundle.ts';

const finalTypes = ['Issued', 'Denied', 'Failed'];
const maxChainSize = 100 * 1024;
const hourMs = 3_600_000;
const tenMinutesMs = 600_000;
const maxSkewMs = 300_000;
const chainPath = 'status.certificateChain';
const immutableStatus = {
  final: 'immutable after PodCertificateRequest is issued, denied, or failed',
  rejected: 'non-condition status fields must be empty when denying or failing the PodCertificateRequest',
  open: 'status is immutable unless transitioning to "Issued", "Denied", or "Failed"',
};

const isTrue = ({ conditions = [] }: PodCertificateRequestStatus, ...types: readonly string[]) =>
  conditions.some(({ type, status }) => status === 'True' && types.includes(type ?? ''));

/**
 * Validates a write of the status of a PodCertificateRequest: it changes once, to issued, denied or failed (KEP-4317). `now` is the present time in
 * milliseconds; without it, `notBefore` is not compared with the present time.
 */
export function validatePodCertificateRequestStatus(
  errors: Errors,
  { status = {}, spec }: PodCertificateRequest,
  { old: { status: old = {} }, now }: { readonly old: PodCertificateRequest; readonly now: number | undefined },
): void {
  const count = errors.length;
  let known = 0;
  for (const [i, { type = '', status: value = '' }] of (status.conditions ?? []).entries()) {
    const at = `status.conditions.[${i}]`;
    if (!finalTypes.includes(type)) {
      errors.push(notSupportedInOrder(`${at}.type`, type, finalTypes));
      continue;
    }
    if (++known > 1)
      errors.push(invalid(`${at}.type`, type, 'There may be at most one condition with type "Issued", "Denied", or "Failed"'));
    if (value !== 'True') errors.push(notSupportedInOrder(`${at}.status`, value, ['True']));
  }
  validateConditions(errors, 'status.conditions', status.conditions ?? []);
  if (errors.length > count) return;
  const fault = statusFault(status, old, { spec, now });
  if (fault !== undefined) errors.push(...fault);
}

/** What a certificate is compared with. */
interface Expectation {
  readonly spec: PodCertificateRequestSpec;
  readonly now: number | undefined;
}

function statusFault(
  status: PodCertificateRequestStatus,
  old: PodCertificateRequestStatus,
  expected: Expectation,
): readonly FieldError[] | undefined {
  const unless = (isEqual: boolean, detail: string) => (isEqual ? undefined : [invalidWithoutValue('status', detail)]);
  if (isTrue(old, ...finalTypes)) return unless(jsonEqual(status, old), immutableStatus.final);
  const { conditions: _, ...others } = status;
  if (isTrue(status, 'Denied', 'Failed')) return unless(Object.keys(others).length === 0, immutableStatus.rejected);
  return isTrue(status, 'Issued') ? issuedFault(status, expected) : unless(jsonEqual(status, old), immutableStatus.open);
}

function issuedFault(status: PodCertificateRequestStatus, { spec, now }: Expectation): readonly FieldError[] | undefined {
  const { certificateChain: chain = '' } = status;
  if (Buffer.byteLength(chain) > maxChainSize) return [tooLong(chainPath, maxChainSize)];
  const reject = (detail: string) => [invalid(chainPath, chain, detail)];
  const [leafBlock, ...rest] = textBlocks(chain);
  if (leafBlock === undefined) return reject('issued certificate chain must contain at least one certificate');
  if (leafBlock.type !== 'CERTIFICATE') return reject('issued certificate chain must consist entirely of CERTIFICATE PEM blocks');
  const leaf = parseCertificate(leafBlock.bytes);
  if (leaf === undefined) return reject('leaf certificate does not parse as valid X.509');
  const nameFaults = namesFaults(leaf);
  if (!isIssuedTo(leaf, spec)) return [...nameFaults, ...reject('leaf certificate was not issued to the requested public key')];
  const incomplete = [...nameFaults, ...missingTimes(status)];
  if (incomplete.length > 0) return incomplete;
  const fault = timesFault(status, leaf, { spec, now });
  if (fault !== undefined) return fault;
  for (const { type, bytes } of rest) {
    // upstream's text has this typo
    if (type !== 'CERTIFICATE') return reject('issued certificate chain must consist entirely of CERTFICATE PEM blocks');
    if (parseCertificate(bytes) === undefined) return reject('intermediate certificate does not parse as valid X.509');
  }
  return undefined;
}

function namesFaults(leaf: X509Certificate): readonly FieldError[] {
  const { dns, email } = alternativeNames(leaf);
  const fault = (name: string, detail: string) => invalid(chainPath, name, detail);
  return [
    ...dns.flatMap((name) => [
      ...(name === '' ? [fault(name, 'leaf certificate should not contain empty DNSName')] : []),
      ...(name.includes('..') ? [fault(name, "leaf certificate's DNSName should not contain '..'")] : []),
      ...(name.startsWith('.') || name.endsWith('.') ? [fault(name, "leaf certificate's DNSName should not start or end with '.'")] : []),
    ]),
    ...email
      .filter((address) => !isMailAddress(address))
      .map((address) => fault(address, 'leaf certificate should not contain invalid EmailAddress')),
  ];
}

function isIssuedTo(leaf: X509Certificate, { stubPKCS10Request = '', pkixPublicKey = '' }: PodCertificateRequestSpec): boolean {
  const key =
    stubPKCS10Request === ''
      ? publicKeyOf(Buffer.from(pkixPublicKey, 'base64'))
      : parseCertificationRequest(Buffer.from(stubPKCS10Request, 'base64'))?.key;
  return key?.equals(leaf.publicKey) === true;
}

function missingTimes({ notBefore, notAfter, beginRefreshAt }: PodCertificateRequestStatus): readonly FieldError[] {
  const consistent = 'must be present and consistent with the issued certificate';
  return [
    ...(notBefore === undefined ? [required('status.notBefore', consistent)] : []),
    ...(notAfter === undefined ? [required('status.notAfter', consistent)] : []),
    ...(beginRefreshAt === undefined
      ? [required('status.beginRefreshAt', 'must be present and in the range [notbefore+10min, notafter-10min]')]
      : []),
  ];
}

/** Returns the first fault of the times. */
function timesFault(
  { notBefore = '', notAfter = '', beginRefreshAt = '' }: PodCertificateRequestStatus,
  leaf: X509Certificate,
  { spec: { maxExpirationSeconds = defaultExpirationSeconds }, now }: Expectation,
): readonly FieldError[] | undefined {
  const [from, to, refresh] = [notBefore, notAfter, beginRefreshAt].map((time) => parseTime(time) ?? Number.NaN) as [
    number,
    number,
    number,
  ];
  const [start, end] = [Date.parse(leaf.validFrom), Date.parse(leaf.validTo)];
  const lifetime = `${(end - start) / 1000}s`;
  const faults: readonly (readonly [boolean, string, string, string])[] = [
    [from !== start, 'status.notBefore', notBefore, 'must be set to the NotBefore time encoded in the leaf certificate'],
    [
      now !== undefined && Math.abs(from - now) >= maxSkewMs,
      'status.notBefore',
      notBefore,
      "must be set to within 5 minutes of kube-apiserver's current time",
    ],
    [to !== end, 'status.notAfter', notAfter, 'must be set to the NotAfter time encoded in the leaf certificate'],
    [end - start < hourMs, chainPath, lifetime, 'leaf certificate lifetime must be >= 1 hour'],
    [
      end - start > maxExpirationSeconds * 1000,
      chainPath,
      lifetime,
      `leaf certificate lifetime must be <= spec.maxExpirationSeconds (${maxExpirationSeconds})`,
    ],
    [refresh < from + tenMinutesMs, 'status.beginRefreshAt', beginRefreshAt, 'must be at least 10 minutes after status.notBefore'],
    [refresh > to - tenMinutesMs, 'status.beginRefreshAt', beginRefreshAt, 'must be at least 10 minutes before status.notAfter'],
  ];
  const first = faults.find(([isFault]) => isFault);
  return first && [invalid(first[1], first[2], first[3])];
}
