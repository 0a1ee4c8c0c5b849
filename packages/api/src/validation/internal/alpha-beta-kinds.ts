import { invalid, required } from '../../field/field-error.ts';
import type { ClusterTrustBundle } from '../../generated/types/certificates-v1beta1.ts';
import type { LeaseCandidate } from '../../generated/types/coordination-v1beta1.ts';
import { validateTrustBundle } from './certificates/trust-bundle.ts';
import { validateSignerName } from './signer-name.ts';
import { validateOptionalEnum, validateImmutable, validateQualifiedName, validateNonEmpty, type Errors } from './checks.ts';

/** Parses a semantic version without pre-release and build, as in LeaseCandidates. */
function versionOf(text: string): readonly number[] | undefined {
  const [, ...parts] = /^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:[-+].*)?$/.exec(text) ?? [];
  return parts.length === 3 ? parts.map(Number) : undefined;
}
function isNewer(a: readonly number[], b: readonly number[]): boolean {
  for (const [i, part] of a.entries()) if (part !== b[i]) return part > (b[i] ?? 0);
  return false;
}

/** Validates a LeaseCandidate (KEP-4355). */
export function validateLeaseCandidate(errors: Errors, { spec }: LeaseCandidate, old?: LeaseCandidate): void {
  const { leaseName = '', binaryVersion = '', emulationVersion = '', strategy = '' } = spec ?? {};
  validateNonEmpty(errors, 'spec.leaseName', leaseName);
  const [binary, emulation] = [versionOf(binaryVersion), versionOf(emulationVersion)];
  if (binaryVersion === '') errors.push(required('spec.binaryVersion', 'must be specified'));
  else if (binary === undefined) errors.push(invalid('spec.binaryVersion', binaryVersion, 'is not a valid semantic version'));
  if (emulationVersion !== '' && emulation === undefined)
    errors.push(invalid('spec.emulationVersion', emulationVersion, 'is not a valid semantic version'));
  if (binary !== undefined && emulation !== undefined && isNewer(emulation, binary))
    errors.push(invalid('spec.binaryVersion', binaryVersion, 'must be greater than or equal to `emulationVersion`'));
  if (strategy === '') errors.push(required('spec.strategy'));
  else if (strategy.includes('/')) validateQualifiedName(errors, 'spec.strategy', strategy);
  else validateOptionalEnum(errors, 'spec.strategy', strategy, ['OldestEmulationVersion']);
  if (strategy === 'OldestEmulationVersion' && emulationVersion === '')
    errors.push(required('spec.emulationVersion', "must be specified when `strategy` is 'OldestEmulationVersion'"));
  if (old !== undefined) validateImmutable(errors, 'spec.leaseName', leaseName, old.spec?.leaseName ?? '');
}

/** Validates a ClusterTrustBundle, whose name must have the signer name, if any, as prefix (KEP-3257). */
export function validateClusterTrustBundle(errors: Errors, { metadata, spec }: ClusterTrustBundle, old?: ClusterTrustBundle): void {
  const name = metadata?.name ?? '';
  const signerName = spec?.signerName ?? '';
  if (signerName !== '') validateSignerName(errors, 'spec.signerName', signerName);
  const prefix = `${signerName.replaceAll('/', ':')}:`;
  if (signerName === '') {
    if (name.includes(':'))
      errors.push(invalid('metadata.name', name, 'ClusterTrustBundle without signer name must not have ":" in its name'));
  } else if (!name.startsWith(prefix))
    errors.push(invalid('metadata.name', name, `ClusterTrustBundle for signerName ${signerName} must be named with prefix ${prefix}`));
  // an unchanged bundle stays valid if certificates are parsed more strictly later
  if (old === undefined || spec?.trustBundle !== old.spec?.trustBundle)
    validateTrustBundle(errors, 'spec.trustBundle', spec?.trustBundle ?? '');
  if (old !== undefined) validateImmutable(errors, 'spec.signerName', signerName, old.spec?.signerName ?? '');
}
