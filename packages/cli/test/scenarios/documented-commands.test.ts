import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { commandModel } from '../../src/completion/command-model.ts';
import { program } from '../../src/main.ts';
import { commandProblems, documentedCommands } from '../support/documented-commands.ts';

const root = fileURLToPath(new URL('../../../..', import.meta.url));
/** All pages for readers; a changelog and decisions also name what is gone. */
const pages = execFileSync('git', ['ls-files', '-z', '*.md'], { cwd: root, encoding: 'utf8' })
  .split('\0')
  .filter((file) => file !== '' && !/^CHANGELOG\.md$|^docs\/adr\//.test(file));
const model = commandModel(program());
const problemsIn = (text: string) =>
  documentedCommands(text).flatMap((command) => commandProblems(model, command).map((problem) => `line ${command.line}: ${problem}`));

describe('pages', () => {
  const withCommands = pages.filter((page) => documentedCommands(readFileSync(join(root, page), 'utf8')).length > 0);

  it('have commands', () => {
    expect(withCommands.length).toBeGreaterThan(30);
  });

  it.each(withCommands)('name only commands, options, values and arguments that exist: %s', (page) => {
    expect(problemsIn(readFileSync(join(root, page), 'utf8'))).toEqual([]);
  });
});

describe('the check of pages', () => {
  const block = (text: string) => `- a list\n\n  \`\`\`sh\n  ${text}\n  \`\`\`\n`;

  it.each([
    [block('oarlock config show'), ['line 4: oarlock config has no command show']],
    [block('npx oarlock up \\\n    --fast --detach'), ['line 4: oarlock up has no option --fast']],
    [block('docker save app | sudo oarlock image load - --output json'), ['line 4: oarlock image load has no option --output']],
    [block('(cd a && A=1 oarlock status -o xml)'), ['line 4: -o does not take xml']],
    [
      block('kubectl exec oarlock-0 -- /opt/oarlock/bin/oarlock kubeconfig --to x > file'),
      ['line 4: oarlock kubeconfig has no option --to'],
    ],
    ['Run `oarlock down now`.', ['line 1: oarlock down takes 0 arguments, not now']],
    ['Run `oarlock status --output=json|yaml`, or `oarlock top --interval 3`.', []],
    [block('docker build --tag oarlock image; kubectl -n oarlock get pods'), []],
  ])('finds what does not exist: %j', (text, problems) => {
    expect(problemsIn(text)).toEqual(problems);
  });
});
