/** Control characters and characters that change the direction of text; not the line break and the tabulator. */
const unprintable = /(?![\n\t])[\p{Cc}\p{Bidi_Control}]/gu;
const escape = String.fromCharCode(0x1b);
/** The sequences that color text. */
const colors = new RegExp(`(${escape}\\[[\\d;]{0,16}m)`);

/** Replaces the control characters of a text of others, with which it could change what a terminal shows. */
export const printable = (text: string): string => text.replace(/[\n\t]/g, '\uFFFD').replace(unprintable, '\uFFFD');

/** Replaces the control characters of lines that contain text of others, except those that color or separate lines. */
export const printableLines = (text: string): string =>
  text
    .split(colors)
    .map((part, index) => (index % 2 === 1 ? part : part.replace(unprintable, '\uFFFD')))
    .join('');
