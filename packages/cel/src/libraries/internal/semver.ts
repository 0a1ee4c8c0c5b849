import { CelError } from '../../values/cel-error.ts';
import { fn, traversal, type Library } from '../library.ts';
import { intOf, Opaque } from '../../values/value.ts';

const typeName = 'kubernetes.Semver';
const number = '(0|[1-9]\\d*)';
const strict = new RegExp(`^${number}\\.${number}\\.${number}(?:-([0-9A-Za-z.-]+))?(?:\\+([0-9A-Za-z.-]+))?$`);

class Version extends Opaque {
  readonly typeName = typeName;
  readonly numbers: readonly [bigint, bigint, bigint];
  readonly pre: readonly string[];
  constructor(numbers: readonly [bigint, bigint, bigint], pre: readonly string[]) {
    super();
    this.numbers = numbers;
    this.pre = pre;
  }
  override equals(other: Opaque): boolean {
    return other instanceof Version && compareVersions(this, other) === 0;
  }
}

const maxNumber = 2n ** 64n - 1n;

/**
 * Parses a semantic version; returns undefined if the text is invalid. `normalize` first removes a leading `v` and leading zeros, and adds
 * missing parts.
 */
function parse(text: string, normalize: boolean): Version | undefined {
  const match = strict.exec(normalize ? normalized(text) : text);
  if (match === null) return undefined;
  const [, major = '', minor = '', patch = '', pre, build] = match;
  const numbers = [BigInt(major), BigInt(minor), BigInt(patch)] as const;
  if (numbers.some((each) => each > maxNumber)) return undefined;
  const parts = pre?.split('.') ?? [];
  if (parts.some((part) => part === '' || /^0\d+$/.test(part)) || build?.split('.').includes('')) return undefined;
  return new Version(numbers, parts);
}
function normalized(text: string): string {
  const end = /[-+]/.exec(text)?.index ?? text.length;
  const core = text.slice(0, end).replace(/^v/, '').split('.');
  while (core.length < 3) core.push('0');
  return core.map((part) => part.replace(/^0+(?=\d)/, '')).join('.') + text.slice(end);
}

function compareVersions(a: Version, b: Version): number {
  for (let i = 0; i < 3; i++) {
    const [x, y] = [a.numbers[i] ?? 0n, b.numbers[i] ?? 0n];
    if (x !== y) return x < y ? -1 : 1;
  }
  if (a.pre.length === 0 || b.pre.length === 0) return Math.sign(b.pre.length - a.pre.length);
  for (let i = 0; i < Math.max(a.pre.length, b.pre.length); i++) {
    const [x, y] = [a.pre[i], b.pre[i]];
    if (x === undefined || y === undefined) return x === undefined ? -1 : 1;
    if (x === y) continue;
    const [first, second] = [/^\d+$/.test(x), /^\d+$/.test(y)];
    if (first !== second) return first ? -1 : 1;
    if (first) return BigInt(x) < BigInt(y) ? -1 : 1;
    return x < y ? -1 : 1;
  }
  return 0;
}
const part = (name: string, i: 0 | 1 | 2) => fn(`(${typeName}).${name}(): int`, ({ numbers }: Version) => intOf(numbers[i]));
const parsing = { cost: (size: number) => Math.max(1, traversal(size)) };

export const semver: Library = {
  name: 'semver',
  functions: [
    fn(
      [`semver(string): ${typeName}`, `semver(string, bool): ${typeName}`],
      (text: string, normalize = false) => {
        const version = parse(text, normalize);
        if (version === undefined) throw new CelError('invalid-argument', `invalid semantic version: ${JSON.stringify(text)}`);
        return version;
      },
      parsing,
    ),
    fn(
      ['isSemver(string): bool', 'isSemver(string, bool): bool'],
      (text: string, normalize = false) => parse(text, normalize) !== undefined,
      parsing,
    ),
    part('major', 0),
    part('minor', 1),
    part('patch', 2),
    fn(`(${typeName}).isGreaterThan(${typeName}): bool`, (a: Version, b: Version) => compareVersions(a, b) > 0),
    fn(`(${typeName}).isLessThan(${typeName}): bool`, (a: Version, b: Version) => compareVersions(a, b) < 0),
    fn(`(${typeName}).compareTo(${typeName}): int`, compareVersions),
  ],
};
