const isLetter = (c: string) => /\p{L}/u.test(c);
const isDigit = (c: string) => /\p{Nd}/u.test(c);
const isAsciiDigit = (unit: number) => unit >= 0x30 && unit <= 0x39;
const isAsciiLetter = (unit: number) => (unit | 0x20) >= 0x61 && (unit | 0x20) <= 0x7a;
const isLowSurrogate = (unit: number) => unit >= 0xdc00 && unit <= 0xdfff;

/** Compares keys as Go's YAML encoder does: other characters precede letters, and digit sequences are compared as numbers. */
export function compareKeys(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  let i = 0;
  while (i < length && a.charCodeAt(i) === b.charCodeAt(i)) i++;
  if (i === length) return a.length - b.length;
  if (isLowSurrogate(a.charCodeAt(i)) && isLowSurrogate(b.charCodeAt(i))) i--;
  const [x, y] = [a.charCodeAt(i), b.charCodeAt(i)];
  const before = i === 0 ? 0 : a.charCodeAt(i - 1);
  if (x < 128 && y < 128 && before < 128) {
    const [left, right] = [isAsciiLetter(x), isAsciiLetter(y)];
    if (left && right) return x - y;
    if (left || right) return (isAsciiDigit(before) ? left : right) ? -1 : 1;
    return compareNumbers(a, b, i) || x - y;
  }
  return compareCharacters(a, b, i);
}

/** Compares the characters at the first difference, of any script. */
function compareCharacters(a: string, b: string, at: number): number {
  const [c, d] = [characterAt(a, at), characterAt(b, at)];
  const start = at > 1 && isLowSurrogate(a.charCodeAt(at - 1)) ? at - 2 : at - 1;
  const digits = at > 0 && isDigit(characterAt(a, start));
  const [left, right] = [isLetter(c), isLetter(d)];
  if (left && right) return c < d ? -1 : 1;
  if (left || right) return (digits ? left : right) ? -1 : 1;
  return compareNumbers(a, b, at) || (c < d ? -1 : 1);
}

const characterAt = (text: string, at: number): string => String.fromCodePoint(text.codePointAt(at) ?? 0);

/** Compares the numbers at the first difference of two texts, as digits without a limit. Returns 0 if neither begins with a digit. */
function compareNumbers(a: string, b: string, at: number): number {
  const [left, right] = [digitsAt(a, at), digitsAt(b, at)];
  const [n, m] = follows(a, at) ? [left, right] : [left.replace(/^0+/, ''), right.replace(/^0+/, '')];
  if (n.length !== m.length) return n.length - m.length;
  if (n !== m) return n < m ? -1 : 1;
  return left.length - right.length;
}

/** Returns true if the digits before an index are a number of which the digits at the index are the end. */
function follows(text: string, at: number): boolean {
  for (let i = at - 1; i >= 0 && isAsciiDigit(text.charCodeAt(i)); i--) if (text.charCodeAt(i) !== 0x30) return true;
  return false;
}

function digitsAt(text: string, at: number): string {
  let end = at;
  while (end < text.length && isAsciiDigit(text.charCodeAt(end))) end++;
  return text.slice(at, end);
}
