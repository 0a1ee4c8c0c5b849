import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { findProgram } from '@oarlock/process-supervisor/host/host-tools';
import { commandModel } from '../../src/completion/command-model.ts';
import { completionScript } from '../../src/completion/completion.ts';
import { program } from '../../src/main.ts';

const script = completionScript('zsh', program());

describe('the script for zsh', () => {
  it('describes each command and option', () => {
    expect(script).toMatch(/^#compdef oarlock\n/);
    for (const { path, subcommands, options } of commandModel(program())) {
      const line = script.split('\n').find((each) => each.startsWith(`    '${path}') subcommands=(`));
      for (const { name } of subcommands) expect(line, path).toContain(`'${name}:`);
      for (const name of options.flatMap(({ names }) => names)) expect(line, path).toContain(`'${name}:`);
    }
  });

  // the completion system needs a terminal: its functions print what they are given
  const completeWords = `
compdef() { :; }
compset() { :; }
_describe() { print -rl -- \${(P)@[-1]} }
_files() { print -r -- "files $@" }
eval "$(cat)"
words=("$@") CURRENT=$#words
_oarlock
`;
  it.skipIf(findProgram('zsh') === undefined).each([
    [['keys', 'ca', ''], 'add\nuse\nend\n'],
    [['status', '-o', ''], 'text\njson\nyaml\n'],
    [['status', '--output=j'], 'text\njson\nyaml\n'],
    [['up', '--data-dir', ''], 'files -/\n'],
  ])('completes %j', async (words, expected) => {
    const running = promisify(execFile)('zsh', ['-f', '-c', completeWords, 'zsh', 'oarlock', ...words]);
    running.child.stdin?.end(script);
    expect(await running).toEqual({ stdout: expected, stderr: '' });
  });
});
