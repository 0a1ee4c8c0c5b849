// `npm test`: sets up, then format, boundaries, lint, types, unit and contract tests, and the end-to-end matrix.
// The last line counts what ran. Arguments: `--only check|unit|e2e`.
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { root, run, runNx, setup } from './setup.mjs';

const only = process.argv.includes('--only') ? process.argv[process.argv.indexOf('--only') + 1] : undefined;
const totals = { passed: 0, failed: 0, skipped: 0 };
const groups = ['packages', 'plugins', 'examples/plugins'];
const bin = (name) => join(root, 'node_modules', '.bin', name);

function count(file, owner) {
  const report = JSON.parse(readFileSync(file, 'utf8'));
  totals.passed += report.numPassedTests;
  totals.failed += report.numFailedTests;
  totals.skipped += report.numPendingTests + (report.numTodoTests ?? 0);
  for (const suite of report.testResults) {
    // a file that does not even load has no tests to count
    if (suite.status === 'failed' && suite.assertionResults.length === 0) {
      totals.failed += 1;
      console.log(`✖ ${owner}: ${suite.name}: ${suite.message}`);
    }
    for (const test of suite.assertionResults) {
      if (test.status === 'failed')
        console.log(`✖ ${owner}: ${test.fullName}\n${(test.failureMessages ?? []).join('\n').split('\n').slice(0, 12).join('\n')}`);
      if (test.status === 'pending' || test.status === 'skipped') console.log(`- skipped: ${owner}: ${test.fullName}`);
    }
  }
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
  const { code, output } = await runNx(['run-many', '-t', 'test', '--output-style=static']);
  let reports = 0;
  for (const group of groups) {
    for (const name of readdirSync(join(root, group))) {
      const file = join(root, group, name, '.reports', 'test.json');
      if (existsSync(file)) {
        reports += 1;
        count(file, name);
      }
    }
  }
  if (code !== 0 && totals.failed === 0) {
    totals.failed += 1;
    console.log(output.split('\n').slice(-80).join('\n'));
  }
  console.log(`  ${reports} packages`);
}

if ((only === undefined || only === 'e2e') && existsSync(join(root, 'e2e', 'vitest.config.ts'))) {
  console.log('• End-to-end tests over real components ...');
  const file = join(root, 'e2e', '.reports', 'e2e.json');
  rmSync(file, { force: true });
  const { code } = await run(
    bin('vitest'),
    ['run', '--config', 'e2e/vitest.config.ts', '--reporter=default', '--reporter=json', `--outputFile.json=${file}`],
    { show: true },
  );
  if (existsSync(file)) count(file, 'e2e');
  else if (code !== 0) totals.failed += 1;
}

console.log(`\n${totals.passed} passed, ${totals.failed} failed${totals.skipped > 0 ? `, ${totals.skipped} skipped` : ''}`);
process.exit(totals.failed === 0 ? 0 : 1);
