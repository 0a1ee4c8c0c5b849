import { describe, expect, it } from 'vitest';
import { errorText } from '../src/error-text.ts';

describe('errorText', () => {
  it('returns the message of an Error', () => {
    expect(errorText(new TypeError('no socket'))).toBe('no socket');
  });

  it('returns any other thrown value as a string', () => {
    expect([errorText('text'), errorText(7), errorText(undefined), errorText(null)]).toEqual(['text', '7', 'undefined', 'null']);
  });
});
