import { available } from '@oarlock/kernel/plugin';
import { Storage, type StorageDriver } from '@oarlock/spi/storage';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { availability, type ListedPlugin } from '../src/plugins-list.ts';
import { oarlock, type Ended } from './support/plugins-command.ts';

describe('oarlock plugins list', () => {
  let json: Ended;
  let plugins: readonly ListedPlugin[];
  beforeAll(async () => {
    json = await oarlock(['plugins', 'list', '-o', 'json']);
    plugins = JSON.parse(json.stdout) as readonly ListedPlugin[];
  });
  const find = (id: string) => plugins.find((plugin) => plugin.id === id);

  it('returns the declarations and availability of each plugin', () => {
    expect(json.code).toBe(0);
    const memory = { id: 'storage-memory', name: 'storage-memory', slot: 'storage', version: '0.1.0', available: true };
    expect(find('storage-memory')).toEqual({ ...memory, declares: { durable: false, shared: false } });
    for (const { available: here, because } of plugins) if (!here) expect(because).toMatch(/\w/);
  });

  it('lists plugins of packages, of built-in lists and of roles once, under their slot', () => {
    expect(find('runtime-process')?.slot).toBe('runtime');
    expect(find('controller-deployment')?.slot).toBe('controller');
    expect(find('scheduling-gates')?.slot).toBe('scheduling');
    const roles = plugins.filter(({ slot }) => slot === 'role').map(({ id }) => id);
    expect(roles).toEqual(['apiserver', 'controllers', 'kubelet', 'proxy', 'scheduler']);
    expect(new Set(plugins.map(({ id }) => id)).size).toBe(plugins.length);
    expect(find('kernel'), 'a module named plugin that is none').toBeUndefined();
  });

  it('prints text by default and rejects unknown output formats', async () => {
    const [text, xml] = await Promise.all([oarlock(['plugins', 'list']), oarlock(['plugins', 'list', '-o', 'xml'])]);
    expect(text.code).toBe(0);
    expect(text.stdout).toMatch(/^storage\n(?: {2}.*\n)*? {2}storage-memory +0\.1\.0 {2}available {2}\(durable=false, shared=false\)$/m);
    expect(xml).toMatchObject({ code: 2, stdout: '' });
    expect(xml.stderr).toMatch(/Allowed choices are text, json, yaml/);
  });
});

describe('availability', () => {
  const plugin = (probe: () => Promise<typeof available>, config: z.ZodType = z.strictObject({})) =>
    Storage.plugin({ id: 'storage-test', config, probe, create: () => ({}) as StorageDriver });

  it('is false after a timeout if the probe does not answer', async () => {
    const never = plugin(() => new Promise(() => {}));
    expect(await availability(never, 10)).toEqual({ available: false, reason: 'its probe did not answer in time' });
  });

  it('is false if the probe throws', async () => {
    const broken = plugin(() => Promise.reject(new Error('no such device')));
    expect(await availability(broken)).toEqual({ available: false, reason: 'its probe failed: no such device' });
  });

  it('names the required config keys of a plugin that cannot be probed without them', async () => {
    const wanting = plugin(async () => available, z.strictObject({ socket: z.string() }));
    expect(await availability(wanting)).toEqual({ available: false, reason: 'cannot be probed without a config: socket' });
  });
});
