import { expect, it } from 'vitest';
import { printable, printableLines } from '../src/printable-text.ts';

const attacks = ['\u001B[2J', '\u001B]0;title\u0007', '\u009B2J', '\r', '\b', '\u0000', '\u202E', '\u001B[31', '\u001B[1;1H'];

it.each(attacks)('no control character of %j reaches the terminal', (attack) => {
  expect(printable(`a${attack}b`)).not.toMatch(/[\p{Cc}\p{Bidi_Control}]/u);
  expect(printableLines(`a${attack}b`)).not.toMatch(/[\p{Cc}\p{Bidi_Control}]/u);
});

it('keeps lines, tabulators and colors of lines', () => {
  const text = '\u001B[31mred\u001B[39m\n\tä 漢';
  expect(printableLines(text)).toBe(text);
  expect(printable('a\nb\tc')).toBe('a\uFFFDb\uFFFDc');
});
