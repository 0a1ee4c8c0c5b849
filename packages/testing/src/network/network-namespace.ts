import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, it } from 'vitest';

const marker = 'OARLOCK_TEST_NETWORK';
/** True if this process runs in a network namespace of the test. */
export const isInNetworkNamespace = process.env[marker] !== undefined;

interface Outcome {
  readonly fullName: string;
  readonly status: 'passed' | 'failed' | 'skipped' | 'pending' | 'todo';
  readonly failureMessages: readonly string[];
  readonly meta?: unknown;
}

/** Returns why packet rules cannot be tested on this machine, or undefined if they can. */
function missingRequirement(): string | undefined {
  if (process.platform !== 'linux') return 'nftables requires Linux';
  if (process.getuid?.() !== 0) return 'packet rules and network namespaces require root';
  if (spawnSync('unshare', ['--net', 'nft', 'list', 'tables']).status !== 0)
    return 'nft does not work in a network namespace on this machine (Debian packages nftables and util-linux)';
  return undefined;
}

/** Runs the test file again in a new network namespace and reports each of its tests as a test of this file. */
export function inNetworkNamespace(file: string): void {
  const why = missingRequirement();
  describe('in a separate network namespace', () => {
    if (why !== undefined) {
      it('runs on this machine', (context) => {
        if (process.env['CI'] === 'true') throw new Error(why);
        context.skip(why);
      });
      return;
    }
    for (const { fullName, status, failureMessages } of runInNamespace(file)) {
      it(fullName, (context) => {
        if (status === 'failed') throw new Error(failureMessages.join('\n'));
        if (status !== 'passed') context.skip('skipped there');
      });
    }
  });
}

function runInNamespace(file: string): readonly Outcome[] {
  const directory = mkdtempSync(join(tmpdir(), 'own-network-'));
  const report = join(directory, 'report.json');
  const root = fileURLToPath(new URL('../../../..', import.meta.url));
  try {
    const { stderr, stdout } = spawnSync(
      'unshare',
      [
        '--net',
        process.execPath,
        join(root, 'node_modules/vitest/vitest.mjs'),
        'run',
        '--config',
        join(root, 'vitest.config.ts'),
        '--root',
        root,
        '--reporter=json',
        `--outputFile=${report}`,
        fileURLToPath(file),
      ],
      {
        env: { ...process.env, [marker]: 'own', VITEST: undefined, VITEST_POOL_ID: undefined, VITEST_WORKER_ID: undefined },
        cwd: root,
        encoding: 'utf8',
        timeout: 1_200_000,
        maxBuffer: 64 << 20,
      },
    );
    let text: string;
    try {
      text = readFileSync(report, 'utf8');
    } catch (cause) {
      throw new Error(`the tests did not run in a separate network namespace: ${stderr}${stdout}`, { cause });
    }
    const { success, testResults } = JSON.parse(text) as {
      readonly success: boolean;
      readonly testResults: readonly { readonly assertionResults: readonly Outcome[]; readonly message: string }[];
    };
    const all = testResults.flatMap(({ assertionResults }) => assertionResults);
    if (all.length === 0 || (!success && !all.some(({ status }) => status === 'failed'))) {
      throw new Error(
        `the tests could not run in a separate network namespace: ${testResults.map(({ message }) => message).join('\n')}${stderr}`,
      );
    }
    return all;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

export const ip = (...args: string[]): void => {
  execFileSync('ip', args, { stdio: ['ignore', 'pipe', 'pipe'] });
};
