import { describe, expect, it } from 'vitest';
import { StatusError } from '../../src/status.ts';
import { parseYaml } from '../../src/serializer/yaml.ts';

const faultOf = (text: string): string => {
  try {
    parseYaml(text);
    return 'none';
  } catch (error) {
    if (error instanceof StatusError) return error.message;
    throw error;
  }
};

/** Responses of an API server of Kubernetes 1.36. */
describe('an error in YAML', () => {
  it.each([
    ['kind: [Thing\n', "line 1: did not find expected ',' or ']'"],
    ['[a, b\n', "line 1: did not find expected ',' or ']'"],
    ['a: b\nc: [d\ne: f\n', "line 2: did not find expected ',' or ']'"],
    ['a: {b\nc: d', "line 1: did not find expected ',' or '}'"],
    ['{a: b, c', "line 1: did not find expected ',' or '}'"],
    ['{', 'line 1: did not find expected node content'],
    ['x: [', 'line 1: did not find expected node content'],
    ['a: [1,\n', 'line 1: did not find expected node content'],
    ['a: }\n', 'did not find expected node content'],
    ['a: b: c\n', 'mapping values are not allowed in this context'],
    ['a:\n\t- b\n', 'line 2: found character that cannot start any token'],
    ['a: @x\n', 'found character that cannot start any token'],
    ['a: "b\n', 'line 2: found unexpected end of stream'],
    ["a: 'b\n", 'line 2: found unexpected end of stream'],
    ['- a\nb: c\n', "line 1: did not find expected '-' indicator"],
    ['a: b\nc\n', "line 3: could not find expected ':'"],
    ['a: |\n b\nc', "line 4: could not find expected ':'"],
    ['a:\n  b: c\n d: e\n', 'line 2: did not find expected key'],
    ['a: *x\n', "unknown anchor 'x' referenced"],
  ])('%j', (text, fault) => {
    expect(faultOf(text)).toBe(`yaml: ${fault}`);
  });

  it('is not reported after the first document', () => {
    expect(parseYaml('a: b\n---\nc: [\n').value).toEqual({ a: 'b' });
    expect(parseYaml('').value).toBeNull();
  });
});
