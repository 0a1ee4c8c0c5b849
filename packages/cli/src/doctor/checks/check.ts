import type { Machine } from './machine.ts';

/** `fail`: something cannot run; `warn`: it runs with less, or only in part; `ok`: nothing is missing. */
export type Level = 'ok' | 'warn' | 'fail';

/** What a check found on the machine. Unless all is well, also what it means and what to do, in one sentence each. */
export type Finding =
  | { readonly level: 'ok'; readonly found: string }
  | { readonly level: 'warn' | 'fail'; readonly found: string; readonly affects: string; readonly remedy: string };

export interface CheckContext {
  readonly machine: Machine;
  /** The data directory that `oarlock up` would use; it need not exist. */
  readonly dataDir: string;
}

/** One property of the machine. Checks change nothing that outlives them. */
export interface Check {
  readonly name: string;
  /** True if the property exists on Linux only. */
  readonly linux: boolean;
  run(context: CheckContext): Promise<Finding>;
}

export type CheckResult = { readonly name: string } & Finding;

export const ok = (found: string): Finding => ({ level: 'ok', found });

/** Runs all checks at once. A check that throws has failed: a doctor that ends at the first surprise is of no use. */
export async function runChecks(checks: readonly Check[], context: CheckContext): Promise<readonly CheckResult[]> {
  const { platform } = context.machine;
  return Promise.all(
    checks.map(async ({ name, linux, run }): Promise<CheckResult> => {
      if (linux && platform !== 'linux')
        return {
          name,
          level: 'warn',
          found: `the platform is ${platform}`,
          affects: 'Containers, packet filters and isolated pods exist on Linux only.',
          remedy: 'Run Oarlock on Linux for these.',
        };
      try {
        return { name, ...(await run(context)) };
      } catch (error) {
        return {
          name,
          level: 'warn',
          found: `the check failed: ${(error as Error).message}`,
          affects: 'It is unknown what this means for compositions.',
          remedy: 'Report this as a bug, with the file of `oarlock doctor --report`.',
        };
      }
    }),
  );
}
