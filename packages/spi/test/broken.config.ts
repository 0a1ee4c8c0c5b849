import { defineConfig, mergeConfig } from 'vitest/config';
import base from '../../../vitest.config.ts';

const { projects: _, ...test } = base.test ?? {};

/** What can-fail.test.ts runs: tests that are meant to fail. */
export default mergeConfig(
  { ...base, test },
  defineConfig({ test: { include: ['packages/spi/test/broken.suite.ts'], testTimeout: 10_000, maxWorkers: 1 } }),
);
