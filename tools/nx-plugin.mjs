import { existsSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';

const hasTests = (directory) => existsSync(directory)
  && readdirSync(directory, { withFileTypes: true }).some((entry) => (entry.isDirectory() ? hasTests(join(directory, entry.name)) : entry.name.endsWith('.test.ts')));

/** Every package and plugin has the same targets, so they are said once, here, and not in fifty package.json files. */
export const createNodesV2 = ['{packages,plugins}/*/package.json', (files, _options, { workspaceRoot }) => files.map((file) => {
  const root = dirname(file);
  const run = (command) => ({ command, options: { cwd: root } });
  return [file, {
    projects: {
      [root]: {
        root,
        targets: {
          build: run('tsc -b'),
          lint: run('oxlint --config ../../.oxlintrc.json --deny-warnings .'),
          ...(hasTests(join(workspaceRoot, root, 'test')) && { test: run('vitest run --config ../../vitest.config.ts --root . --reporter=default --reporter=json --outputFile.json=.reports/test.json') }),
        },
      },
    },
  }];
})];
