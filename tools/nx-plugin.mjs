import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const hasTests = (directory) =>
  existsSync(directory) &&
  readdirSync(directory, { withFileTypes: true }).some((entry) =>
    entry.isDirectory() ? hasTests(join(directory, entry.name)) : entry.name.endsWith('.test.ts'),
  );
const json = (file) => (existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {});

/** All packages and plugins have the same targets, which are defined here once. */
export const createNodesV2 = [
  '{packages/*,plugins/*,examples/plugins/*,packages/cli/create-oarlock-plugin}/package.json',
  (files, _options, { workspaceRoot }) =>
    files.map((file) => {
      const root = dirname(file);
      const up = root
        .split('/')
        .map(() => '..')
        .join('/');
      const run = (command) => ({ command, options: { cwd: root } });
      // the references that tools/sync-tsconfig.mjs derives from imports: tests may have cycles, sources may not
      const needs = (json(join(workspaceRoot, root, 'tsconfig.json')).references ?? []).map(
        ({ path }) => json(join(workspaceRoot, root, path, 'package.json')).name,
      );
      const manifest = json(join(workspaceRoot, file));
      return [
        file,
        {
          projects: {
            [root]: {
              root,
              name: manifest.name,
              ...(manifest.private !== true && { tags: ['published'] }),
              targets: {
                ...(manifest.private !== true && {
                  // publishes the folder that `npm run pack` wrote, after its dependencies
                  'nx-release-publish': { command: `node tools/release/publish.mjs ${root}`, dependsOn: ['^nx-release-publish'] },
                }),
                // examples run from source, by the path in cluster.yaml
                ...(existsSync(join(workspaceRoot, root, 'tsconfig.json')) && {
                  build: { ...run('tsc -b'), dependsOn: needs.map((name) => ({ projects: [name], target: 'build' })) },
                }),
                lint: run(`oxlint --config ${up}/.oxlintrc.json --deny-warnings .`),
                ...(hasTests(join(workspaceRoot, root, 'test')) && {
                  test: {
                    command: `vitest run ${root}/test/ --reporter=default --reporter=json --outputFile.json=${root}/.reports/test.json`,
                  },
                }),
              },
            },
          },
        },
      ];
    }),
];
