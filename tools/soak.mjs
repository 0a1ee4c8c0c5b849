// `npm run soak -- control-plane|node [seed] [minutes]`: long random use and random faults, with every change checked against the rules. Not part of CI.
import { join } from 'node:path';
import { root, run, setup } from './setup.mjs';

const [name = 'control-plane', ...args] = process.argv.slice(2);
const names = ['control-plane', 'node'];
if (!names.includes(name)) {
  console.error(`${name}: no such soak; one of ${names.join(', ')}`);
  process.exit(2);
}
await setup({ system: true });
const { code } = await run(process.execPath, ['--import', '@oxc-node/core/register', `e2e/failures/soak/${name}.ts`, ...args], {
  show: true,
  cwd: root,
  timeoutMs: 24 * 3_600_000,
  env: { ...process.env, OARLOCK_CHECKOUT: join(root) },
});
process.exit(code);
