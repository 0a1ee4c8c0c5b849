import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

interface Outcome {
  readonly ancestorTitles: readonly string[];
  readonly title: string;
  readonly status: string;
}

// selects in each suite the test that its title names (for controllers below the scenario's title), and the whole suite if nothing is broken
const wanted = String.raw`\| (.+) (?:copies )?\1|nothing \| nothing`;

/** Runs the contracts with broken implementations in another vitest process, and returns the outcome of each test. */
function runBroken(): readonly Outcome[] {
  const root = fileURLToPath(new URL('../../../..', import.meta.url));
  const directory = mkdtempSync(join(tmpdir(), 'can-fail-'));
  const report = join(directory, 'report.json');
  try {
    const vitest = join(root, 'node_modules/vitest/vitest.mjs');
    const config = fileURLToPath(new URL('../support/broken.config.ts', import.meta.url));
    const { stderr } = spawnSync(
      process.execPath,
      [
        vitest,
        'run',
        '--retry=0',
        '--config',
        config,
        '--root',
        root,
        '--reporter=json',
        `--outputFile=${report}`,
        '--testNamePattern',
        wanted,
      ],
      {
        cwd: root,
        encoding: 'utf8',
        timeout: 280_000,
        env: { ...process.env, VITEST: undefined, VITEST_POOL_ID: undefined, VITEST_WORKER_ID: undefined },
      },
    );
    const { testResults } = JSON.parse(readFileSync(report, 'utf8')) as {
      readonly testResults: readonly { readonly assertionResults: readonly Outcome[]; readonly message: string }[];
    };
    const all = testResults.flatMap(({ assertionResults }) => assertionResults);
    if (all.length === 0) throw new Error(`no test ran: ${testResults.map(({ message }) => message).join('\n')}${stderr}`);
    return all;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

const bySuite = new Map<string, Outcome[]>();
for (const outcome of runBroken()) {
  const [suite = ''] = outcome.ancestorTitles;
  bySuite.set(suite, [...(bySuite.get(suite) ?? []), outcome]);
}

describe('contract suites', () => {
  for (const [suite, outcomes] of bySuite) {
    const [, slot = '', what = '', test = ''] = /^(\S+) contract: (.*) \| (.*)$/.exec(suite) ?? [];
    const failed = outcomes.filter(({ status }) => status === 'failed').map(({ title }) => title);
    if (test === 'nothing') it(`of ${slot} pass a correct implementation`, () => expect(failed).toEqual([]));
    else
      it(`of ${slot} detect an implementation that ${what}`, () =>
        expect(
          failed.some((title) => title.startsWith(test)),
          `failed: ${failed.join('; ') || 'nothing'}`,
        ).toBe(true));
  }
});
