/** Colours where the terminal has them: it is asked, and asks the environment itself. */
export interface Paint {
  red(text: string): string;
  green(text: string): string;
  yellow(text: string): string;
  cyan(text: string): string;
  dim(text: string): string;
  bold(text: string): string;
}

export function paintOf(colours: boolean): Paint {
  const coloured =
    (code: number, end = 39) =>
    (text: string): string =>
      colours ? `\u001B[${code}m${text}\u001B[${end}m` : text;
  return { red: coloured(31), green: coloured(32), yellow: coloured(33), cyan: coloured(36), dim: coloured(2, 22), bold: coloured(1, 22) };
}
