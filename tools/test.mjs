// `npm test`: sets up, then format, boundaries, lint, types, unit and contract tests, and the end-to-end matrix.
// Files with failures run once more from scratch; a test that passes only then is reported as unstable.
// The last line counts the tests. Arguments: `--only check|unit|e2e`.
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join, relative } from 'node:path';
import { argumentsOf } from './arguments.mjs';
import { root, run, setup } from './setup.mjs';

const usage = `npm test [-- --only PART]
  --only PART  check (manifests, types, structure and language, format, boundaries, lint), unit (unit and contract tests) or e2e; without it all three`;
const { names, '--only': only } = argumentsOf(usage, { values: { '--only': ['check', 'unit', 'e2e'] } });
if (names.length > 0) {
  console.error(
    `npm test takes no ${names.join(' ')}: npx vitest run FILE runs single test files, npm run e2e -- FILTER end-to-end tests\n${usage}`,
  );
  process.exit(2);
}
const totals = { passed: 0, failed: 0, skipped: 0 };
const bin = (name) => join(root, 'node_modules', '.bin', name);

/** Returns the suites (files) of a vitest report. */
const suitesOf = (file) => (existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')).testResults : []);
/** `packages/x`, `plugins/x`, `examples/plugins/x`, or `e2e`. */
const ownerOf = ({ name }) => relative(root, name).split(/\/(test|journeys|matrix|conformance|failures|ha|harness|security)\//, 1)[0];
const testsOf = (suites, ...statuses) =>
  suites.flatMap(({ assertionResults }) => assertionResults.filter(({ status }) => statuses.includes(status)));
const failuresOf = (suites) => [
  // a file that fails to load has no tests to count
  ...suites
    .filter(({ status, assertionResults }) => status === 'failed' && assertionResults.length === 0)
    .map(({ name, message }) => ({ name, why: message })),
  ...testsOf(suites, 'failed').map(({ fullName, failureMessages }) => ({
    name: fullName,
    why: (failureMessages ?? []).join('\n').split('\n').slice(0, 12).join('\n'),
  })),
];

function reportFailures(sign, suites) {
  for (const suite of suites) for (const { name, why } of failuresOf([suite])) console.log(`${sign} ${ownerOf(suite)}: ${name}\n${why}`);
}

function count(suites) {
  totals.passed += testsOf(suites, 'passed').length;
  totals.failed += failuresOf(suites).length;
  totals.skipped += testsOf(suites, 'pending', 'skipped', 'todo').length;
  reportFailures('✖', suites);
  for (const suite of suites)
    for (const { fullName } of testsOf([suite], 'pending', 'skipped')) console.log(`- skipped: ${ownerOf(suite)}: ${fullName}`);
}

/** Runs all test files of a config, or the given ones, and reads the report. */
async function vitest(config, report, files = []) {
  const file = join(root, '.reports', `${report}.json`);
  rmSync(file, { force: true });
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${file}`];
  const { code } = await run(bin('vitest'), ['run', '--config', config, ...reporters, ...files], { show: true });
  return { code, suites: suitesOf(file) };
}

/** Runs all test files of a config; those with a failure run once more. */
async function suite(title, config, report) {
  console.log(`• ${title} ...`);
  const { code, suites } = await vitest(config, report);
  const again = suites.filter(({ status }) => status === 'failed');
  count(suites.filter((each) => !again.includes(each)));
  if (again.length > 0) {
    reportFailures('! failed at first:', again);
    console.log('• Once more, the files with a failure ...');
    const names = again.map(({ name }) => name);
    const second = await vitest(config, `${report}-again`, names);
    count(second.suites);
    // a run without a report, or with a failure exit code but no failed test, has failed as well
    if (second.suites.length < again.length || (second.code !== 0 && second.suites.every(({ status }) => status === 'passed')))
      totals.failed += 1;
  } else if (code !== 0 || suites.length === 0) totals.failed += 1;
  console.log(`  ${suites.length} files of ${new Set(suites.map(ownerOf)).size} packages`);
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
  await check('dependencies', process.execPath, ['tools/checks/dependencies.mjs']);
  await check('types', bin('tsc'), ['-p', 'tsconfig.json']);
  await check('structure and language', process.execPath, ['tools/structure.mjs']);
  await check('API report', process.execPath, ['tools/api-report.mjs']);
  await check('format', bin('biome'), ['format', '.']);
  await check('boundaries', bin('depcruise'), ['--config', '.dependency-cruiser.cjs', 'packages', 'plugins', 'e2e']);
  await check('lint', bin('oxlint'), ['--config', '.oxlintrc.json', '--deny-warnings', 'packages', 'plugins', 'examples', 'e2e', 'tools']);
}
if (only === undefined || only === 'unit') await suite('Unit and contract tests', 'vitest.config.ts', 'unit');
if (only === undefined || only === 'e2e') await suite('End-to-end tests over real components', 'e2e/vitest.config.ts', 'e2e');

console.log(`\n${totals.passed} passed, ${totals.failed} failed${totals.skipped > 0 ? `, ${totals.skipped} skipped` : ''}`);
process.exit(totals.failed === 0 ? 0 : 1);
