import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { addNameOption, dataDir, kubeconfig } from '../../src/common/command-options.ts';

describe('the data directory and the name of a command', () => {
  const act = vi.fn();
  let file: string;
  beforeEach(async () => {
    act.mockReset();
    file = join(await mkdtemp(join(tmpdir(), 'command-options-')), 'file');
    await writeFile(file, '');
  });
  afterEach(() => rm(join(file, '..'), { recursive: true }));

  const run = (...words: readonly string[]) => {
    const root = new Command('boat').exitOverride();
    const action = (options: { readonly dataDir: string }) => act(options.dataDir);
    root.command('row').addOption(dataDir()).addOption(kubeconfig()).action(action);
    root.command('doctor').addOption(dataDir()).action(action);
    root.command('join').addOption(dataDir().default('./.boat-node')).action(action);
    addNameOption(root);
    return root.parseAsync(words, { from: 'user' });
  };

  it('is that of the name, or the named one', async () => {
    await run('row');
    await run('row', '--name', 'a');
    await run('row', '--data-dir', './b');
    await run('join');
    expect(act.mock.calls.flat()).toEqual(['./.oarlock', './.oarlock-a', './b', './.boat-node']);
  });

  it('is not both of them', async () => {
    await expect(run('row', '--name', 'a', '--data-dir', 'b')).rejects.toMatchObject({
      message: expect.stringContaining('--name a stands for --data-dir ./.oarlock-a. Use one of them'),
      exitCode: 2,
    });
    expect(act).not.toHaveBeenCalled();
  });

  it('is checked before the command acts, unless the command does not need it', async () => {
    const problem = `the data directory ${file} is a file`;
    await expect(run('row', '--data-dir', file)).rejects.toThrow(problem);
    await expect(run('join', '--data-dir', file)).rejects.toThrow(problem);
    expect(act).not.toHaveBeenCalled();
    await run('row', '--data-dir', file, '--kubeconfig', 'admin.conf');
    await run('doctor', '--data-dir', file);
    expect(act).toHaveBeenCalledTimes(2);
  });
});
