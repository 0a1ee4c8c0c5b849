import { describe, expect, it } from 'vitest';
import { checkValueCount, maxBodyValues } from '../../../src/endpoints/request/body-values.ts';

const check = (text: string) => () => checkValueCount(Buffer.from(text));
const tooMany = 'Request entity too large: a body may have 100000 values';

describe('checkValueCount', () => {
  it('counts members, elements and nested values', () => {
    const elements = (count: number) => `[${Array.from({ length: count }, () => '1').join(',')}]`;
    expect(check(elements(maxBodyValues))).not.toThrow();
    expect(check(elements(maxBodyValues + 1))).toThrow(tooMany);
    expect(check(`{${Array.from({ length: maxBodyValues + 1 }, (_, i) => `"${i}":1`).join(',')}}`)).toThrow(tooMany);
    expect(check('['.repeat(maxBodyValues + 1))).toThrow(tooMany);
    expect(check('{"a":'.repeat(maxBodyValues + 1))).toThrow(tooMany);
  });

  it('ignores delimiters in strings', () => {
    expect(check(JSON.stringify({ text: '{[,"\\'.repeat(maxBodyValues) }))).not.toThrow();
    expect(check(`["${'\\\\'.repeat(maxBodyValues)}"${',1'.repeat(maxBodyValues)}]`)).toThrow(tooMany);
  });

  it('accepts text that ends in a string', () => {
    expect(check(`"${','.repeat(maxBodyValues)}\\`)).not.toThrow();
  });
});
