import { duplicate, invalid, notSupported, required, type FieldError } from '../../field/field-error.ts';
import { jsonEqual } from '../../json/json.ts';
import { cidrFamily, ipFamily, isLinkLocal, isLinkLocalMulticast, isLoopback, isUnspecified } from '../../net/ip.ts';
import { isDns1123Label, isDns1123Subdomain, isPortName, isPortNumber, isQualifiedName, regexError } from '../../values/names.ts';

export type Errors = FieldError[];

export const isNegative = 'must be greater than or equal to 0';
export const isImmutable = 'field is immutable';
export const isNotPositive = 'must be greater than zero';
const fileMode = 'must be a number between 0 and 0777 (octal), both inclusive';

/** Adds one error for each message. */
export function addInvalid(errors: Errors, path: string, value: unknown, messages: readonly string[]): void {
  for (const message of messages) errors.push(invalid(path, value, message));
}
export function validateNonNegative(errors: Errors, path: string, value: number | undefined): void {
  if (value !== undefined && value < 0) errors.push(invalid(path, value, isNegative));
}
export function validateImmutable(errors: Errors, path: string, value: unknown, old: unknown): void {
  if (!jsonEqual(value, old)) errors.push(invalid(path, value, isImmutable));
}
/** Validates a required field with a fixed set of values. Adds an error if the value is absent or not in `supported`. */
export function validateEnum(errors: Errors, path: string, value: string | undefined, supported: readonly string[]): void {
  if (value === undefined || value === '') errors.push(required(path));
  else validateOptionalEnum(errors, path, value, supported);
}
export function validateOptionalEnum(errors: Errors, path: string, value: string | undefined, supported: readonly string[]): void {
  if (value !== undefined && !supported.includes(value)) errors.push(notSupported(path, value, supported));
}
export function validateNonEmpty(errors: Errors, path: string, value: string | undefined, detail?: string): void {
  if (value === undefined || value === '') errors.push(required(path, detail));
}
export const validateDNSLabel = (errors: Errors, path: string, value: string) => addInvalid(errors, path, value, isDns1123Label(value));
export const validateDNSSubdomain = (errors: Errors, path: string, value: string) =>
  addInvalid(errors, path, value, isDns1123Subdomain(value));
export const validateQualifiedName = (errors: Errors, path: string, value: string) =>
  addInvalid(errors, path, value, isQualifiedName(value));

/** Validates a path with a domain, such as `acme.io/foo` (IsDomainPrefixedPath of apimachinery). */
export function validateDomainPrefixedPath(errors: Errors, path: string, value: string): void {
  if (value === '') {
    errors.push(required(path));
    return;
  }
  const slash = value.indexOf('/');
  if (slash <= 0 || slash === value.length - 1) {
    errors.push(invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")'));
    return;
  }
  addInvalid(errors, path, value.slice(0, slash), isDns1123Subdomain(value.slice(0, slash)));
  const rest = value.slice(slash + 1);
  if (!httpPath.test(rest)) errors.push(invalid(path, rest, `Invalid path: ${regexError('must be a valid HTTP path', httpPathPattern)}`));
}
const httpPathPattern = "[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+";
const httpPath = new RegExp(`^${httpPathPattern}$`);

export function validatePortNumberOrName(errors: Errors, path: string, port: number | string | undefined): void {
  if (typeof port === 'string') addInvalid(errors, path, port, isPortName(port));
  else addInvalid(errors, path, port ?? 0, isPortNumber(port ?? 0));
}
export function validateFileMode(errors: Errors, path: string, value: number | undefined): void {
  if (value !== undefined && (value < 0 || value > 0o777)) errors.push(invalid(path, value, fileMode));
}
export function validateIP(errors: Errors, path: string, value: string): boolean {
  if (ipFamily(value) !== 0) return true;
  errors.push(invalid(path, value, 'must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)'));
  return false;
}
export function validateCIDR(errors: Errors, path: string, value: string): void {
  if (cidrFamily(value) === 0) errors.push(invalid(path, value, 'must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)'));
}
/** Rejects addresses with a special meaning: unspecified, loopback, link-local, link-local multicast. */
export function validateNonSpecialIP(errors: Errors, path: string, value: string, allowLoopback: boolean): void {
  if (ipFamily(value) === 0) errors.push(invalid(path, value, 'must be a valid IP address'));
  else if (isUnspecified(value)) errors.push(invalid(path, value, `may not be unspecified (${value})`));
  else if (isLoopback(value) && !allowLoopback)
    errors.push(invalid(path, value, 'may not be in the loopback range (127.0.0.0/8, ::1/128)'));
  else if (isLinkLocal(value)) errors.push(invalid(path, value, 'may not be in the link-local range (169.254.0.0/16, fe80::/10)'));
  else if (isLinkLocalMulticast(value))
    errors.push(invalid(path, value, 'may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)'));
}
/** Requires at most one address of each family, without duplicates. `values` are valid addresses. */
export function validateDualStack(
  errors: Errors,
  path: string,
  { values, family, what }: { readonly values: readonly string[]; readonly family: (value: string) => number; readonly what: string },
): void {
  if (values.length < 2) return;
  if (values.length > 2 || family(values[0] ?? '') === family(values[1] ?? '')) {
    errors.push(invalid(path, values, `may specify no more than one ${what} for each IP family`));
  }
  for (const [i, value] of values.entries()) if (values.indexOf(value) < i) errors.push(duplicate(`${path}[${i}]`, value));
}

/** Requires a relative path without `..`. */
export function validateDescendingPath(errors: Errors, path: string, value: string): void {
  if (value.startsWith('/')) errors.push(invalid(path, value, 'must be a relative path'));
  validateNoBacksteps(errors, path, value);
}
export function validateNoBacksteps(errors: Errors, path: string, value: string): void {
  if (value.split('/').includes('..')) errors.push(invalid(path, value, "must not contain '..'"));
}
/** As `validateDescendingPath`, and rejects names that are reserved for the kubelet. */
export function validateNonReservedPath(errors: Errors, path: string, value: string): void {
  validateDescendingPath(errors, path, value);
  if (value.startsWith('..') && !value.startsWith('../')) errors.push(invalid(path, value, "must not start with '..'"));
}
