import { array, assert, constantFrom, dictionary, integer, letrec, oneof, property, string, type Arbitrary } from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Document, isScalar, visit, type Pair, type ScalarTag, type Tags } from 'yaml';
import { compareKeys } from '../../../../src/endpoints/negotiation/internal/compare-keys.ts';
import { toYaml } from '../../../../src/endpoints/negotiation/internal/to-yaml.ts';

/** Returns the text of the YAML library for a value without numbers and ambiguous strings. */
function libraryYaml(value: unknown): string {
  const customTags = (tags: Tags): Tags =>
    tags.map((tag) => (typeof tag === 'object' && 'test' in tag ? ({ ...tag, test: /(?!)/ } as ScalarTag) : tag));
  const textOf = ({ key }: Pair): string => String(isScalar(key) ? key.value : key);
  const document = new Document(value, {
    version: '1.1',
    customTags,
    sortMapEntries: (a: Pair, b: Pair) => compareKeys(textOf(a), textOf(b)),
    aliasDuplicateObjects: false,
  });
  visit(document, {
    Scalar(_, node) {
      if (typeof node.value === 'string' && toYaml({ a: node.value }) === `a: ${JSON.stringify(node.value)}\n`) node.type = 'QUOTE_DOUBLE';
    },
  });
  return document.toString({ lineWidth: 0, indentSeq: false, singleQuote: true });
}

const characters = constantFrom(...'aZ09 \t\n:#-?\'"|>&*!%@`{}[],.=~<\\/_$\u00e9\ud83d\ude00\u0000\u007f'.split(''));
const texts = oneof(
  array(characters, { maxLength: 8 }).map((each) => each.join('')),
  string({ maxLength: 6 }),
  constantFrom('---', '...', 'a: b', '- x', 'x\n\n  y\n', ' x\n y', '\n', 'x\n\n\n', 'a #b', "it's\n", 'k'.repeat(1030)),
);
// the library writes a key that begins like a document marker without quotes, Go's encoder with quotes
const keys = texts.filter((text) => !/^(?:---|\.\.\.)/.test(text));
const { value: values } = letrec<{ value: unknown }>((tie) => ({
  value: oneof(
    { depthSize: 'small' },
    texts,
    integer(),
    constantFrom(null, true, false, -0),
    array(tie('value'), { maxLength: 3 }),
    dictionary(keys, tie('value') as Arbitrary<unknown>, { maxKeys: 4 }),
  ),
}));

/** The YAML that sigs.k8s.io/yaml writes for API objects. */
describe('YAML response', () => {
  it('has sorted keys and list items at the indentation of their key', () => {
    expect(toYaml({ kind: 'X', items: [{ b: 1, a: [2] }], apiVersion: 'v1', 'f:spec': { '.': {}, 'k:{"name":"a"}': {} } })).toBe(
      'apiVersion: v1\nf:spec:\n  .: {}\n  k:{"name":"a"}: {}\nitems:\n- a:\n  - 2\n  b: 1\nkind: X\n',
    );
    expect(['a10', 'a2', 'b', 'A', '_x', 'a', '10', '9', 'a-b'].sort(compareKeys)).toEqual([
      '_x',
      '9',
      '10',
      'A',
      'a',
      'a-b',
      'a2',
      'a10',
      'b',
    ]);
  });

  it.each([
    ['true', '"true"'],
    ['n', '"n"'],
    ['1', '"1"'],
    ['1e3', '"1e3"'],
    ['', '""'],
    ['~', '"~"'],
    ['2026-01-01T00:00:00Z', '"2026-01-01T00:00:00Z"'],
    ['a: b', "'a: b'"],
    ['- a', "'- a'"],
    ['{a}', "'{a}'"],
    ['a #b', "'a #b'"],
    ['a:', "'a:'"],
    ['a#b:c', 'a#b:c'],
    ["it's", "it's"],
    ['x\ny\n', '|\n  x\n  y\n'.trimEnd()],
  ])('writes %j as %s', (value, text) => {
    expect(toYaml({ a: value })).toBe(`a: ${text}\n`);
  });

  it('keeps all digits of integers and writes exponents of large floats', () => {
    expect(toYaml({ a: 9007199254740993n, b: 1e20, c: 1.5, d: 1_234_567.5, e: 0.000_01, f: -3 })).toBe(
      'a: 9007199254740993\nb: 1e+20\nc: 1.5\nd: 1.2345675e+06\ne: 1e-05\nf: -3\n',
    );
  });

  it('equals the text of the YAML library for any value', () => {
    assert(
      property(values, (value) => {
        for (const root of [{ a: value }, [value]]) expect(toYaml(root)).toBe(libraryYaml(root));
      }),
      { numRuns: 1000 },
    );
  });

  it('sorts keys of many digits by their value', () => {
    expect([`a${'9'.repeat(30)}`, 'a007', 'a7', 'a10', 'a08', 'a1\u{1F600}', 'a1\u{1F601}', '\u00e9', 'z'].sort(compareKeys)).toEqual([
      'a1\u{1F600}',
      'a1\u{1F601}',
      'a7',
      'a007',
      'a08',
      'a10',
      `a${'9'.repeat(30)}`,
      'z',
      '\u00e9',
    ]);
  });
});
