// `npm run fuzz [-- --seed N --seconds N --count N NAME ...]`: mutated inputs for every parser that reads foreign bytes. Five minutes by default.
import { root, run, setup } from './setup.mjs';

await setup({ system: false });
const source = ['--expose-gc', '--conditions=@oarlock/source', '--import', '@oxc-node/core/register'];
const { code } = await run(process.execPath, [...source, 'e2e/fuzz/main.ts', ...process.argv.slice(2)], { show: true, cwd: root });
process.exit(code);
