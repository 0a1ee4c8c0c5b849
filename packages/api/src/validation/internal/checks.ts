import { duplicate, invalid, notSupported, notSupportedInOrder, required, type FieldError } from '../../field/field-error.ts';
import { jsonEqual } from '../../json/json.ts';
import { parseCIDRSloppy } from '../../net/cidr.ts';
import { ipFamily, isLinkLocal, isLinkLocalMulticast, isLoopback, isUnspecified } from '../../net/ip.ts';
import { parseIPSloppy } from '../../net/sloppy-ip.ts';
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
/** As `validateEnum`; the error lists the values in the given order instead of sorted. */
export function validateEnumInOrder(
  errors: Errors,
  path: string,
  { value, supported }: { readonly value: string | undefined; readonly supported: readonly string[] },
): void {
  if (value === undefined || value === '') errors.push(required(path));
  else if (!supported.includes(value)) errors.push(notSupportedInOrder(path, value, supported));
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
/** Validates an address that need not be canonical (KEP-4858). Returns true if it is valid. */
export function validateIP(errors: Errors, path: string, value: string): boolean {
  const address = parseIPSloppy(value);
  if (address === undefined) errors.push(invalid(path, value, 'must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)'));
  else if (address.hasLeadingZeros) errors.push(invalid(path, value, 'must not have leading 0s'));
  else if (address.isMapped) errors.push(invalid(path, value, 'must not be an IPv4-mapped IPv6 address'));
  else return true;
  return false;
}
/** Validates a network that need not be canonical (KEP-4858). Values that the old object has, `existing`, are not validated. */
export function validateCIDR(
  errors: Errors,
  { path, existing }: { readonly path: string; readonly existing?: ReadonlySet<string> },
  value: string,
): void {
  if (existing?.has(value) === true) return;
  const cidr = parseCIDRSloppy(value);
  const slash = value.indexOf('/');
  const address = parseIPSloppy(value.slice(0, Math.max(slash, 0)));
  if (cidr === undefined || address === undefined)
    errors.push(invalid(path, value, 'must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)'));
  else if (address.hasLeadingZeros || /^0\d/.test(value.slice(slash + 1)))
    errors.push(invalid(path, value, 'must not have leading 0s in IP or prefix length'));
  else if (address.isMapped) errors.push(invalid(path, value, 'must not have an IPv4-mapped IPv6 address'));
  else if (cidr.address !== cidr.first) errors.push(invalid(path, value, 'must not have bits set beyond the prefix length'));
}
/** Rejects addresses with a special meaning: unspecified, loopback, link-local, link-local multicast. */
export function validateNonSpecialIP(errors: Errors, path: string, value: string, allowLoopback: boolean): void {
  const address = parseIPSloppy(value)?.canonical ?? '';
  if (ipFamily(address) === 0) errors.push(invalid(path, value, 'must be a valid IP address'));
  else if (isUnspecified(address)) errors.push(invalid(path, value, `may not be unspecified (${value})`));
  else if (isLoopback(address) && !allowLoopback)
    errors.push(invalid(path, value, 'may not be in the loopback range (127.0.0.0/8, ::1/128)'));
  else if (isLinkLocal(address)) errors.push(invalid(path, value, 'may not be in the link-local range (169.254.0.0/16, fe80::/10)'));
  else if (isLinkLocalMulticast(address))
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
  for (const i of repeatedIndexes(values)) errors.push(duplicate(`${path}[${i}]`, values[i]));
}
/** Returns, in order, the indexes of the values whose key an earlier value has. Linear: clients determine the number of values. */
export function repeatedIndexes<T>(values: readonly T[], keyOf: (value: T) => unknown = (value) => value): number[] {
  const seen = new Set<unknown>();
  return [...values.keys()].filter((i) => {
    const before = seen.size;
    seen.add(keyOf(values[i] as T));
    return seen.size === before;
  });
}

/** Returns the map with its keys in order, as error messages print maps. */
export const sortedMap = <T>(map: Readonly<Record<string, T>>): Readonly<Record<string, T>> =>
  Object.fromEntries(Object.entries(map).sort(([a], [b]) => (a < b ? -1 : 1)));

/** Requires a relative path without `..`. */
export function validateDescendingPath(errors: Errors, path: string, value: string): void {
  if (value.startsWith('/')) errors.push(invalid(path, value, 'must be a relative path'));
  validateNoBacksteps(errors, path, value);
}
export function validateNoBacksteps(errors: Errors, path: string, value: string): void {
  if (value.includes('..') && value.split('/').includes('..')) errors.push(invalid(path, value, "must not contain '..'"));
}
/** As `validateDescendingPath`, and rejects names that are reserved for the kubelet. */
export function validateNonReservedPath(errors: Errors, path: string, value: string): void {
  validateDescendingPath(errors, path, value);
  if (value.startsWith('..') && !value.startsWith('../')) errors.push(invalid(path, value, "must not start with '..'"));
}
