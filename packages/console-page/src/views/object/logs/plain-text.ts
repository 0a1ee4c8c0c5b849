/* Control sequences of terminals (ECMA-48): CSI, OSC and other strings with their terminators, and escapes of two characters. */
// oxlint-disable-next-line no-control-regex -- control characters are what is removed
const sequences = /\u001B\[[0-?]*[ -/]*[@-~]|\u001B[\]PX^_][^\u0007\u001B]*(?:\u0007|\u001B\\)?|\u001B[ -/]*[0-~]|[\u0080-\u009F]/g;
// oxlint-disable-next-line no-control-regex -- control characters are what is replaced
const controls = /[\u0000-\u0008\u000B-\u001F\u007F]|[\u202A-\u202E\u2066-\u2069]/g;

/** The number of characters of a line that are shown. */
const maxLength = 16_384;

/** Returns a line without control sequences. Other control characters, and those that change the direction of text, become visible signs. */
export function plainText(line: string): string {
  const cut = line.length > maxLength ? `${line.slice(0, maxLength)}…` : line;
  return cut.replace(/\r$/, '').replaceAll(sequences, '').replaceAll(controls, '\uFFFD');
}

/** Returns a line of JSON indented, as several lines; other lines unchanged. */
export function formatJson(line: string): readonly string[] {
  const start = line.indexOf('{');
  if (start < 0 || !line.trimEnd().endsWith('}')) return [line];
  try {
    const value: unknown = JSON.parse(line.slice(start));
    const formatted = JSON.stringify(value, null, 2).split('\n');
    return start === 0 ? formatted : [line.slice(0, start).trimEnd(), ...formatted];
  } catch {
    return [line];
  }
}
