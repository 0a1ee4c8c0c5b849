import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import plugin from '../src/plugin.ts';

it('config is strict and reports missing requirements', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'cni-'));
  const rejects = (config: unknown) => plugin.config.safeParse(config).success === false;
  expect(
    [
      { bridge: 'x; reboot' },
      { bridge: 'a-name-that-is-too-long' },
      { confFile: '../x.conflist' },
      { binDirs: [] },
      { binDirs: ['rel'] },
      { mtu: 1 },
      { brigde: 'b' },
    ].map(rejects),
  ).toEqual(Array(7).fill(true));
  expect(plugin.config.safeParse({}).success).toBe(true);
  const answer = await plugin.probe?.(plugin.config.parse({ binDirs: [directory] }));
  expect(answer).toMatchObject({ available: false, reason: expect.stringMatching(/bridge, host-local|root|Linux/) });
  await rm(directory, { recursive: true });
});
