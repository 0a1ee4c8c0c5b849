// `npm run e2e -- [filter] [-t name] [--all] [--write-matrix]`: sets up, then runs the end-to-end tests whose file and name match.
import { join } from 'node:path';
import { argumentsOf } from './arguments.mjs';
import { root, run, setup } from './setup.mjs';

const usage = `npm run e2e -- [FILTER ...] [-t NAME] [--all] [--write-matrix]
  FILTER          part of the path of a test file, such as journeys/dns; none: all of them, which takes half an hour
  -t NAME         only tests whose name matches this pattern
  --all           also the combinations of plugins, and the tests on docker, that OARLOCK_MATRIX=all selects
  --write-matrix  as --all, and write what ran into docs/matrix.md`;
const args = argumentsOf(usage, { flags: ['--all', '--write-matrix'], values: { '-t': [] } });
const filters = [...args.names, ...(args['-t'] === undefined ? [] : ['-t', args['-t']])];
await setup({ system: true });
const env = {
  ...process.env,
  ...(args['--all'] && { OARLOCK_MATRIX: 'all' }),
  ...(args['--write-matrix'] && { OARLOCK_WRITE_MATRIX: '1' }),
};
const { code } = await run(join(root, 'node_modules', '.bin', 'vitest'), ['run', '--config', 'e2e/vitest.config.ts', ...filters], {
  show: true,
  env,
});
process.exit(code);
