import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { runNode } from './plugins-command.ts';

const tool = (name: string, ...args: string[]) => runNode([fileURLToPath(new URL(`../../../tools/${name}.mjs`, import.meta.url)), ...args]);

// what is not understood must not set up and run everything
describe('the commands of the checkout', () => {
  it.each(['e2e', 'bench', 'test'])(
    'say how they are used, and refuse options that there are not: %s',
    { timeout: 60_000 },
    async (name) => {
      const [help, wrong] = [await tool(name, '--help'), await tool(name, '--wrong')];
      expect(help).toMatchObject({ code: 0, stderr: '', stdout: expect.stringMatching(/^npm (run |test)/) });
      expect(wrong).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('there is no option --wrong') });
    },
  );

  it('refuse values that there are not', { timeout: 60_000 }, async () => {
    expect(await tool('bench', 'nosuch')).toMatchObject({ code: 2, stderr: expect.stringContaining('there is no bench nosuch') });
    expect(await tool('test', '--only', 'nosuch')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('there are check, unit, e2e'),
    });
    expect(await tool('test', '--only')).toMatchObject({ code: 2 });
    expect(await tool('test', 'packages/cel')).toMatchObject({ code: 2, stderr: expect.stringContaining('npx vitest run FILE') });
  });
});
