import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { durationMs, formatDuration, parseDuration } from '@oarlock/api/values/duration';
import { intValue, scaledValue } from '@oarlock/api/values/int-or-string';
import {
  asPrefix,
  isConfigMapKey,
  isDns1035Label,
  isDns1123Label,
  isDns1123Subdomain,
  isEnvVarName,
  isLabelValue,
  isPathSegmentName,
  isPortName,
  isQualifiedName,
} from '@oarlock/api/values/names';
import { canonicalMicroTime, canonicalTime, formatMicroTime, formatTime, parseTime } from '@oarlock/api/values/time';

describe('names', () => {
  it('accepts valid names', () => {
    expect(
      [
        isDns1123Label('a-1'),
        isDns1123Subdomain('a.b-c.1'),
        isDns1035Label('a-1'),
        isQualifiedName('example.com/My_Name.1'),
        isLabelValue(''),
        isConfigMapKey('..a'.slice(1)),
      ].flat(),
    ).toEqual([]);
  });
  it('limits the prefix of a label key to 253 bytes and its name to 63', () => {
    const prefix = `${'a.'.repeat(126)}a`;
    expect(isQualifiedName(`${prefix}/${'n'.repeat(63)}`)).toEqual([]);
    expect(isQualifiedName(`${prefix}/${'n'.repeat(64)}`)).toEqual(['name part must be no more than 63 bytes']);
    expect(isQualifiedName(`${prefix}a/n`)).toEqual(['prefix part must be no more than 253 characters']);
    expect(isQualifiedName('a/b/c')[0]).toMatch(/^a valid label key must consist of .* with an optional DNS subdomain prefix/);
  });

  it("rejects invalid names with Kubernetes' messages", () => {
    expect(isDns1123Label('A')).toEqual([
      "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
    ]);
    expect(isDns1123Label('a.b')).toEqual(['must not contain dots']);
    expect(isDns1123Subdomain('a_b')).toEqual([
      "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
    ]);
    expect(isDns1123Label('a'.repeat(64))).toEqual(['must be no more than 63 characters']);
    expect(isDns1035Label('1a')[0]).toContain('a DNS-1035 label must consist of');
    expect(isQualifiedName('/a')).toEqual(['prefix part must be non-empty']);
    expect(isQualifiedName('a/')[0]).toBe('name part must be non-empty');
    expect(isLabelValue('a'.repeat(64))).toEqual(['must be no more than 63 bytes']);
    expect(isPathSegmentName('a/b%')).toEqual(["may not contain '/'", "may not contain '%'"]);
    expect(isPathSegmentName('a\0b')).toEqual(['may not contain NUL']);
    expect(isConfigMapKey('..a')).toEqual(["must not start with '..'"]);
    expect(isEnvVarName('a=b')).toHaveLength(1);
    expect(isPortName('80')).toEqual(['must contain at least one letter (a-z)']);
    expect(isDns1123Label('a\n')).toHaveLength(1);
  });
  it('allows a trailing dash in a prefix', () => {
    expect(asPrefix(isDns1123Subdomain)('web-')).toEqual([]);
    expect(asPrefix(isDns1123Subdomain)(`${'a'.repeat(253)}-`)).toEqual([]);
    expect(asPrefix(isDns1123Subdomain)(`${'a'.repeat(254)}-`)).toHaveLength(1);
    expect(asPrefix(isDns1123Subdomain)('-')).toHaveLength(1);
  });
  it('rejects long hostile names quickly', () => {
    const hostile = `${'a-'.repeat(50_000)}!`;
    expect(isDns1123Subdomain(hostile)).toHaveLength(2);
    expect(isQualifiedName(hostile)).toHaveLength(2);
  });
});

describe('durations', () => {
  it.each([
    ['1h15m30.918s', 4530918000000n],
    ['-1.5h', -5400000000000n],
    ['0', 0n],
    ['1us', 1000n],
    ['1µs', 1000n],
    ['.5s', 500000000n],
    ['+5m', 300000000000n],
    ['9223372036854775807ns', 2n ** 63n - 1n],
  ])('parses %s', (text, nanos) => {
    expect(parseDuration(text)).toBe(nanos);
  });
  it.each([
    ['', 'time: invalid duration ""'],
    ['1', 'time: missing unit in duration "1"'],
    ['1x', 'time: unknown unit "x" in duration "1x"'],
    ['.s', 'time: invalid duration ".s"'],
    ['1h-2m', 'time: unknown unit "h-" in duration "1h-2m"'],
    ['9223372036854775808ns', 'time: invalid duration'],
  ])('rejects %j', (text, message) => {
    expect(() => parseDuration(text)).toThrow(message);
  });
  it('formats durations as Go does', () => {
    expect([0n, 1n, 1500n, 1_500_000n, 90_000_000_000n, 3_600_000_000_000n, -61_000_000_000n].map(formatDuration)).toEqual([
      '0s',
      '1ns',
      '1.5µs',
      '1.5ms',
      '1m30s',
      '1h0m0s',
      '-1m1s',
    ]);
    expect(durationMs('1.5s')).toBe(1500);
    fc.assert(fc.property(fc.bigInt(-(2n ** 62n), 2n ** 62n), (nanos) => parseDuration(formatDuration(nanos)) === nanos));
  });
});

describe('times', () => {
  it('formats and parses RFC 3339', () => {
    const at = Date.UTC(2026, 0, 31, 12, 0, 0, 123);
    expect(formatTime(at)).toBe('2026-01-31T12:00:00Z');
    expect(formatMicroTime(at)).toBe('2026-01-31T12:00:00.123000Z');
    expect(parseTime('2026-01-31T13:00:00.123+01:00')).toBe(at);
    expect(canonicalTime('2026-01-31T13:00:00.9+01:00')).toBe('2026-01-31T12:00:00Z');
    expect(canonicalMicroTime('2026-01-31T12:00:00.1234567Z')).toBe('2026-01-31T12:00:00.123456Z');
    for (const text of ['', '2026-01-31', '2026-02-30T00:00:00Z', '2026-01-31T25:00:00Z', '2026-01-31 12:00:00Z', 'x'])
      expect(parseTime(text), text).toBeUndefined();
  });
});

describe('int or string', () => {
  it('scales percentages', () => {
    expect([scaledValue('25%', 10, true), scaledValue('25%', 10, false), scaledValue(3, 10, true)]).toEqual([3, 2, 3]);
    expect(() => scaledValue('x', 10, true)).toThrow('invalid value for IntOrString');
    expect([intValue('80'), intValue('http'), intValue(8)]).toEqual([80, 0, 8]);
  });
});
