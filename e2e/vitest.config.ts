import { defineConfig } from 'vitest/config';

/** One file after another: they share the machine's network, and two at once would measure each other. */
export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ['{harness,matrix,journeys,conformance,failures}/**/*.test.ts'],
    pool: 'forks',
    fileParallelism: false,
    maxWorkers: 1,
    // what is waited for in vain says so itself, long before
    testTimeout: 900_000,
    hookTimeout: 900_000,
    teardownTimeout: 60_000,
    slowTestThreshold: 30_000,
    // tests that share a cluster wait for it most of the time
    maxConcurrency: 14,
    // as for the contract tests: real daemons on a busy machine
    retry: process.env['CI'] ? 1 : 0,
  },
});
