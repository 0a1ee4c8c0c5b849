import fc from 'fast-check';

/** Texts that parsers are known to mistake, and that are spliced into valid inputs. */
const hostile = [
  '__proto__',
  'constructor',
  'prototype',
  '\0',
  '\r\n',
  '%00',
  '%2e%2e',
  '%2f',
  '..',
  '//',
  '\u2028',
  '\ud800',
  '\ufeff',
  '{{',
  '}}',
  '[[[[[[[[',
  '((((((((',
  '"',
  "'",
  '\\',
  '-',
  '~1',
  '~0',
  '*',
  '&a ',
  '*a',
  '!!js/function',
  '<<: ',
  '|',
  '? ',
  '9223372036854775808',
  '-0',
  '1e400',
  '1e-400',
  'NaN',
  '0x10',
  '1'.repeat(400),
  'a'.repeat(5000),
  ' '.repeat(2000),
  '\n'.repeat(500),
  '{"a":'.repeat(150),
  '['.repeat(300),
  '('.repeat(300),
  '!'.repeat(300),
  '-'.repeat(300),
  ','.repeat(300),
  'a.'.repeat(300),
];

type Edit = readonly [at: number, remove: number, insert: string];
const edit: fc.Arbitrary<Edit> = fc.tuple(
  fc.double({ min: 0, max: 1, noNaN: true }),
  fc.nat({ max: 12 }),
  fc.oneof(fc.constantFrom(...hostile), fc.string({ maxLength: 8 }), fc.string({ unit: 'binary', maxLength: 4 }), fc.constant('')),
);

/** Valid texts with a few changes, and now and then a text of anything. */
export function mutatedText(...valid: readonly string[]): fc.Arbitrary<string> {
  const changed = fc.tuple(fc.constantFrom(...valid), fc.array(edit, { maxLength: 5 })).map(([text, edits]) =>
    edits.reduce((current, [at, remove, insert]) => {
      const offset = Math.floor(at * (current.length + 1));
      return current.slice(0, offset) + insert + current.slice(offset + remove);
    }, text),
  );
  return fc.oneof({ arbitrary: changed, weight: 9 }, { arbitrary: fc.string({ unit: 'binary', maxLength: 200 }), weight: 1 });
}

const byteEdit = fc.tuple(
  fc.double({ min: 0, max: 1, noNaN: true }),
  fc.nat({ max: 6 }),
  fc.oneof(
    fc.uint8Array({ maxLength: 8 }),
    fc.constantFrom(
      Uint8Array.of(0xff, 0xff, 0xff, 0xff),
      Uint8Array.of(0x80, 0, 0, 0),
      Uint8Array.of(0, 0, 0, 0),
      new Uint8Array(600).fill(0xc0),
    ),
  ),
);

/** Valid bytes with a few changes, and now and then bytes of anything. */
export function mutatedBytes(...valid: readonly Uint8Array[]): fc.Arbitrary<Buffer> {
  const changed = fc.tuple(fc.constantFrom(...valid), fc.array(byteEdit, { maxLength: 4 })).map(([bytes, edits]) =>
    edits.reduce((current, [at, remove, insert]) => {
      const offset = Math.floor(at * (current.length + 1));
      return Buffer.concat([current.subarray(0, offset), insert, current.subarray(offset + remove)]);
    }, Buffer.from(bytes)),
  );
  return fc.oneof(
    { arbitrary: changed, weight: 9 },
    { arbitrary: fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)), weight: 1 },
  );
}

/** Values of JSON, with keys that collide with prototypes. */
export const jsonValue = fc.letrec<{ readonly value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom<unknown>(null, true, 0, -1, 1.5, '', 'a', '__proto__', [], {}),
    fc.string({ maxLength: 6 }),
    fc.array(tie('value'), { maxLength: 4 }),
    fc
      .array(fc.tuple(fc.constantFrom('a', 'b', 'metadata', 'name', '__proto__', 'constructor', 'prototype', 'toString'), tie('value')), {
        maxLength: 4,
      })
      .map(
        (entries) =>
          JSON.parse(
            `{${entries.map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value) ?? 'null'}`).join(',')}}`,
          ) as unknown,
      ),
  ),
})).value;
