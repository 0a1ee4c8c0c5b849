import { expect, it } from 'vitest';
import { parseIdMap } from '../../src/os/user-namespace.ts';

it.each([
  ['         0          0 4294967295\n', 'all'],
  ['         0       1000          1\n         1     100000      65536\n', 'range'],
  ['         0       1000          1\n', 'one'],
  ['', 'one'],
])('reads %j as %s', (text, ids) => {
  expect(parseIdMap(text)).toBe(ids);
});
