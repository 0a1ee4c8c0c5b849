import { expect, it } from 'vitest';
import { unifiedDiff } from '../../../../src/validation/internal/spec-diff/unified-diff.ts';

const numbers = (count: number) => Array.from({ length: count }, (_, i) => String(i));
const diff = (before: readonly string[], after: readonly string[]) => unifiedDiff(before.join('\n'), after.join('\n'));

it('shows changed lines with three lines of context', () => {
  const lines = numbers(12);
  expect(diff(lines, lines)).toBe('');
  expect(diff(lines, lines.with(6, 'x'))).toBe('@@ -4,7 +4,7 @@\n 3\n 4\n 5\n-6\n+x\n 7\n 8\n 9\n');
  expect(diff(['a'], ['b'])).toBe('@@ -1 +1 @@\n-a\n+b\n');
  expect(diff(['a', 'c'], ['a', 'b', 'c'])).toBe('@@ -1,2 +1,3 @@\n a\n+b\n c\n');
});

it('joins changes that are near each other and separates others', () => {
  const lines = numbers(30);
  expect(diff(lines, lines.with(5, 'x').with(12, 'y')).match(/@@/g)).toHaveLength(2);
  expect(diff(lines, lines.with(5, 'x').with(13, 'y')).match(/@@/g)).toHaveLength(4);
});

it('finds a change among frequent lines of a long text', () => {
  const lines = numbers(120).flatMap((line) => [line, '},']);
  expect(diff(lines, lines.toSpliced(100, 1, 'x'))).toBe('@@ -98,7 +98,7 @@\n },\n 49\n },\n-50\n+x\n },\n 51\n },\n');
});

it('compares huge texts from both ends', () => {
  const lines = numbers(9000);
  const changed = lines.with(4000, 'x').with(4002, 'y');
  expect(diff(lines, changed)).toBe(
    '@@ -3998,9 +3998,9 @@\n 3997\n 3998\n 3999\n-4000\n-4001\n-4002\n+x\n+4001\n+y\n 4003\n 4004\n 4005\n',
  );
});
