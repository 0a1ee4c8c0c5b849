import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { thermalThrottlePathsBelow } from '../../src/os/thermal-throttle.ts';

describe('thermalThrottlePathsBelow', () => {
  let root: string;
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'oarlock-cpus-'));
  });
  afterEach(() => rmSync(root, { recursive: true, force: true }));

  it('returns the directory of each CPU with thermal sensors, in the order of the CPUs', () => {
    for (const path of ['cpu10/thermal_throttle', 'cpu2/thermal_throttle', 'cpu3/cache', 'cpufreq/thermal_throttle'])
      mkdirSync(join(root, path), { recursive: true });
    expect(thermalThrottlePathsBelow(root)).toEqual([`${root}/cpu2/thermal_throttle`, `${root}/cpu10/thermal_throttle`]);
  });

  it('returns nothing without the directory of the kernel', () => {
    expect(thermalThrottlePathsBelow(join(root, 'none'))).toEqual([]);
  });
});
