import { canDevelop } from './plugin-templates.ts';

const ignored = 'node_modules/\ndist/\n.oarlock*/\n*.tsbuildinfo\n';

/** The oldest and the newest version of Node that Oarlock supports. */
const workflow = `name: CI
on:
  push:
    branches: [main]
  pull_request:
permissions:
  contents: read
jobs:
  test:
    runs-on: ubuntu-latest
    strategy:
      matrix:
        node: ['20.19', '24']
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-node@v4
        with:
          node-version: \${{ matrix.node }}
      - run: npm ci --ignore-scripts
      - run: npm run build
      - run: npm test
`;

function launch(id: string): object {
  const node = { type: 'node', request: 'launch', skipFiles: ['<node_internals>/**'], console: 'integratedTerminal' };
  const inModules = (path: string) => `\${workspaceFolder}/node_modules/${path}`;
  return {
    version: '0.2.0',
    configurations: [
      {
        ...node,
        name: 'Test this file',
        program: inModules('vitest/vitest.mjs'),
        args: ['run', '${relativeFile}', '--no-file-parallelism'],
      },
      ...(canDevelop(id)
        ? [{ ...node, name: 'Develop', program: inModules('oarlock/bin/oarlock.js'), args: ['dev', './src/plugin.ts'] }]
        : []),
    ],
  };
}

/** Returns the files of a plugin that has a repository of its own, beside those of its package. */
export const repositoryFiles = (id: string): ReadonlyMap<string, string> =>
  new Map([
    ['.gitignore', ignored],
    ['.github/workflows/ci.yml', workflow],
    ['.vscode/launch.json', `${JSON.stringify(launch(id), null, 2)}\n`],
  ]);
