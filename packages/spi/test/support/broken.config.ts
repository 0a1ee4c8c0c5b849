import { defineConfig, mergeConfig } from 'vitest/config';
import base from '../../../../vitest.config.ts';

const { projects: _, ...test } = base.test ?? {};

/** Configuration of contracts-detect-faults.test.ts: its tests are expected to fail. */
export default mergeConfig(
  { ...base, test },
  defineConfig({ test: { include: ['packages/spi/test/support/broken.suite.ts'], testTimeout: 10_000, maxWorkers: 1 } }),
);
