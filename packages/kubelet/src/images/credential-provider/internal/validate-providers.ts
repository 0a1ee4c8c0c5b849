import { duplicate, fieldForbidden, invalid, notSupported, required, type FieldError } from '@oarlock/api/field/field-error';
import { parseDuration } from '@oarlock/api/values/duration';
import { isQualifiedName } from '@oarlock/api/values/names';
import { errorText } from '@oarlock/primitives/error-text';
import { isImagePattern } from '../../keyring/image-match.ts';
import { credentialProviderV1, credentialProviderVersions } from './credential-provider-api.ts';
import type { CredentialProvider } from './config-schema.ts';

type Errors = FieldError[];
type TokenAttributes = NonNullable<CredentialProvider['tokenAttributes']>;
const cacheTypes = ['ServiceAccount', 'Token'];

/** Validates the providers of a CredentialProviderConfig, in upstream's words and with the index of each provider. */
export function validateProviders(providers: readonly CredentialProvider[]): readonly FieldError[] {
  const errors: Errors = [];
  if (providers.length === 0) errors.push(required('providers', 'at least 1 item in plugins is required'));
  const names = new Set<string>();
  for (const [index, provider] of providers.entries()) {
    const path = `providers[${index}]`;
    validateName(errors, `${path}.name`, provider.name);
    if (names.has(provider.name)) errors.push(duplicate(`${path}.name`, provider.name));
    names.add(provider.name);
    validateApiVersion(errors, `${path}.apiVersion`, provider.apiVersion);
    validateMatchImages(errors, `${path}.matchImages`, provider.matchImages);
    validateDuration(errors, `${path}.defaultCacheDuration`, provider.defaultCacheDuration);
    validateEnvironment(errors, `${path}.env`, provider);
    if (provider.tokenAttributes !== undefined) validateTokenAttributes(errors, `${path}.tokenAttributes`, provider);
  }
  return errors;
}

function validateName(errors: Errors, path: string, name: string): void {
  if (name === '') errors.push(required(path));
  else if (name === '.' || name === '..') errors.push(invalid(path, name, `provider name cannot be '${name}'`));
  else if (/[/\\]/.test(name)) errors.push(invalid(path, name, "provider name cannot contain '/' or '\\'"));
  else if (/[\s\p{Cc}]/u.test(name)) errors.push(invalid(path, name, 'provider name cannot contain spaces'));
}

function validateApiVersion(errors: Errors, path: string, version: string): void {
  if (version === '') errors.push(required(path));
  else if (!credentialProviderVersions.includes(version)) errors.push(notSupported(path, version, credentialProviderVersions));
}

function validateMatchImages(errors: Errors, path: string, patterns: readonly string[]): void {
  if (patterns.length === 0) errors.push(required(path, 'at least 1 item in matchImages is required'));
  for (const [index, pattern] of patterns.entries()) {
    if (!isImagePattern(pattern))
      errors.push(invalid(`${path}[${index}]`, pattern, 'match image is invalid: it must be a host, with an optional port and path'));
  }
}

function validateDuration(errors: Errors, path: string, duration: string | undefined): void {
  if (duration === undefined) {
    errors.push(required(path));
    return;
  }
  try {
    if (parseDuration(duration) < 0n) errors.push(invalid(path, duration, 'must be greater than or equal to 0'));
  } catch (error) {
    errors.push(invalid(path, duration, errorText(error)));
  }
}

/** Validates the names of variables. Errors do not contain the values, which may be secrets. */
function validateEnvironment(errors: Errors, path: string, { env }: CredentialProvider): void {
  for (const [index, { name, value }] of env.entries()) {
    if (!/^[^=\0]+$/.test(name)) errors.push(invalid(`${path}[${index}].name`, name, "must not be empty and must not contain '='"));
    if (value.includes('\0')) errors.push(fieldForbidden(`${path}[${index}].value`, 'it contains a zero byte'));
  }
}

function validateTokenAttributes(errors: Errors, path: string, { apiVersion, tokenAttributes }: CredentialProvider): void {
  const {
    serviceAccountTokenAudience,
    cacheType,
    requireServiceAccount,
    requiredServiceAccountAnnotationKeys: requiredKeys,
    optionalServiceAccountAnnotationKeys: optionalKeys,
  } = tokenAttributes as TokenAttributes;
  if (serviceAccountTokenAudience === '') errors.push(required(`${path}.serviceAccountTokenAudience`));
  if (requireServiceAccount === undefined) errors.push(required(`${path}.requireServiceAccount`));
  if (apiVersion !== credentialProviderV1)
    errors.push(fieldForbidden(path, `tokenAttributes is only supported for ${credentialProviderV1} API version`));
  if (requireServiceAccount === false && requiredKeys.length > 0)
    errors.push(
      fieldForbidden(
        `${path}.requiredServiceAccountAnnotationKeys`,
        'requireServiceAccount cannot be false when requiredServiceAccountAnnotationKeys is set',
      ),
    );
  validateAnnotationKeys(errors, `${path}.requiredServiceAccountAnnotationKeys`, requiredKeys);
  validateAnnotationKeys(errors, `${path}.optionalServiceAccountAnnotationKeys`, optionalKeys);
  const optional = new Set(optionalKeys);
  const both = [...new Set(requiredKeys.filter((key) => optional.has(key)))];
  if (both.length > 0) errors.push(invalid(path, both.sort(), 'annotation keys cannot be both required and optional'));
  if (cacheType === '')
    errors.push(
      required(
        `${path}.cacheType`,
        `cacheType is required to be set when tokenAttributes is specified. Supported values are: ${cacheTypes.join(', ')}`,
      ),
    );
  else if (!cacheTypes.includes(cacheType)) errors.push(notSupported(`${path}.cacheType`, cacheType, cacheTypes));
}

function validateAnnotationKeys(errors: Errors, path: string, keys: readonly string[]): void {
  const seen = new Set<string>();
  for (const [index, key] of keys.entries()) {
    for (const message of isQualifiedName(key.toLowerCase())) errors.push(invalid(`${path}[${index}]`, key, message));
    if (seen.has(key)) errors.push(duplicate(`${path}[${index}]`, key));
    seen.add(key);
  }
}
