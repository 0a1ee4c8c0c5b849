import { X509Certificate } from 'node:crypto';
import { leafPem, leafWithNamesPem } from '@oarlock/testing/sample-certificates';
import { describe, expect, it } from 'vitest';
import { alternativeNames, isMailAddress } from '../../../../src/validation/internal/certificates/alternative-names.ts';

describe('alternative names of a certificate', () => {
  it('are its DNS names and e-mail addresses, also empty and quoted ones', () => {
    expect(alternativeNames(new X509Certificate(leafWithNamesPem))).toEqual({
      dns: ['', 'a..b', '.a', 'a.', 'good.example', 'x, "y"'],
      email: ['a@b.example', 'A B <a@b.example>', 'bad', 'a@', '"q r"@b.example', '<a@[127.0.0.1]>'],
    });
    expect(alternativeNames(new X509Certificate(leafPem))).toEqual({ dns: [], email: [] });
  });
});

describe('mail addresses', () => {
  it.each(['a@b', 'a.b+c@d.example', '<a@b>', ' a@b ', 'A <a@b>', '"A, B" C<a@b>', '"a b"@c', '"a\\"b"@c', 'a@[127.0.0.1]'])(
    'accepts %s',
    (text) => {
      expect(isMailAddress(text)).toBe(true);
    },
  );
  it.each([
    '',
    'a',
    '@b',
    'a@',
    'a@b@c',
    'a..b@c',
    '.a@b',
    'a.@b',
    'a@.b',
    'a@b.',
    'a b@c',
    'a@b c',
    '<a@b',
    'a@b>',
    'A <a@b> c',
    '"a@b',
    'a@b, c@d',
    'ä@b',
  ])('rejects %s', (text) => {
    expect(isMailAddress(text)).toBe(false);
  });
  it.each([
    ['spaces', ' '.repeat(100_000)],
    ['words', 'a '.repeat(50_000)],
    ['dots', 'a.'.repeat(50_000)],
    ['quotes', '"a" '.repeat(25_000)],
    ['angles', `a${' '.repeat(100_000)}a`],
  ])('rejects long %s', (_, text) => {
    expect(isMailAddress(text)).toBe(false);
  });
});
