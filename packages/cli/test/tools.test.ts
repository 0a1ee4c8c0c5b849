import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { runNode } from './support/plugins-command.ts';

const tool = (name: string, ...args: string[]) => runNode([fileURLToPath(new URL(`../../../tools/${name}.mjs`, import.meta.url)), ...args]);

// a mistyped option must not start a full run
describe('commands of the checkout', () => {
  it.each(['e2e', 'bench', 'test'])('print their usage and reject unknown options: %s', async (name) => {
    const [help, wrong] = [await tool(name, '--help'), await tool(name, '--wrong')];
    expect(help).toMatchObject({ code: 0, stderr: '', stdout: expect.stringMatching(/^npm (run |test)/) });
    expect(wrong).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('--wrong is not an option') });
  });

  it('reject unknown values', async () => {
    expect(await tool('bench', 'nosuch')).toMatchObject({ code: 2, stderr: expect.stringContaining('nosuch: no such bench') });
    expect(await tool('test', '--only', 'nosuch')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('nosuch is not one of check, unit, e2e'),
    });
    expect(await tool('test', '--only')).toMatchObject({ code: 2 });
    expect(await tool('test', 'packages/cel')).toMatchObject({ code: 2, stderr: expect.stringContaining('npx vitest run FILE') });
  });
});
