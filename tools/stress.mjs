// `npm run stress -- FILE ... [--rounds N] [--load N] [--yields P] [-t NAME]`: runs test files again and again under load, and counts the failures of each test.
import { spawn } from 'node:child_process';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { argumentsOf } from './arguments.mjs';
import { root, run, setup } from './setup.mjs';

const usage = `npm run stress -- FILE ... [--rounds N] [--load N] [--yields P] [-t NAME]
  FILE        part of the path of a test file; paths that start with e2e/ are end-to-end tests
  --rounds N  number of runs; default 20
  --load N    number of processes that keep a processor core busy; default: one for each core
  --yields P  long work of unit tests yields to the event loop with this probability instead of after some time, so that caches lag behind
  -t NAME     only tests whose name matches this pattern
Exits with 1 if a test failed in any round.`;

/** Returns the failed tests of a vitest report; a file whose loading or hooks failed counts as one test. */
const failuresOf = ({ testResults }) =>
  testResults.flatMap(({ name, status, message, assertionResults }) =>
    status === 'failed' && assertionResults.every((test) => test.status !== 'failed')
      ? [{ name, why: message }]
      : assertionResults
          .filter((test) => test.status === 'failed')
          .map(({ fullName, failureMessages = [] }) => ({ name: fullName, why: failureMessages.join('\n') })),
  );

/** Keeps one core busy until this process ends. */
const burn = `
const parent = process.ppid;
const spin = () => {
  for (const end = Date.now() + 100; Date.now() < end; );
  if (process.ppid === parent) setImmediate(spin);
};
spin();`;

async function main() {
  const args = argumentsOf(usage, { values: { '--rounds': [], '--load': [], '--yields': [], '-t': [] } });
  const runs = Number(args['--rounds'] ?? 20);
  const load = Number(args['--load'] ?? availableParallelism());
  const yields = args['--yields'];
  // with a probability of 1 work would yield forever
  const isProbability = yields === undefined || (Number(yields) >= 0 && Number(yields) < 1);
  if (args.names.length === 0 || !Number.isInteger(runs) || runs < 1 || !Number.isInteger(load) || load < 0 || !isProbability) {
    console.error(usage);
    process.exit(2);
  }
  if (yields !== undefined) process.env.OARLOCK_RANDOM_YIELDS = yields;
  await setup({ system: true });
  const suites = [
    { config: 'vitest.built.config.ts', files: args.names.filter((name) => !name.startsWith('e2e/')) },
    { config: 'e2e/vitest.config.ts', files: args.names.filter((name) => name.startsWith('e2e/')).map((name) => name.slice(4)) },
  ].filter(({ files }) => files.length > 0);
  const failed = new Map();
  const burners = Array.from({ length: load }, () => spawn(process.execPath, ['-e', burn], { stdio: 'ignore' }));
  try {
    for (let round = 1; round <= runs; round++) {
      const began = performance.now();
      const failures = (await Promise.all(suites.map((suite, at) => runSuite(suite, { name: args['-t'], report: `stress-${at}` })))).flat();
      console.log(`round ${round} of ${runs}: ${failures.length} failed, ${((performance.now() - began) / 1000).toFixed(1)} s`);
      for (const { name, why } of failures) {
        failed.set(name, (failed.get(name) ?? 0) + 1);
        console.log(`✖ ${name}\n${why.split('\n').slice(0, 12).join('\n')}`);
      }
    }
  } finally {
    for (const burner of burners) burner.kill('SIGKILL');
  }
  for (const [name, count] of failed) console.log(`${count} of ${runs} rounds failed: ${name}`);
  if (failed.size === 0) console.log(`${runs} rounds without a failure`);
  process.exit(failed.size === 0 ? 0 : 1);
}

/** Runs the files once without a second try and returns the failed tests. */
async function runSuite({ config, files }, { name, report }) {
  const file = join(root, '.reports', `${report}.json`);
  rmSync(file, { force: true });
  const filter = name === undefined ? [] : ['-t', name];
  const reporters = ['--reporter=json', `--outputFile.json=${file}`];
  const { code, output } = await run(join(root, 'node_modules/.bin/vitest'), [
    'run',
    '--config',
    config,
    ...reporters,
    ...filter,
    ...files,
  ]);
  if (!existsSync(file)) return [{ name: `vitest --config ${config} exited with ${code} without a report`, why: output }];
  const failures = failuresOf(JSON.parse(readFileSync(file, 'utf8')));
  // vitest also exits with an error for errors outside of tests
  return code !== 0 && failures.length === 0 ? [{ name: `vitest --config ${config} exited with ${code}`, why: output }] : failures;
}

await main();
