import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { firstUsablePort } from '../../src/process/privileged-ports.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'ports-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

it('is 0 for root, the value of the sysctl for others, and 1024 without the sysctl', async () => {
  const file = join(directory, 'ip_unprivileged_port_start');
  expect(firstUsablePort(file, false)).toBe(1024);
  await writeFile(file, '53\n');
  expect(firstUsablePort(file, false)).toBe(53);
  expect(firstUsablePort(file, true)).toBe(0);
});
