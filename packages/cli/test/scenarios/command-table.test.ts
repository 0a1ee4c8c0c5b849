import { readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { outputFormats } from '../../src/common/output.ts';
import { commandModel, type CompletedCommand } from '../../src/completion/command-model.ts';
import { program } from '../../src/main.ts';

/** The commands whose result is not facts, and what it is instead. A new command prints facts, or has a line here. */
const withoutFacts: Readonly<Record<string, string>> = {
  up: 'a running cluster',
  dev: 'a running cluster',
  down: 'an action',
  console: 'a running server',
  init: 'a file',
  backup: 'a file',
  restore: 'an action',
  kubeconfig: 'a kubeconfig, in YAML',
  'config schema': 'a JSON schema',
  'plugins add': 'an action',
  'plugins new': 'files',
  'plugins types': 'TypeScript',
  'plugins export': 'files',
  'keys ca': 'an action',
  'keys front-proxy-ca': 'an action',
  'keys etcd-ca': 'an action',
  'keys encryption': 'an action',
  'keys rotate': 'an action',
  'image pull': 'an action',
  'image load': 'an action',
  'image remove': 'an action',
  'node join': 'a running node',
  'node remove': 'an action',
  'server join': 'a running server',
  'server remove': 'an action',
  'etcd snapshot restore': 'an action',
  'etcd reset': 'an action',
  completion: 'a script',
};

const leaves = commandModel(program()).filter(({ subcommands }) => subcommands.every(({ name }) => name === 'help'));
const formatsOf = ({ options }: CompletedCommand) => options.find(({ names }) => names.includes('--output'))?.value?.words ?? [];

describe('a command', () => {
  it.each(leaves.map((command) => [command.path, command] as const))(
    'prints facts as text, JSON and YAML, or has no facts: %s',
    (path, command) => {
      expect(formatsOf(command)).toEqual(Object.hasOwn(withoutFacts, path) ? [] : outputFormats);
    },
  );

  it('that has no facts exists', () => {
    const paths = new Set(leaves.map(({ path }) => path));
    expect(Object.keys(withoutFacts).filter((path) => !paths.has(path))).toEqual([]);
  });

  it('that prints facts is in the table of docs/command-line.md', async () => {
    const page = await readFile(new URL('../../../../docs/command-line.md', import.meta.url), 'utf8');
    const section = /\n## Output for programs\n([^]*?)\n## /.exec(page)?.[1] ?? '';
    const documented = [...section.matchAll(/^\| `([a-z -]+)` \|/gm)].map(([, path]) => path);
    expect(documented.toSorted()).toEqual(
      leaves
        .map(({ path }) => path)
        .filter((path) => !Object.hasOwn(withoutFacts, path))
        .toSorted(),
    );
  });
});
