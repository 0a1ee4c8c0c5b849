import { defineConfig } from 'vitest/config';
import { apart, canBeApart } from './harness/apart.ts';
import { LongestFirst } from './harness/longest-first.ts';

/** Files wait for grace periods, leases and restarts more than they work: where they do not meet on the network, three run at a time. */
export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ['{harness,matrix,journeys,conformance,failures}/**/*.test.ts'],
    pool: apart,
    maxWorkers: canBeApart ? 3 : 1,
    sequence: { sequencer: LongestFirst },
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
