import { formatLabelSelector } from '@oarlock/api/selectors/format-label-selector';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { everythingFieldSelector, parseFieldSelector, unsupportedField } from '@oarlock/api/selectors/field-selector';
import {
  everything,
  nothing,
  parseLabelSelector,
  selectorFromLabels,
  selectorFromLabelSelector,
} from '@oarlock/api/selectors/label-selector';

describe('label selector text', () => {
  it.each([
    ['', ''],
    ['a=b', 'a=b'],
    ['a==b', 'a==b'],
    ['a != b', 'a!=b'],
    ['a in (c,b)', 'a in (b,c)'],
    ['a notin (b)', 'a notin (b)'],
    ['a', 'a'],
    ['!a', '!a'],
    ['x,a=1,b in (2)', 'a=1,b in (2),x'],
    ['a=', 'a='],
    ['a=,b', 'a=,b'],
    ['a in ()', 'a in ()'],
    ['a in (,b)', 'a in (,b)'],
    ['a in (b,,c)', 'a in (,b,c)'],
    ['in in (in,notin)', 'in in (in,notin)'],
    ['a>1,b<2', 'a>1,b<2'],
    ['example.com/a = b', 'example.com/a=b'],
    ['a,!b', 'a,!b'],
  ])('%j is %j', (text, canonical) => expect(parseLabelSelector(text).toString()).toBe(canonical));

  it.each([
    ['a=b=c', "found '=', expected: ',' or 'end of string'"],
    ['=a', "found '=', expected: !, identifier, or 'end of string'"],
    ['a,', "found '', expected: identifier after ','"],
    ['a=b,,c', "found ',', expected: identifier after ','"],
    ['a in b', "unable to parse requirement: found 'b' expected: '('"],
    ['a in (b', "unable to parse requirement: found '', expected: ',' or ')'"],
    ['a b', "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"],
    ['!=a', "found '!=', expected: !, identifier, or 'end of string'"],
    ['a>x', `unable to parse requirement: values[0]: Invalid value: "x": for 'Gt', 'Lt' operators, the value must be an integer`],
    [
      'a=b$',
      'unable to parse requirement: values[0][a]: Invalid value: "b$": a valid label must be an empty string or consist of alphanumeric',
    ],
    ['a$=b', 'unable to parse requirement: <nil>: Invalid value: "a$": name part must consist of alphanumeric characters'],
  ])('%j is rejected', (text, message) => expect(() => parseLabelSelector(text)).toThrow(message));

  it('matches if all requirements match', () => {
    const labels = { app: 'web', tier: 'front', n: '7', empty: '' };
    const matching = [
      '',
      'app',
      'app=web',
      'app!=db',
      'nope!=x',
      '!nope',
      'app in (db,web)',
      'nope notin (x)',
      'n>6',
      'n<8',
      'empty=',
      'app=web,tier',
    ];
    const failing = [
      'nope',
      'app=db',
      'app!=web',
      '!app',
      'app in (db)',
      'app notin (web)',
      'n>7',
      'app>1',
      'nope>1',
      'app=',
      'toString',
      '__proto__',
      'constructor!=x,app=db',
    ];
    for (const text of matching) expect(parseLabelSelector(text).matches(labels), text).toBe(true);
    for (const text of failing) {
      if (text === '__proto__') expect(() => parseLabelSelector(text)).toThrow('name part');
      else expect(parseLabelSelector(text).matches(labels), text).toBe(false);
    }
    expect(parseLabelSelector('a').matches(undefined)).toBe(false);
  });

  it('parses its own text to the same selector', () => {
    const word = fc.stringMatching(/^[a-z]([a-z0-9.-]{0,8}[a-z0-9])?$/);
    const term = fc.oneof(
      word,
      word.map((k) => `!${k}`),
      fc.tuple(word, fc.constantFrom('=', '==', '!='), word).map(([k, op, v]) => `${k}${op}${v}`),
      fc
        .tuple(word, fc.constantFrom('in', 'notin'), fc.array(fc.oneof(word, fc.constant('')), { minLength: 1, maxLength: 4 }))
        .map(([k, op, vs]) => `${k} ${op} (${vs.join(', ')})`),
    );
    fc.assert(
      fc.property(fc.array(term, { maxLength: 5 }), fc.dictionary(word, word), (terms, labels) => {
        const selector = parseLabelSelector(terms.join(','));
        const again = parseLabelSelector(selector.toString());
        expect(again.toString()).toBe(selector.toString());
        expect(again.matches(labels)).toBe(selector.matches(labels));
      }),
    );
  });
});

describe('label selector object', () => {
  it('selects nothing if undefined and everything if empty', () => {
    expect(selectorFromLabelSelector(undefined)).toBe(nothing);
    expect(nothing.matches({})).toBe(false);
    expect(selectorFromLabelSelector({})).toBe(everything);
    expect(selectorFromLabels(undefined)).toBe(everything);
  });
  it('compiles labels and expressions', () => {
    const selector = selectorFromLabelSelector({
      matchLabels: { a: 'b' },
      matchExpressions: [
        { key: 'c', operator: 'In', values: ['d', 'e'] },
        { key: 'f', operator: 'DoesNotExist' },
      ],
    });
    expect(`${selector}`).toBe('a=b,c in (d,e),!f');
    expect(selector.matches({ a: 'b', c: 'e' })).toBe(true);
    expect(selector.matches({ a: 'b', c: 'e', f: '' })).toBe(false);
  });
  it('rejects unknown operators and wrong values', () => {
    expect(() => selectorFromLabelSelector({ matchExpressions: [{ key: 'a', operator: 'Near' }] })).toThrow(
      '"Near" is not a valid label selector operator',
    );
    expect(() => selectorFromLabelSelector({ matchExpressions: [{ key: 'a', operator: 'In' }] })).toThrow(
      "for 'in', 'notin' operators, values set can't be empty",
    );
    expect(() => selectorFromLabelSelector({ matchExpressions: [{ key: 'a', operator: 'Exists', values: ['x'] }] })).toThrow(
      'values set must be empty for exists and does not exist',
    );
  });
});

describe('field selector', () => {
  it('parses, prints and matches', () => {
    const selector = parseFieldSelector('spec.nodeName=n1,metadata.name!=x,status.phase==Running');
    expect(selector.toString()).toBe('metadata.name!=x,spec.nodeName=n1,status.phase=Running');
    expect(selector.matches({ 'spec.nodeName': 'n1', 'metadata.name': 'y', 'status.phase': 'Running' })).toBe(true);
    expect(selector.matches({ 'spec.nodeName': 'n1', 'metadata.name': 'x', 'status.phase': 'Running' })).toBe(false);
    expect(selector.requiresExactMatch('spec.nodeName')).toBe('n1');
    expect(selector.requiresExactMatch('metadata.name')).toBeUndefined();
    expect(parseFieldSelector('spec.nodeName=').matches({})).toBe(true);
    expect(parseFieldSelector('')).toBe(everythingFieldSelector);
  });
  it('unescapes values', () => {
    expect(parseFieldSelector('a=b\\,c\\=d\\\\e').requirements).toEqual([{ field: 'a', operator: '=', value: 'b,c=d\\e' }]);
    fc.assert(
      fc.property(fc.string(), (value) => {
        const selector = parseFieldSelector(`a=${value.replace(/[\\,=]/g, (c) => `\\${c}`)}`);
        expect(selector.requiresExactMatch('a')).toBe(value);
        expect(parseFieldSelector(selector.toString()).requiresExactMatch('a')).toBe(value);
      }),
    );
  });
  it('rejects invalid syntax', () => {
    expect(() => parseFieldSelector('a')).toThrow("invalid selector: 'a'; can't understand 'a'");
    expect(() => parseFieldSelector('a=b=c')).toThrow('invalid field selector: unescaped character in value');
    expect(() => parseFieldSelector('a=b\\x')).toThrow('invalid field selector: invalid escape sequence: \\x');
    expect(unsupportedField(parseFieldSelector('metadata.name=a,spec.x=b'), new Set(['metadata.name']))).toBe(
      'field label not supported: spec.x',
    );
  });
});

describe('formatLabelSelector', () => {
  it('formats a LabelSelector as Go does', () => {
    expect(formatLabelSelector(undefined)).toBe('nil');
    expect(formatLabelSelector({})).toBe('&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{},}');
    const matchExpressions = [
      { key: 'k', operator: 'In', values: ['x', 'y'] },
      { key: 'e', operator: 'Exists' },
    ];
    expect(formatLabelSelector({ matchLabels: { b: '2', a: '1' }, matchExpressions })).toBe(
      '&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:k,Operator:In,Values:[x y],},LabelSelectorRequirement{Key:e,Operator:Exists,Values:[],},},}',
    );
  });
});
