import type { Command } from 'commander';
import { expect, it } from 'vitest';
import { commandSteps, commandsWithoutProgress, commandWords } from '../../../src/common/progress/command-progress.ts';
import { program } from '../../../src/main.ts';

/** Returns the words of all commands without subcommands. */
const commandsOf = (command: Command): readonly string[] =>
  command.commands.length === 0 ? [commandWords(command)] : command.commands.flatMap(commandsOf);

it('each command has a step that its progress shows', () => {
  const known = [...Object.keys(commandSteps), ...commandsWithoutProgress];
  expect(known.toSorted()).toEqual(commandsOf(program()).toSorted());
});
