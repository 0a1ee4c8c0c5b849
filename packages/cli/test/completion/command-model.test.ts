import { Argument, Command, Option } from 'commander';
import { expect, it } from 'vitest';
import { readyCompositions } from '@oarlock/cluster/composition/ready-compositions';
import { commandModel } from '../../src/completion/command-model.ts';
import { program } from '../../src/main.ts';

it('lists each command once, with the options and arguments of its help', () => {
  const root = new Command('boat');
  root
    .command('row')
    .description('row the boat')
    .addArgument(new Argument('<side>').choices(['left', 'right']))
    .argument('[rowers...]')
    .addOption(new Option('-s, --speed <knots>', 'speed').choices(['1', '2']))
    .option('--log <file>', 'log')
    .option('--to <dir>', 'harbor')
    .addOption(new Option('--secret').hideHelp())
    .option('--fast', 'hurry', false);
  const model = commandModel(root);
  expect(model.map(({ path }) => path)).toEqual(['', 'row']);
  expect(model[0]?.subcommands.map(({ name }) => name)).toEqual(['row', 'help']);
  expect(model[1]).toEqual({
    path: 'row',
    subcommands: [],
    options: [
      { names: ['-s', '--speed'], description: 'speed', value: { words: ['1', '2'] } },
      { names: ['--log'], description: 'log', value: { words: [], paths: 'files' } },
      { names: ['--to'], description: 'harbor', value: { words: [], paths: 'directories' } },
      { names: ['--fast'], description: 'hurry' },
      { names: ['-h', '--help'], description: 'display help for command' },
    ],
    values: [{ words: ['left', 'right'] }, { words: [] }],
    variadic: true,
  });
});

it('offers ready compositions and files for a cluster.yaml', () => {
  const up = commandModel(program()).find(({ path }) => path === 'up');
  expect(up?.options.find(({ names }) => names.includes('--file'))?.value).toEqual({ words: readyCompositions(), paths: 'files' });
});
