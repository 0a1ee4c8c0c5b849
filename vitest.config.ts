import { defineConfig } from 'vitest/config';

const conditions = ['@oarlock/source', 'node', 'import', 'module', 'default'];

/** Every package runs its tests from source: `vitest run --config ../../vitest.config.ts` in its folder. */
export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions, externalConditions: conditions } },
  test: { include: ['test/**/*.test.ts', '{packages,plugins}/*/test/**/*.test.ts'], pool: 'forks', maxWorkers: 2, passWithNoTests: false,
    // a guard against what hangs, not a measure: machines are slow and busy
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 120_000 } },
    // real daemons on a busy machine: one that only fails when it is late is tried again, and shows up as retried
    retry: process.env['CI'] ? 1 : 0 },
});
