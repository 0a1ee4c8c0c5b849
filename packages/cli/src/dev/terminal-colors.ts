/** Functions that color a text for the terminal. */
export interface Colors {
  red(text: string): string;
  green(text: string): string;
  yellow(text: string): string;
  cyan(text: string): string;
  dim(text: string): string;
  bold(text: string): string;
}

/** Returns ANSI colors if `enabled`, otherwise functions that return the text unchanged. */
export function colorsFor(enabled: boolean): Colors {
  const colored =
    (code: number, end = 39) =>
    (text: string): string =>
      enabled ? `\u001B[${code}m${text}\u001B[${end}m` : text;
  return { red: colored(31), green: colored(32), yellow: colored(33), cyan: colored(36), dim: colored(2, 22), bold: colored(1, 22) };
}
