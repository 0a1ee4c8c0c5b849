import type { Command } from 'commander';
import { expect, it } from 'vitest';
import { commandSteps, commandsWithoutProgress, commandWords } from '../../src/common/command-progress.ts';
import { program } from '../../src/main.ts';

/** Returns the words of all commands without subcommands. */
const commandsOf = (command: Command): readonly string[] =>
  command.commands.length === 0 ? [commandWords(command)] : command.commands.flatMap(commandsOf);

it('each command says what it does while it takes time', () => {
  const known = [...Object.keys(commandSteps), ...commandsWithoutProgress];
  expect(known.toSorted()).toEqual(commandsOf(program()).toSorted());
});
