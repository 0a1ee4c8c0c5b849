// `npm test`: sets up, then format, boundaries, lint, types, unit and contract tests, and the end-to-end matrix.
// What fails runs once more from scratch, and a test that passes only then is named as unstable.
// The last line counts what ran. Arguments: `--only check|unit|e2e`.
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { root, run, runNx, setup } from './setup.mjs';

const only = process.argv.includes('--only') ? process.argv[process.argv.indexOf('--only') + 1] : undefined;
const totals = { passed: 0, failed: 0, skipped: 0 };
const groups = ['packages', 'plugins', 'examples/plugins'];
const bin = (name) => join(root, 'node_modules', '.bin', name);

/** The suites (files) of a report of vitest. */
const suitesOf = (file) => (existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')).testResults : undefined);
const testsOf = (suites, ...statuses) =>
  suites.flatMap(({ assertionResults }) => assertionResults.filter(({ status }) => statuses.includes(status)));
const failuresOf = (suites) => [
  // a file that does not even load has no tests to count
  ...suites
    .filter(({ status, assertionResults }) => status === 'failed' && assertionResults.length === 0)
    .map(({ name, message }) => ({ name, why: message })),
  ...testsOf(suites, 'failed').map(({ fullName, failureMessages }) => ({
    name: fullName,
    why: (failureMessages ?? []).join('\n').split('\n').slice(0, 12).join('\n'),
  })),
];

function tell(sign, owner, failures) {
  for (const { name, why } of failures) console.log(`${sign} ${owner}: ${name}\n${why}`);
}

function count(suites, owner) {
  const failures = failuresOf(suites);
  const skipped = testsOf(suites, 'pending', 'skipped');
  totals.passed += testsOf(suites, 'passed').length;
  totals.failed += failures.length;
  totals.skipped += skipped.length + testsOf(suites, 'todo').length;
  tell('✖', owner, failures);
  for (const { fullName } of skipped) console.log(`- skipped: ${owner}: ${fullName}`);
}

async function check(title, command, args) {
  const { code, output } = await run(command, args);
  console.log(`${code === 0 ? '✔' : '✖'} ${title}`);
  if (code === 0) totals.passed += 1;
  else {
    totals.failed += 1;
    console.log(output.split('\n').slice(-80).join('\n'));
  }
}

await setup({ system: true });

if (only === undefined || only === 'check') {
  await check('package manifests and references', process.execPath, ['tools/sync-tsconfig.mjs', '--check']);
  await check('types', bin('tsc'), ['-p', 'tsconfig.json']);
  await check('format', bin('biome'), ['format', '.']);
  await check('boundaries', bin('depcruise'), [
    '--config',
    '.dependency-cruiser.cjs',
    'packages',
    'plugins',
    ...(existsSync(join(root, 'e2e')) ? ['e2e'] : []),
  ]);
  const { code, output } = await runNx(['run-many', '-t', 'lint', '--output-style=static']);
  console.log(`${code === 0 ? '✔' : '✖'} lint`);
  if (code === 0) totals.passed += 1;
  else {
    totals.failed += 1;
    console.log(output.split('\n').slice(-80).join('\n'));
  }
}

if (only === undefined || only === 'unit') {
  for (const group of ['packages', 'plugins'])
    for (const name of readdirSync(join(root, group))) rmSync(join(root, group, name, '.reports'), { recursive: true, force: true });
  console.log('• Unit and contract tests ...');
  const unit = () => runNx(['run-many', '-t', 'test', '--output-style=static']);
  const reports = () =>
    groups
      .flatMap((group) => readdirSync(join(root, group)).map((owner) => ({ owner, path: join(root, group, owner) })))
      .map(({ owner, path }) => ({ owner, suites: suitesOf(join(path, '.reports', 'test.json')) }))
      .filter(({ suites }) => suites !== undefined);
  let { code, output } = await unit();
  if (code !== 0) {
    for (const { owner, suites } of reports()) tell('! failed at first:', owner, failuresOf(suites));
    console.log('• Once more, the packages with a failure ...');
    ({ code, output } = await unit());
  }
  const ran = reports();
  for (const { owner, suites } of ran) count(suites, owner);
  if (code !== 0 && totals.failed === 0) {
    totals.failed += 1;
    console.log(output.split('\n').slice(-80).join('\n'));
  }
  console.log(`  ${ran.length} packages`);
}

if ((only === undefined || only === 'e2e') && existsSync(join(root, 'e2e', 'vitest.config.ts'))) {
  console.log('• End-to-end tests over real components ...');
  const endToEnd = async (report, files) => {
    const file = join(root, 'e2e', '.reports', `${report}.json`);
    rmSync(file, { force: true });
    const { code } = await run(
      bin('vitest'),
      ['run', '--config', 'e2e/vitest.config.ts', '--reporter=default', '--reporter=json', `--outputFile.json=${file}`, ...files],
      { show: true },
    );
    return { code, suites: suitesOf(file) ?? [] };
  };
  const { code, suites } = await endToEnd('e2e', []);
  const again = suites.filter(({ status }) => status === 'failed');
  count(
    suites.filter((suite) => !again.includes(suite)),
    'e2e',
  );
  if (again.length > 0) {
    tell('! failed at first:', 'e2e', failuresOf(again));
    console.log('• Once more, the files with a failure ...');
    const second = await endToEnd(
      'again',
      again.map(({ name }) => name),
    );
    count(second.suites, 'e2e');
    // a run that ended without a report has failed as well
    if (second.suites.length < again.length) totals.failed += 1;
  } else if (code !== 0) totals.failed += 1;
}

console.log(`\n${totals.passed} passed, ${totals.failed} failed${totals.skipped > 0 ? `, ${totals.skipped} skipped` : ''}`);
process.exit(totals.failed === 0 ? 0 : 1);
