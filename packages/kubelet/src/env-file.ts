/** Of one value (KEP-3721). Bytes. */
const longestValue = 32 * 1024;
const longestKey = 128;

const assignment = /^([^=\s][^=]*)=(.*)$/s;

/**
 * The value of a key in an environment file (KEP-3721): lines `KEY='value'`, where what stands between the quotes is taken as it is, over
 * several lines too. Comments and empty lines mean nothing; `KEY= ...` is empty. Undefined when the key is not there.
 * @throws Error for a line before it that is none of these, and for keys and values that are too long
 */
export function envFileValue(text: string, key: string): string | undefined {
  if (key.length > longestKey)
    throw new Error(`key ${JSON.stringify(key.slice(0, longestKey))}... is longer than ${longestKey} characters`);
  const lines = text.split('\n');
  for (let index = 0; index < lines.length; index++) {
    const line = (lines[index] ?? '').trimStart();
    if (line === '' || line.startsWith('#')) continue;
    const [, name = '', rest = ''] = assignment.exec(line) ?? [];
    if (name === '') throw new Error(`line ${index + 1} is no assignment`);
    if (name !== name.trimEnd()) throw new Error(`line ${index + 1} has a space before "="`);
    const { value, last } = quoted(rest, lines, index);
    if (name === key) return checked(key, value);
    index = last;
  }
  return undefined;
}

/** What an assignment gives, and the line on which it ends. */
function quoted(rest: string, lines: readonly string[], first: number): { readonly value: string; readonly last: number } {
  if (rest === '' || /^\s/.test(rest)) return { value: '', last: first };
  if (!rest.startsWith("'")) throw new Error(`line ${first + 1}: the value must be in single quotes`);
  const parts: string[] = [];
  for (let last = first, part = rest.slice(1); ; part = lines[++last] ?? '') {
    if (last >= lines.length) throw new Error(`line ${first + 1}: the quote is not closed`);
    const end = part.indexOf("'");
    if (end < 0) {
      parts.push(part);
      continue;
    }
    const after = part.slice(end + 1).trim();
    if (after !== '' && !after.startsWith('#')) throw new Error(`line ${last + 1} goes on after the closing quote`);
    return { value: [...parts, part.slice(0, end)].join('\n'), last };
  }
}

function checked(key: string, value: string): string {
  if (Buffer.byteLength(value) > longestValue) throw new Error(`the value of ${key} is longer than ${longestValue} bytes`);
  return value;
}
