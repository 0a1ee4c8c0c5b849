/** The maximum length of a value (KEP-3721). Bytes. */
const longestValue = 32 * 1024;
const longestKey = 128;

const assignment = /^([^=\s][^=]*)=(.*)$/s;

/**
 * Returns the value of a key in an environment file (KEP-3721), or undefined if the file does not contain the key. In a line `KEY='value'` the
 * quoted text is literal and may span lines. Comments and empty lines are skipped; `KEY= ...` is an empty value.
 * @throws Error for an invalid line before the key, or if a key or value is too long
 */
export function envFileValue(text: string, key: string): string | undefined {
  if (key.length > longestKey)
    throw new Error(`key ${JSON.stringify(key.slice(0, longestKey))}... is longer than ${longestKey} characters`);
  const lines = text.split('\n');
  for (let index = 0; index < lines.length; index++) {
    const line = (lines[index] ?? '').trimStart();
    if (line === '' || line.startsWith('#')) continue;
    const [, name = '', rest = ''] = assignment.exec(line) ?? [];
    if (name === '') throw new Error(`line ${index + 1} is not an assignment`);
    if (name !== name.trimEnd()) throw new Error(`line ${index + 1} has a space before "="`);
    const { value, last } = quoted(rest, lines, index);
    if (name === key) return checked(key, value);
    index = last;
  }
  return undefined;
}

/** Returns the value of a quoted assignment and the index of the line on which the value ends. */
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
    if (after !== '' && !after.startsWith('#')) throw new Error(`line ${last + 1} has text after the closing quote`);
    return { value: [...parts, part.slice(0, end)].join('\n'), last };
  }
}

function checked(key: string, value: string): string {
  if (Buffer.byteLength(value) > longestValue) throw new Error(`the value of ${key} is longer than ${longestValue} bytes`);
  return value;
}
