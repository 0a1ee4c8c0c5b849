// `npm run bench [-- name]`: each bench prints its figures beside a reference from the same run. Timing decides no test.
import { join } from 'node:path';
import { argumentsOf } from './arguments.mjs';
import { root, run, setup } from './setup.mjs';

const source = ['--conditions=@oarlock/source', '--import', '@oxc-node/core/register'];
// these measure the build, as processes; only the bench itself is TypeScript
const outside = (name) => ['--import', '@oxc-node/core/register', `e2e/bench/${name}.ts`];
const benches = {
  'cold-start': outside('cold-start'),
  'simulated-1000': outside('simulated-1000'),
  'controllers-5000': outside('controllers-5000'),
  deployment: outside('deployment'),
  api: outside('api'),
  memory: outside('memory'),
  watch: outside('watch'),
  'pod-start': outside('pod-start'),
  streaming: outside('streaming'),
  volumes: outside('volumes'),
  scheduler: [...source, 'packages/scheduler/bench/drain.ts', '1000', '3000'],
  'scheduler-cluster': outside('scheduler'),
  'scheduler-5000': [...source, 'packages/scheduler/bench/drain.ts', '5000', '3000'],
  apiserver: [...source, 'packages/apiserver/bench/core.ts'],
  storage: [...source, 'plugins/storage-memory/bench/commits.ts'],
  embedded: [...source, 'plugins/storage-embedded/bench/commits.ts'],
  auth: [...source, 'e2e/bench/auth.ts'],
  services: [...source, 'e2e/bench/services.ts'],
  policies: [...source, 'e2e/bench/policies.ts'],
  network: [...source, 'e2e/bench/network.ts'],
  hosting: [...source, 'packages/cluster/bench/hosting.ts'],
  containerd: [...source, 'plugins/runtime-containerd/bench/latency.ts'],
};
const withComponents = ['services', 'policies', 'network', 'cold-start', 'api', 'pod-start', 'volumes', 'containerd'];

const { names: wanted } = argumentsOf(`npm run bench [-- NAME ...]\n  NAME  one of ${Object.keys(benches).join(', ')}; none: all of them`);
const unknown = wanted.filter((name) => !Object.hasOwn(benches, name));
if (unknown.length > 0) {
  console.error(`${unknown.join(', ')}: no such bench; one of ${Object.keys(benches).join(', ')}`);
  process.exit(2);
}
await setup({ system: wanted.length === 0 || wanted.some((name) => withComponents.includes(name)) });
let failed = 0;
for (const [name, args] of Object.entries(benches)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  console.log(`\n# ${name}`);
  const { code } = await run(process.execPath, args, { show: true, cwd: root, env: { ...process.env, OARLOCK_CHECKOUT: join(root) } });
  if (code !== 0) failed += 1;
}
process.exit(failed === 0 ? 0 : 1);
