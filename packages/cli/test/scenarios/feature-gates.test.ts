import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { featureGates } from '../../src/common/command-options.ts';
import { exitCodes } from '../../src/common/command-error.ts';
import { up } from '../../src/up.ts';

let dataDir: string;
beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'oarlock-gates-'));
});
afterAll(() => rm(dataDir, { recursive: true, force: true }));

it.each([
  [{ NoSuchGate: true }, '--feature-gates: unrecognized feature gate: NoSuchGate'],
  [{ SidecarContainers: false }, '--feature-gates: cannot set feature gate SidecarContainers to false, feature is locked to true'],
])('oarlock up --feature-gates %o is a usage error, before anything is written', async (gates, message) => {
  const started = up({ file: 'embedded', dataDir, roles: 'apiserver', detach: false, featureGates: gates });
  await expect(started).rejects.toMatchObject({ message, exitCode: exitCodes.usage });
  expect(await readdir(dataDir)).toEqual([]);
});

it('--feature-gates has the form of upstream', () => {
  expect(featureGates('A=true,B=false')).toEqual({ A: true, B: false });
  expect(() => featureGates('A')).toThrow('missing bool value for A');
});
