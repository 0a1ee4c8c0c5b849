// `npm start`: sets up, then runs a cluster with the embedded defaults in the foreground. Arguments are passed to `oarlock up`.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { root, setup } from './setup.mjs';

await setup();
const child = spawn(process.execPath, [join(root, 'packages/cli/bin/oarlock.js'), 'up', ...process.argv.slice(2)], {
  stdio: 'inherit',
  cwd: process.env.INIT_CWD ?? root,
});
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
child.on('close', (code, signal) => process.exit(code ?? (signal ? 1 : 0)));
