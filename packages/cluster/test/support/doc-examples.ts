import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const vitest = fileURLToPath(new URL('../../../../node_modules/.bin/vitest', import.meta.url));
/** True if this test itself uses the built packages: see `vitest.built.config.ts`. */
const built = import.meta.resolve('@oarlock/kernel/plugin').endsWith('.js');
// one process, because loading the packages costs more than the tests; the timeouts are for busy machines
const config = `
const conditions = [${built ? '' : "'@oarlock/source', "}'node', 'import', 'module', 'default'];
export default {
  resolve: { conditions },
  ssr: { resolve: { conditions, externalConditions: conditions } },
  test: {
    ${built ? 'server: { deps: { external: [/\\/(?:packages|plugins)\\/[^/]+\\/dist\\//] } },' : ''}
    isolate: false,
    maxWorkers: 1,
    testTimeout: 250_000,
    hookTimeout: 250_000,
  },
};
`;

interface Report {
  readonly testResults: readonly {
    readonly message: string;
    readonly assertionResults: readonly {
      readonly status: string;
      readonly fullName: string;
      readonly failureMessages: readonly string[];
    }[];
  }[];
}

/** Runs test files of a directory with Oarlock's packages. Returns how many files ran, and each failure. */
export async function runTests(
  directory: string,
  tests: readonly string[],
): Promise<{ readonly files: number; readonly failures: readonly string[] }> {
  await writeFile(join(directory, 'vitest.config.mjs'), config);
  const report = join(directory, 'report.json');
  const options = ['run', '--root', directory, '--reporter=json', `--outputFile=${report}`];
  await promisify(execFile)(vitest, [...options, ...tests]).catch(() => undefined); // the report has the failures
  const { testResults } = JSON.parse(await readFile(report, 'utf8')) as Report;
  const failures = testResults.flatMap(({ message, assertionResults }) => [
    ...(assertionResults.length === 0 ? [message] : []), // the file does not load
    ...assertionResults
      .filter(({ status }) => status === 'failed')
      .map(({ fullName, failureMessages }) => [fullName, ...failureMessages].join('\n')),
  ]);
  return { files: testResults.length, failures };
}
