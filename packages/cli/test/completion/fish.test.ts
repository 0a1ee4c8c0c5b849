import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { findProgram } from '@oarlock/process-supervisor/host/host-tools';
import { commandModel } from '../../src/completion/command-model.ts';
import { completionScript } from '../../src/completion/completion.ts';
import { program } from '../../src/main.ts';

const script = completionScript('fish', program());

describe('the script for fish', () => {
  it('has a line for each command and option', () => {
    const lines = script.split('\n');
    const linesAt = (path: string, count: string) =>
      lines.filter((line) => line.startsWith(String.raw`complete -c oarlock -n '__oarlock_at \'${path}\'${count}' `));
    for (const { path, subcommands, options } of commandModel(program())) {
      expect(linesAt(path, ' 0').filter((line) => / -d '/.test(line)).length, path).toBe(subcommands.length);
      expect(linesAt(path, '').length, path).toBe(options.length);
    }
  });

  it.skipIf(findProgram('fish') === undefined).each([
    ['keys ca ', ['add', 'end', 'use']],
    ['keys ca add ', ['']],
    ['status -o ', ['json', 'text', 'yaml']],
    ['completion z', ['zsh']],
  ])('completes %j', async (words, expected) => {
    const running = promisify(execFile)('fish', ['--no-config', '-c', `cat | source; complete -C 'oarlock ${words}'`]);
    running.child.stdin?.end(script);
    const { stdout } = await running;
    expect(
      stdout
        .trim()
        .split('\n')
        .map((line) => line.split('\t')[0]),
    ).toEqual(expected);
  });
});
