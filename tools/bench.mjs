// `npm run bench [-- NAME ...]`: each bench prints its figures beside a reference from the same run. Timing decides no test.
// With `--against COMMIT` the benches of this checkout and of the commit run in turns, see bench-against.mjs.
import { basename, dirname, join } from 'node:path';
import { build } from 'esbuild';
import { argumentsOf } from './arguments.mjs';
import { compareWith } from './bench-against.mjs';
import { root, run, setup } from './setup.mjs';

// these measure sources in one process: bundled as the build is, because the loader for TypeScript replaces private fields by WeakMaps, which
// are several times slower
const bundled = (file, ...args) => ({ file, args });
const source = ['--conditions=@oarlock/source', '--import', '@oxc-node/core/register'];
// these measure the build, as processes; only the bench itself is TypeScript
const outside = (name) => ['--import', '@oxc-node/core/register', `e2e/bench/${name}.ts`];
const benches = {
  'cold-start': outside('cold-start'),
  'simulated-1000': outside('simulated-1000'),
  console: outside('console'),
  'console-page': outside('console-page'),
  'console-cost': outside('console-cost'),
  'controllers-5000': outside('controllers-5000'),
  deployment: outside('deployment'),
  api: outside('api'),
  reads: outside('reads'),
  memory: outside('memory'),
  watch: outside('watch'),
  workers: outside('workers'),
  'pod-start': outside('pod-start'),
  'pod-start-oci': outside('pod-start-oci'),
  streaming: outside('streaming'),
  volumes: outside('volumes'),
  scheduler: bundled('packages/scheduler/bench/drain.ts', '1000', '3000'),
  'scheduler-cluster': outside('scheduler'),
  'scheduler-5000': bundled('packages/scheduler/bench/drain.ts', '5000', '3000'),
  apiserver: bundled('e2e/bench/apiserver.ts'),
  encoding: bundled('packages/apiserver/bench/encoding.ts'),
  rbac: bundled('plugins/authz-rbac/bench/authorize.ts'),
  'validating-policy': bundled('plugins/admission-validating-policy/bench/policy.ts'),
  storage: bundled('plugins/storage-memory/bench/commits.ts'),
  embedded: bundled('plugins/storage-embedded/bench/commits.ts'),
  operations: bundled('e2e/bench/operations.ts'),
  auth: bundled('e2e/bench/auth.ts'),
  services: bundled('e2e/bench/services.ts'),
  policies: bundled('e2e/bench/policies.ts'),
  network: bundled('e2e/bench/network.ts'),
  hosting: [...source, 'packages/cluster/bench/hosting.ts'],
  containerd: bundled('plugins/runtime-containerd/bench/latency.ts'),
};
const withComponents = ['services', 'policies', 'network', 'cold-start', 'api', 'pod-start', 'volumes', 'containerd'];

const usage = `npm run bench [-- NAME ...] [--accept] [--against COMMIT [--runs N] [--write]]
  NAME              one of all, ${Object.keys(benches).join(', ')}; none: all of them
  --accept          operations stores its figures as budgets
  --against COMMIT  runs the benches of this checkout and of the commit in turns, and prints the ratios
  --runs N        number of pairs, by default 5
  --write           writes the figures into docs/benchmarks.md`;
const {
  names,
  '--accept': accept = false,
  '--against': against,
  '--runs': runs = '5',
  '--write': write = false,
} = argumentsOf(usage, { flags: ['--accept', '--write'], values: { '--against': [], '--runs': [] } });
const wanted = names.includes('all') ? [] : names;
if (!/^[1-9]\d*$/.test(runs)) {
  console.error(`--runs: ${runs} is not a positive number\n${usage}`);
  process.exit(2);
}
const unknown = wanted.filter((name) => !Object.hasOwn(benches, name));
if (unknown.length > 0) {
  console.error(`${unknown.join(', ')}: no such bench; one of ${Object.keys(benches).join(', ')}`);
  process.exit(2);
}
await setup({ system: wanted.length === 0 || wanted.some((name) => withComponents.includes(name)) });
/** Bundles a bench with the sources that it imports, and returns the file. */
async function bundle(file) {
  const outfile = join(root, '.reports', 'bench', basename(dirname(dirname(file))), `${basename(file, '.ts')}.mjs`);
  await build({
    entryPoints: [join(root, file)],
    outfile,
    bundle: true,
    conditions: ['@oarlock/source'],
    format: 'esm',
    platform: 'node',
    target: 'node20.19',
    banner: { js: "import { createRequire as requireOf } from 'node:module'; const require = requireOf(import.meta.url);" },
    logLevel: 'warning',
  });
  return outfile;
}

if (against !== undefined) {
  const compared = Object.keys(benches).filter((name) => wanted.length === 0 || wanted.includes(name));
  await compareWith(against, compared, { runs: Number(runs), write });
  process.exit(0);
}
const environment = { ...process.env, OARLOCK_CHECKOUT: root, ...(accept && { OARLOCK_ACCEPT: '1' }) };
let failed = 0;
for (const [name, bench] of Object.entries(benches)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  console.log(`\n# ${name}`);
  const args = Array.isArray(bench) ? bench : [await bundle(bench.file), ...bench.args];
  const { code } = await run(process.execPath, args, { show: true, cwd: root, env: environment });
  if (code !== 0) failed += 1;
}
process.exit(failed === 0 ? 0 : 1);
