// `npm run e2e -- [filter] [--write-matrix]`: sets up, then runs the end-to-end tests whose file or name matches.
import { join } from 'node:path';
import { root, run, setup } from './setup.mjs';

const args = process.argv.slice(2);
const filters = args.filter((arg) => !arg.startsWith('--'));
await setup({ system: true });
const env = { ...process.env, ...(args.includes('--write-matrix') && { OARLOCK_WRITE_MATRIX: '1' }) };
const { code } = await run(join(root, 'node_modules', '.bin', 'vitest'), ['run', '--config', 'e2e/vitest.config.ts', ...filters], {
  show: true,
  env,
});
process.exit(code);
