// `npm test`: sets up, then format, boundaries, lint, types, unit and contract tests, and the end-to-end matrix.
// Every test runs once: a failure that a second try would hide is a defect. `npm run stress` repeats the test under load.
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
/** What failed, as printed once more at the end, where it is found below thousands of lines. */
const failures = [];
const bin = (name) => join(root, 'node_modules', '.bin', name);

/** Returns the suites (files) of a vitest report. */
const suitesOf = (file) => (existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')).testResults : []);
/** `packages/x`, `plugins/x`, `examples/plugins/x`, or `e2e`. */
const ownerOf = ({ name }) => relative(root, name).split(/\/(test|journeys|matrix|conformance|failures|ha|harness|security)\//, 1)[0];
const testsOf = (suites, ...statuses) =>
  suites.flatMap(({ assertionResults }) => assertionResults.filter(({ status }) => statuses.includes(status)));
const failuresOf = (suites) => [
  // a file that fails to load has no tests to count, and a hook may fail after all tests have passed
  ...suites
    .filter(({ status, assertionResults }) => status === 'failed' && assertionResults.every((test) => test.status !== 'failed'))
    .map(({ name, message }) => ({ name, why: message })),
  ...testsOf(suites, 'failed').map(({ fullName, failureMessages }) => ({
    name: fullName,
    why: (failureMessages ?? []).join('\n').split('\n').slice(0, 12).join('\n'),
  })),
];

const seconds = (began) => Math.round((performance.now() - began) / 1000);

function count(suites) {
  totals.passed += testsOf(suites, 'passed').length;
  totals.failed += failuresOf(suites).length;
  totals.skipped += testsOf(suites, 'pending', 'skipped', 'todo').length;
  for (const suite of suites) {
    failures.push(...failuresOf([suite]).map(({ name, why }) => `✖ ${relative(root, suite.name)}: ${name}\n${why}`));
    for (const { fullName } of testsOf([suite], 'pending', 'skipped')) console.log(`- skipped: ${ownerOf(suite)}: ${fullName}`);
  }
}

/** Runs all test files of a config and counts the results in the report. */
async function suite(title, config, report) {
  console.log(`• ${title} ...`);
  const began = performance.now();
  const file = join(root, '.reports', `${report}.json`);
  rmSync(file, { force: true });
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${file}`];
  const { code } = await run(bin('vitest'), ['run', '--config', config, ...reporters], { show: true, timeoutMs: 60 * 60_000 });
  const suites = suitesOf(file);
  count(suites);
  // a run without a report, or with a failure exit code but no failed test, has failed as well
  if ((code !== 0 && failuresOf(suites).length === 0) || suites.length === 0) {
    totals.failed += 1;
    failures.push(`✖ ${title}: vitest ended with code ${code} and reported no failed test of ${suites.length} files`);
  }
  console.log(`  ${suites.length} files of ${new Set(suites.map(ownerOf)).size} packages in ${seconds(began)} s`);
}

async function check(title, command, args) {
  const { code, output } = await run(command, args);
  console.log(`${code === 0 ? '✔' : '✖'} ${title}`);
  if (code === 0) totals.passed += 1;
  else {
    totals.failed += 1;
    failures.push(`✖ ${title}\n${output.split('\n').slice(-80).join('\n')}`);
  }
}

/** The checks, longest first. */
const checks = [
  ['documentation site', process.execPath, ['tools/site.mjs']],
  ['structure and language', process.execPath, ['tools/structure.mjs']],
  ['types', bin('tsc'), ['-p', 'tsconfig.json']],
  ['boundaries', bin('depcruise'), ['--config', '.dependency-cruiser.cjs', 'packages', 'plugins', 'e2e']],
  ['API report', process.execPath, ['tools/api-report.mjs']],
  ['release', process.execPath, ['tools/checks/release.mjs']],
  ['format', bin('biome'), ['format', '.']],
  ['lint', bin('oxlint'), ['--config', '.oxlintrc.json', '--deny-warnings', 'packages', 'plugins', 'examples', 'e2e', 'tools']],
  ['package manifests and references', process.execPath, ['tools/sync-tsconfig.mjs', '--check']],
  ['dependencies', process.execPath, ['tools/checks/dependencies.mjs']],
];
const CONCURRENT_CHECKS = 2;

async function checkInTurn() {
  for (let next = checks.shift(); next !== undefined; next = checks.shift()) await check(...next);
}

await setup({ system: true });

if (only === undefined || only === 'check') {
  await Promise.all(Array.from({ length: CONCURRENT_CHECKS }, checkInTurn));
}
if (only === undefined || only === 'unit') await suite('Unit and contract tests', 'vitest.built.config.ts', 'unit');
if (only === undefined || only === 'e2e') await suite('End-to-end tests over real components', 'e2e/vitest.config.ts', 'e2e');

for (const failure of failures) console.log(failure);
console.log(`\n${totals.passed} passed, ${totals.failed} failed${totals.skipped > 0 ? `, ${totals.skipped} skipped` : ''}`);
process.exit(totals.failed === 0 ? 0 : 1);
