import { duplicate, invalid, notSupported, required, type FieldError } from '../field-error.ts';
import { jsonEqual } from '../json.ts';
import { cidrFamily, ipFamily, isLinkLocal, isLinkLocalMulticast, isLoopback, isUnspecified } from '../ip.ts';
import { isDns1123Label, isDns1123Subdomain, isPortName, isPortNumber, isQualifiedName } from '../names.ts';

export type Errors = FieldError[];

export const isNegative = 'must be greater than or equal to 0';
export const isImmutable = 'field is immutable';
export const isNotPositive = 'must be greater than zero';
const fileMode = 'must be a number between 0 and 0777 (octal), both inclusive';

/** One error for each message. */
export function invalidEach(errors: Errors, path: string, value: unknown, messages: readonly string[]): void {
  for (const message of messages) errors.push(invalid(path, value, message));
}
export function nonNegative(errors: Errors, path: string, value: number | undefined): void {
  if (value !== undefined && value < 0) errors.push(invalid(path, value, isNegative));
}
export function immutable(errors: Errors, path: string, value: unknown, old: unknown): void {
  if (!jsonEqual(value, old)) errors.push(invalid(path, value, isImmutable));
}
/** An absent value is required, any other has to be one of `supported`. */
export function oneOf(errors: Errors, path: string, value: string | undefined, supported: readonly string[]): void {
  if (value === undefined || value === '') errors.push(required(path));
  else ifOneOf(errors, path, value, supported);
}
export function ifOneOf(errors: Errors, path: string, value: string | undefined, supported: readonly string[]): void {
  if (value !== undefined && !supported.includes(value)) errors.push(notSupported(path, value, supported));
}
export function requireText(errors: Errors, path: string, value: string | undefined, detail?: string): void {
  if (value === undefined || value === '') errors.push(required(path, detail));
}
export const dnsLabel = (errors: Errors, path: string, value: string) => invalidEach(errors, path, value, isDns1123Label(value));
export const dnsSubdomain = (errors: Errors, path: string, value: string) => invalidEach(errors, path, value, isDns1123Subdomain(value));
export const qualifiedName = (errors: Errors, path: string, value: string) => invalidEach(errors, path, value, isQualifiedName(value));

export function portNumberOrName(errors: Errors, path: string, port: number | string | undefined): void {
  if (typeof port === 'string') invalidEach(errors, path, port, isPortName(port));
  else invalidEach(errors, path, port ?? 0, isPortNumber(port ?? 0));
}
export function mode(errors: Errors, path: string, value: number | undefined): void {
  if (value !== undefined && (value < 0 || value > 0o777)) errors.push(invalid(path, value, fileMode));
}
export function ip(errors: Errors, path: string, value: string): boolean {
  if (ipFamily(value) !== 0) return true;
  errors.push(invalid(path, value, 'must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)'));
  return false;
}
export function cidr(errors: Errors, path: string, value: string): void {
  if (cidrFamily(value) === 0) errors.push(invalid(path, value, 'must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)'));
}
/** Addresses that mean something else on every node. */
export function nonSpecialIp(errors: Errors, path: string, value: string, allowLoopback: boolean): void {
  if (ipFamily(value) === 0) errors.push(invalid(path, value, 'must be a valid IP address'));
  else if (isUnspecified(value)) errors.push(invalid(path, value, `may not be unspecified (${value})`));
  else if (isLoopback(value) && !allowLoopback)
    errors.push(invalid(path, value, 'may not be in the loopback range (127.0.0.0/8, ::1/128)'));
  else if (isLinkLocal(value)) errors.push(invalid(path, value, 'may not be in the link-local range (169.254.0.0/16, fe80::/10)'));
  else if (isLinkLocalMulticast(value))
    errors.push(invalid(path, value, 'may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)'));
}
/** At most one address of each family, none of them twice. `values` are valid addresses. */
export function dualStack(errors: Errors, path: string, values: readonly string[], family: (value: string) => number, what: string): void {
  if (values.length < 2) return;
  if (values.length > 2 || family(values[0] ?? '') === family(values[1] ?? '')) {
    errors.push(invalid(path, values, `may specify no more than one ${what} for each IP family`));
  }
  for (const [i, value] of values.entries()) if (values.indexOf(value) < i) errors.push(duplicate(`${path}[${i}]`, value));
}

/** A relative path that stays below where it starts. */
export function descendingPath(errors: Errors, path: string, value: string): void {
  if (value.startsWith('/')) errors.push(invalid(path, value, 'must be a relative path'));
  noBacksteps(errors, path, value);
}
export function noBacksteps(errors: Errors, path: string, value: string): void {
  if (value.split('/').includes('..')) errors.push(invalid(path, value, "must not contain '..'"));
}
/** As `descendingPath`, and no name that the kubelet keeps for itself. */
export function nonReservedPath(errors: Errors, path: string, value: string): void {
  descendingPath(errors, path, value);
  if (value.startsWith('..') && !value.startsWith('../')) errors.push(invalid(path, value, "must not start with '..'"));
}
