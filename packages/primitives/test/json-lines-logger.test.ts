import { jsonLinesLogger } from '@oarlock/primitives/json-lines-logger';
import { expect, it } from 'vitest';

it('writes one JSON object per line, with the bound fields and the stack of errors', () => {
  const lines: string[] = [];
  const log = jsonLinesLogger((line) => lines.push(line), { plugin: 'a' });
  log.debug({}, 'hidden');
  log.child({ key: 'x' }).warn({ err: new Error('broken') }, 'failed');
  expect(lines).toHaveLength(1);
  const [line = ''] = lines;
  expect(line.endsWith('\n')).toBe(true);
  expect(JSON.parse(line)).toMatchObject({
    level: 'warn',
    message: 'failed',
    plugin: 'a',
    key: 'x',
    err: expect.stringContaining('Error: broken\n'),
  });
});
