import { describe, expect, it } from 'vitest';
import { kubernetesEnvironment } from '../../src/checker/environment.ts';
import { compile } from '../../src/program.ts';
import { bool, double, duration, dyn, int, list, map, object, string, timestamp, type Type } from '../../src/types/type.ts';
import { equal } from '../../src/values/equality.ts';
import { Double, Optional, type Value } from '../../src/values/value.ts';

const env = kubernetesEnvironment({
  bindings: true,
  variables: {
    x: dyn,
    obj: object('Obj', {
      name: string,
      count: int,
      tags: list(string),
      labels: map(string, string),
      at: timestamp,
      for: duration,
      ratio: double,
    }),
  },
});
const bindings = {
  x: { a: 1, n: null, list: [1, 2, 3], s: 'häß😀', f: 1.5, nested: { 'b-c': true } },
  obj: { name: 'n', count: 3, tags: ['a', 'b'], labels: { app: 'web' } },
};
const run = (source: string) => {
  const compiled = compile(source, env);
  if (compiled.issues !== undefined) throw new Error(compiled.message);
  return compiled.program.evaluate(bindings);
};

/** Expressions that are true. */
const truths: Readonly<Record<string, readonly string[]>> = {
  literals: [
    '0x1F == 31',
    'dyn(1u) == 1',
    'dyn(1.0) == 1',
    '.5 == 0.5',
    '1e3 == 1000.0',
    `"a\\n\\x41\\u00e9\\U0001F600" == '''a
Aé😀'''`,
    String.raw`r"\d" == "\\d"`,
    String.raw`b"\xff\101" == b"\377A"`,
    'b"é".size() == 2',
    '-9223372036854775808 < 0',
    '[1, 2,] == [1, 2]',
    '{"a": 1}["a"] == 1',
    'null == null',
    '// a comment\ntrue',
  ],
  numbers: [
    '7 / 2 == 3',
    '-7 / 2 == -3',
    '-7 % 3 == -1',
    '7.0 / 2.0 == 3.5',
    '1.0 / 0.0 > 1e308',
    '0.0 / 0.0 != 0.0 / 0.0',
    '9007199254740993 - 9007199254740992 == 1',
    '9223372036854775807 == 9223372036854775806 + 1',
    '3037000500 * 3037000499 == 9223372033963249500',
    '1 < 1.5 && 2u > 1.5 && 1u < 2',
    'int("42") == 42 && int(3.9) == 3 && int(-3.9) == -3',
    'double("1.5") == 1.5 && double(2) == 2.0',
    'uint(3) == 3u',
    'string(1.0) == "1" && string(1.5) == "1.5" && string(1000000.0) == "1e+06" && string(true) == "true"',
  ],
  types: [
    'type(1) == int && type(1.0) == double && type("") == string && type([]) == list && type({}) == map',
    'type(null) == null_type && type(type(1)) == type',
    'type(duration("1s")) == google.protobuf.Duration',
    'dyn(1) == 1 && dyn("1") != 1',
  ],
  'logic absorbs errors': [
    'true || 1 / 0 == 1',
    '1 / 0 == 1 || true',
    '!(false && 1 / 0 == 1)',
    '!(1 / 0 == 1 && false)',
    'true ? true : 1 / 0 == 1',
  ],
  macros: [
    '[1, 2, 3].all(i, i > 0)',
    '[1, 2, 3].exists(i, i == 2)',
    '[1, 2, 3].exists_one(i, i > 2)',
    '[1, 2, 3].map(i, i * 2) == [2, 4, 6]',
    '[1, 2, 3].map(i, i > 1, i * 2) == [4, 6]',
    '[1, 2, 3].filter(i, i > 1) == [2, 3]',
    '{"a": 1, "b": 2}.all(k, k < "c")',
    '{"a": 1}.exists(k, v, k == "a" && v == 1)',
    '[5, 6].all(i, v, v == i + 5)',
    '[5, 6].existsOne(i, v, v == 6)',
    '[1, 2].transformList(i, v, i + v) == [1, 3]',
    '{"a": 1}.transformMap(k, v, v + 1) == {"a": 2}',
    '{"a": "b"}.transformMapEntry(k, v, {v: k}) == {"b": "a"}',
    '[0, 1].exists(i, 1 / i == 1)',
    'cel.bind(v, 3, v * v) == 9',
    'has(x.a) && !has(x.b) && has({"a": 1}.a)',
    'has(obj.labels.app) && !has(obj.labels.tier)',
  ],
  optionals: [
    'x.?a.orValue(0) == 1',
    'x.?b.orValue(7) == 7',
    'x.?nested.?missing.?deeper.orValue("d") == "d"',
    'x.list[?1].value() == 2 && !x.list[?9].hasValue()',
    'optional.of(1).or(optional.of(2)).value() == 1',
    'optional.none().or(optional.of(2)).value() == 2',
    '!optional.ofNonZeroValue("").hasValue()',
    'optional.of(2).optMap(v, v * 2) == optional.of(4)',
    'optional.of(2).optFlatMap(v, optional.of(v + 1)).value() == 3',
    '[?optional.of(1), ?optional.none()] == [1]',
    '{?"a": optional.none(), ?"b": optional.of(1)} == {"b": 1}',
  ],
  strings: [
    'x.s.size() == 4 && x.s.charAt(3) == "😀"',
    '"hello".indexOf("l") == 2 && "hello".lastIndexOf("l") == 3 && "hello".indexOf("z") == -1',
    '"😀b".indexOf("b") == 1',
    '"hello".substring(1, 3) == "el" && "hello".substring(4) == "o"',
    '"AbÉ".lowerAscii() == "abÉ" && "ab".upperAscii() == "AB"',
    '" a ".trim() == "a"',
    '"a,b,c".split(",") == ["a", "b", "c"] && "a,b,c".split(",", 2) == ["a", "b,c"]',
    '["a", "b"].join("-") == "a-b" && ["a", "b"].join() == "ab"',
    '"hello".replace("l", "L") == "heLLo" && "hello".replace("l", "L", 1) == "heLlo"',
    '"ab".replace("", "-") == "-a-b-"',
    '"%s is %d, %.2f, %x, %b, %%".format(["a", 42, 1.5, 255, 5]) == "a is 42, 1.50, ff, 101, %"',
    '"%s".format([{"b": [1, 2], "a": true}]) == "{a: true, b: [1, 2]}"',
    String.raw`strings.quote("a\"b") == "\"a\\\"b\""`,
    '"abc".contains("bc") && "abc".startsWith("a") && "abc".endsWith("c")',
    '"b" > "a" && "a" < "aa" && "\\uffff" < "\\U0001F600"',
  ],
  'regular expressions': [
    '"foobar".matches("o+b") && !"foobar".matches("^bar") && matches("a", "a")',
    '"abc 123".find("[0-9]+") == "123" && "abc".find("[0-9]") == ""',
    '"1 2 3".findAll("[0-9]") == ["1", "2", "3"] && "1 2 3".findAll("[0-9]", 2) == ["1", "2"]',
  ],
  'lists and sets': [
    '[1, 2, 2].isSorted() && !["b", "a"].isSorted()',
    '[1, 2].sum() == 3 && [1.5, 2.5].sum() == 4.0 && [duration("1s")].sum() == duration("1s")',
    '[3, 1, 2].min() == 1 && ["a", "c"].max() == "c"',
    '[1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2',
    '[1] + [2] == [1, 2] && 2 in [1, 2] && "a" in {"a": 1}',
    'sets.contains([1, 2], [dyn(2.0)]) && sets.equivalent([1, 2], [2, 1, 1]) && sets.intersects([1], [1, 2])',
    '[1, 2, 3, 4].slice(1, 3) == [2, 3] && [1].slice(1, 1) == []',
    '[[1], [2, 3]].flatten() == [1, 2, 3] && [dyn(1), dyn([dyn(2), dyn([3])])].flatten(2) == [1, 2, 3]',
    '[1, 2, 2, 3, 3].distinct() == [1, 2, 3] && lists.range(3) == [0, 1, 2] && [5, 3].reverse() == [3, 5]',
    '["b", "c", "a"].sort() == ["a", "b", "c"] && x.list.sort() == x.list && [].sort() == []',
    '["ccc", "a", "bb"].sortBy(e, e.size()) == ["a", "bb", "ccc"]',
    '[1, 2].first() == optional.of(1) && [1, 2].last() == optional.of(2) && !obj.tags.filter(t, t == "z").first().hasValue()',
    'optional.unwrap([optional.of(1), optional.none()]) == [1] && [optional.none(), optional.of(2)].unwrapOpt() == [2]',
    '[dyn(1), [2, dyn({"a": 3.0})]] == [dyn(1.0), [2, dyn({"a": 3})]]',
  ],
  times: [
    'timestamp("2024-02-29T23:30:00Z") + duration("1h") == timestamp("2024-03-01T00:30:00Z")',
    'timestamp("2024-01-01T00:00:00+02:00") == timestamp("2023-12-31T22:00:00Z")',
    'timestamp("2024-01-01T00:00:10Z") - timestamp("2024-01-01T00:00:00Z") == duration("10s")',
    'timestamp("2024-03-05T06:07:08.009Z").getMonth() == 2 && timestamp("2024-03-05T06:07:08.009Z").getMilliseconds() == 9',
    'timestamp("2024-03-05T06:07:08Z").getDayOfYear() == 64 && timestamp("2024-03-05T06:07:08Z").getDayOfWeek() == 2',
    'timestamp("2024-03-05T06:07:08Z").getHours("+02:00") == 8',
    'timestamp("2024-07-01T00:00:00Z").getHours("America/New_York") == 20',
    'duration("90m").getHours() == 1 && duration("90m").getMinutes() == 90 && string(duration("90m")) == "5400s"',
    'string(timestamp("2024-03-05T06:07:08.5Z")) == "2024-03-05T06:07:08.5Z" && int(timestamp("1970-01-01T00:01:00Z")) == 60',
  ],
  'addresses and URLs': [
    'isIP("::1") && !isIP("1.2.3") && !isIP("::ffff:1.2.3.4") && ip("10.0.0.1").family() == 4',
    'ip("::1").isLoopback() && ip("0.0.0.0").isUnspecified() && ip("fe80::1").isLinkLocalUnicast() && ip("8.8.8.8").isGlobalUnicast()',
    'ip.isCanonical("2001:db8::abcd") && !ip.isCanonical("2001:DB8::ABCD") && ip("1.2.3.4") == ip("1.2.3.4")',
    'string(ip("2001:db8:0:0:0:0:0:1")) == "2001:db8::1"',
    'cidr("10.0.0.0/8").containsIP("10.1.1.1") && cidr("10.0.0.0/8").containsCIDR("10.1.0.0/16") && !cidr("10.0.0.0/8").containsIP(ip("11.0.0.1"))',
    'cidr("10.1.2.3/8").masked() == cidr("10.0.0.0/8") && cidr("::1/128").prefixLength() == 128 && isCIDR("::/0") && !isCIDR("1.1.1.1")',
    'url("https://u@example.com:80/a b?k=1&k=2".replace(" ", "%20")).getHost() == "example.com:80"',
    'url("https://example.com:80/").getPort() == "80" && url("https://[::1]:80/").getHostname() == "::1"',
    'url("https://x/p?k=1&k=2").getQuery() == {"k": ["1", "2"]} && url("/path").getEscapedPath() == "/path" && !isURL("a b")',
  ],
  'quantities, versions and formats': [
    'quantity("1Gi").isGreaterThan(quantity("1G"))',
    'quantity("1.5").sign() == 1 && !quantity("1.5").isInteger() && quantity("2k").asInteger() == 2000',
    'quantity("50k").add(20) == quantity("50020") && quantity("1").sub(quantity("2")).compareTo(quantity("0")) == -1',
    'isQuantity("1Ki") && !isQuantity("one") && quantity("100m").asApproximateFloat() == 0.1',
    'semver("1.2.3").isLessThan(semver("1.10.0")) && semver("1.0.0-rc.1").isLessThan(semver("1.0.0")) && semver("v1.2", true).minor() == 2',
    'isSemver("1.2.3") && !isSemver("1.2") && isSemver("v01.2", true)',
    '!format.dns1123Label().validate("my-name").hasValue() && format.named("dns1123Label").value().validate("A_").hasValue()',
    '!format.named("nothing").hasValue() && format.uuid().validate("x").hasValue() && !format.date().validate("2024-02-29").hasValue()',
  ],
};

describe('expressions', () => {
  for (const [title, sources] of Object.entries(truths))
    it(title, () => {
      for (const source of sources) expect(run(source), source).toMatchObject({ value: true });
    });

  it('have values', () => {
    expect(run('x.f').value).toBe(1.5);
    expect(run('1.0 + 1.0').value).toEqual(new Double(2));
    expect(run('9223372036854775807').value).toBe(9223372036854775807n);
    expect(run('optional.of(1)').value).toEqual(new Optional(1));
    expect(equal(run('{"a": [1]}').value as Value, { a: [1] })).toBe(true);
  });
});

describe('errors of an evaluation', () => {
  const faults: Readonly<Record<string, string>> = {
    'x.b': 'no such key: b',
    'x.n.b': 'no such key: b',
    'x.a.b': 'no such overload',
    'x.a + "b"': 'no such overload',
    'x.list[3]': 'index out of bounds: 3',
    'x.list[-1]': 'index out of bounds: -1',
    '1 / 0': 'division by zero',
    '1 % 0': 'modulus by zero',
    '9223372036854775807 + 1': 'integer overflow',
    '-9223372036854775808 - 1': 'integer overflow',
    '-(-9223372036854775808)': 'integer overflow',
    '9223372036854775807 * 2': 'integer overflow',
    '0u - 1u': 'unsigned integer overflow',
    'int(1e19)': 'integer overflow',
    'int("a")': "type conversion error from 'string' to 'int'",
    'optional.none().value()': 'optional.none() dereference',
    '"a".charAt(5)': 'index out of range: 5',
    '[].min()': 'min called on empty list',
    'x.s.matches(dyn("("))': 'error parsing regexp',
    '[1, 2].slice(0, 3)': 'cannot slice(0, 3), list is length 2',
    '[1, 2].slice(2, 1)': 'cannot slice(2, 1), start index must be less than or equal to end index',
    '[1, 2].slice(-1, 1)': 'cannot slice(-1, 1), negative indexes not supported',
    '[dyn([1])].flatten(-1)': 'level must be non-negative',
    'lists.range(-1)': 'lists.range: size must be non-negative, got -1',
    'lists.range(100000000)': 'exceeds maximum allowed',
    '[dyn(1), dyn("a")].sort()': 'list elements must have the same type',
    '[dyn([1])].sort()': 'list elements must be comparable',
    '[1, 2].all(i, i / 0 == 1)': 'division by zero',
    'x.list.all(i, i)': 'no such overload',
    'timestamp("9999-12-31T23:59:59Z") + duration("1h")': 'timestamp overflow',
    'obj.labels.tier': 'no such key: tier',
  };
  for (const [source, message] of Object.entries(faults))
    it(source, () => {
      expect(run(source).error?.message).toContain(message);
    });
});

describe('issues of compilation', () => {
  const issues: Readonly<Record<string, string>> = {
    foo: "ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')\n | foo\n | ^",
    'obj.nam': "ERROR: <input>:1:4: undefined field 'nam'\n | obj.nam\n | ...^",
    'obj.count + "a"': "found no matching overload for '_+_' applied to '(int, string)'",
    'obj.count.size()': "found no matching overload for 'size' applied to 'int.()'",
    'obj.name.foo()': "undeclared reference to 'foo' (in container '')",
    'obj.count.all(i, true)': "expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
    '[1, "a"]': "expected type 'int' but found 'string'",
    '1 +': "Syntax error: mismatched input '<EOF>' expecting",
    '1 1': "Syntax error: mismatched input '1' expecting <EOF>",
    'a ? b': "expecting ':'",
    '"a': 'token recognition error',
    for: 'reserved identifier: for',
    'has(x)': 'invalid argument to has() macro',
    'x.all(1, true)': 'argument must be a simple name',
    '"a".matches("(")': 'invalid matches argument',
    'duration("x")': 'invalid duration argument',
    'obj.count && true': "found no matching overload for '_&&_' applied to '(int, bool)'",
    'true\n  && foo': "ERROR: <input>:2:6: undeclared reference to 'foo' (in container '')\n |   && foo\n | .....^",
    '9223372036854775808': 'invalid int literal',
    '1.sortBy(e, e) == []': 'sortBy can only be applied to a list, identifier, comprehension, call or select expression',
    '[1].sortBy(1, 2)': 'argument is not an identifier',
    'math.abs(1)': "undeclared reference to 'math' (in container '')",
    '"a".reverse()': "found no matching overload for 'reverse' applied to 'string.()'",
    'jsonpatch.escapeKey("a")': "undeclared reference to 'jsonpatch' (in container '')",
    'Nope{a: 1}': "undeclared reference to 'Nope' (in container '')",
  };
  for (const [source, message] of Object.entries(issues))
    it(source.replaceAll('\n', ' '), () => expect(compile(source, env).message ?? 'it compiles').toContain(message));

  it('includes cel.bind only in environments with bindings', () => {
    const without = kubernetesEnvironment({ variables: {} });
    expect(compile('cel.bind(v, 1, v)', without).message).toContain("undeclared reference to 'cel' (in container '')");
  });

  it('rejects expressions that nest too deep or are too long', () => {
    expect(compile(`${'('.repeat(300)}1${')'.repeat(300)}`, env).message).toContain('expression recursion limit exceeded: 250');
    expect(compile(`1${' + 1'.repeat(400)}`, env).message).toContain('expression recursion limit exceeded: 250');
    expect(compile(`x${'.a'.repeat(400)}`, env).message).toContain('expression recursion limit exceeded: 250');
    expect(compile(`${'!'.repeat(500)}true`, env).program).toBeDefined();
    expect(compile(`${'true && '.repeat(5000)}true`, env).program?.evaluate({}).value).toBe(true);
    expect(compile(`"${'a'.repeat(100_001)}"`, env).message).toContain('expression code point size exceeds limit');
  });

  it('checks the result type', () => {
    const expecting = (source: string, ...expect: Type[]) => compile(source, env, { expect }).message;
    expect(expecting('1', bool)).toBe('must evaluate to bool');
    expect(expecting('x', bool)).toBeUndefined();
    expect(expecting('true', bool)).toBeUndefined();
  });
});
