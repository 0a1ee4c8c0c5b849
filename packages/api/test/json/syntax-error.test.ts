import { describe, expect, it } from 'vitest';
import { goSyntaxError } from '../../src/json/syntax-error.ts';

/** Messages of Go's encoding/json. */
describe('a text that is not JSON', () => {
  const at = (c: string, where: string) => `invalid character ${c} ${where}`;
  it.each([
    ['', 'unexpected end of JSON input'],
    ['  ', 'unexpected end of JSON input'],
    ['{', 'unexpected end of JSON input'],
    ['{"a"', 'unexpected end of JSON input'],
    ['"abc', 'unexpected end of JSON input'],
    ['[1', 'unexpected end of JSON input'],
    ['tru', 'unexpected end of JSON input'],
    ['x', at("'x'", 'looking for beginning of value')],
    ['{a}', at("'a'", 'looking for beginning of object key string')],
    ['{"a":1,}', at("'}'", 'looking for beginning of object key string')],
    ['{"a" 1}', at("'1'", 'after object key')],
    ['{"a":1 "b"}', at("'\"'", 'after object key:value pair')],
    ['[1,]', at("']'", 'looking for beginning of value')],
    ['[1 2]', at("'2'", 'after array element')],
    ['{"a":[1}', at("'}'", 'after array element')],
    ['{} t', at("'t'", 'after top-level value')],
    ['01', at("'1'", 'after top-level value')],
    ['-a', at("'a'", 'in numeric literal')],
    ['1.x', at("'x'", 'after decimal point in numeric literal')],
    ['1e+', 'unexpected end of JSON input'],
    ['1ex', at("'x'", 'in exponent of numeric literal')],
    ['trux', at("'x'", "in literal true (expecting 'e')")],
    ["'a'", at("'\\''", 'looking for beginning of value')],
    ['"\n"', at("'\\n'", 'in string literal')],
    ['"\\x"', at("'x'", 'in string escape code')],
    ['"\\u00g0"', at("'g'", 'in \\u hexadecimal character escape')],
    ['é', at("'Ã'", 'looking for beginning of value')],
  ])('%j', (text, fault) => {
    expect(goSyntaxError(text)).toBe(fault);
  });

  it.each(['{}', ' [1,-0.5e-3,"\\u00e9\\n",{"a":[]},true,null] ', '0', '"é"'])('%s is JSON', (text) => {
    expect(goSyntaxError(text)).toBeUndefined();
    expect(() => JSON.parse(text) as unknown).not.toThrow();
  });

  it('is scanned at any depth', () => {
    expect(goSyntaxError('['.repeat(100_000))).toBe('unexpected end of JSON input');
  });
});
