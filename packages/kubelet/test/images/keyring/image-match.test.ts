import { describe, expect, it } from 'vitest';
import { isImagePattern, matchesImage } from '../../../src/images/keyring/image-match.ts';

describe('matchesImage', () => {
  it.each([
    ['r.example', 'r.example/app', true],
    ['r.example', 'r.example.org/app', false],
    ['*.example', 'r.example/app', true],
    ['*.example', 'a.r.example/app', false],
    ['*.*.example', 'a.r.example/app', true],
    ['r.*', 'r.example/app', true],
    ['r*t.example', 'root.example/app', true],
    ['r*t.example', 'rt.example/app', true],
    ['r*t.example', 'r.example/app', false],
    ['a*b*c.example', 'a1b2c.example/app', true],
    ['a*b*c.example', 'acb.example/app', false],
    ['r.example:5000', 'r.example:5000/app', true],
    ['r.example', 'r.example:5000/app', false],
    ['r.example:5000', 'r.example/app', false],
    ['r.example*', 'r.example:5000/app', false],
    ['*', 'localhost/app', true],
    ['r.example/team', 'r.example/team/app', true],
    ['r.example/team', 'r.example/other', false],
    ['r.example/te*', 'r.example/team/app', false],
    ['[::1]:5000', '[::1]:5000/app', true],
  ])('compares the pattern %s with %s: %s', (pattern, repository, expected) => {
    expect(matchesImage(pattern, repository)).toBe(expected);
  });

  it.each(['', '/app', 'r.example:http', 'a b', 'user@r.example', 'https://r.example', 'r.example?x'])(
    'rejects the pattern "%s"',
    (pattern) => {
      expect(isImagePattern(pattern)).toBe(false);
      expect(matchesImage(pattern, 'r.example/app')).toBe(false);
    },
  );
});
