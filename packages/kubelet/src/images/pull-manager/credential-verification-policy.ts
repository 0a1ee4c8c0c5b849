import { repositoryOf } from '@oarlock/api/component-helpers/image-reference';

/** When pods need credentials for an image that is present (KEP-2535). */
export const credentialVerificationPolicies = [
  'NeverVerify',
  'NeverVerifyPreloadedImages',
  'NeverVerifyAllowlistedImages',
  'AlwaysVerify',
] as const;
export type CredentialVerificationPolicy = (typeof credentialVerificationPolicies)[number];

export interface CredentialVerificationSettings {
  readonly policy: CredentialVerificationPolicy;
  /** Repositories, or prefixes of repositories that end with `/*`. Only for the policy NeverVerifyAllowlistedImages. */
  readonly allowlist: readonly string[];
}

/** Returns true if a pod needs credentials for a present image. `pulledByKubelet` is false for an image that was preloaded. */
export type RequiresVerification = (image: string, pulledByKubelet: boolean) => boolean;

export function credentialVerification({ policy, allowlist }: CredentialVerificationSettings): RequiresVerification {
  const rules: Readonly<Record<CredentialVerificationPolicy, RequiresVerification>> = {
    NeverVerify: () => false,
    NeverVerifyPreloadedImages: (_, pulledByKubelet) => pulledByKubelet,
    NeverVerifyAllowlistedImages: (image) => !allowlist.some((pattern) => matchesPattern(pattern, repositoryOf(image))),
    AlwaysVerify: () => true,
  };
  return rules[policy];
}

const isWildcard = (pattern: string) => pattern.endsWith('/*');

const matchesPattern = (pattern: string, repository: string): boolean =>
  isWildcard(pattern) ? repository.startsWith(pattern.slice(0, -1)) : repository === pattern;

/** Returns why an entry of the allowlist is invalid, in upstream's words; undefined if it is valid. */
export function allowlistPatternProblem(pattern: string): string | undefined {
  if (pattern !== pattern.trim()) return `leading/trailing spaces are not allowed: ${pattern}`;
  const name = isWildcard(pattern) ? pattern.slice(0, -1) : pattern;
  if (name === '') return `the supplied pattern is too short: ${pattern}`;
  if (name.includes('*')) return `not a valid wildcard pattern, only patterns ending with '/*' are allowed: ${pattern}`;
  if (name === '/') return 'at least registry hostname is required';
  if (isWildcard(pattern) || repositoryOf(pattern) === pattern) return undefined;
  return `neither tag nor digest is accepted in an image reference, and the registry is required, such as ${repositoryOf(pattern)}: ${pattern}`;
}
