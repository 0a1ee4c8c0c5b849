import { available } from '@oarlock/kernel/plugin';
import { Storage, type StorageDriver } from '@oarlock/spi/storage';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { availability, type ListedPlugin } from '../src/plugins.ts';
import { oarlock, type Ended } from './plugins-command.ts';

describe('oarlock plugins list', () => {
  let json: Ended;
  let plugins: readonly ListedPlugin[];
  beforeAll(async () => {
    json = await oarlock(['plugins', 'list', '-o', 'json']);
    plugins = JSON.parse(json.stdout) as readonly ListedPlugin[];
  });
  const find = (id: string) => plugins.find((plugin) => plugin.id === id);

  it('says of each plugin what it is, what it declares and whether it runs here', () => {
    expect(json.code).toBe(0);
    const memory = { id: 'storage-memory', name: 'storage-memory', slot: 'storage', version: '0.1.0', available: true };
    expect(find('storage-memory')).toEqual({ ...memory, declares: { durable: false, shared: false } });
    for (const { available: here, because } of plugins) if (!here) expect(because).toMatch(/\w/);
  });

  it('knows plugins of packages, of built-in lists and of roles, each under its slot and once', () => {
    expect(find('runtime-process')?.slot).toBe('runtime');
    expect(find('controller-deployment')?.slot).toBe('controller');
    expect(find('scheduling-gates')?.slot).toBe('scheduling');
    const roles = plugins.filter(({ slot }) => slot === 'role').map(({ id }) => id);
    expect(roles).toEqual(['apiserver', 'controllers', 'kubelet', 'proxy', 'scheduler']);
    expect(new Set(plugins.map(({ id }) => id)).size).toBe(plugins.length);
    expect(find('kernel'), 'a module named plugin that is none').toBeUndefined();
  });

  it('prints them for people by default, and nothing for an output that there is not', async () => {
    const [text, xml] = await Promise.all([oarlock(['plugins', 'list']), oarlock(['plugins', 'list', '-o', 'xml'])]);
    expect(text.code).toBe(0);
    expect(text.stdout).toMatch(/^storage\n(?: {2}.*\n)*? {2}storage-memory +0\.1\.0 {2}available {2}\(durable=false, shared=false\)$/m);
    expect(xml).toMatchObject({ code: 2, stdout: '' });
    expect(xml.stderr).toMatch(/"xml": text or json/);
  });
});

describe('availability', () => {
  const plugin = (probe: () => Promise<typeof available>, config: z.ZodType = z.strictObject({})) =>
    Storage.plugin({ id: 'storage-test', config, probe, create: () => ({}) as StorageDriver });

  it('gives up on a probe that does not answer', async () => {
    const never = plugin(() => new Promise(() => {}));
    expect(await availability(never, 10)).toEqual({ available: false, because: 'its probe did not answer within a second' });
  });

  it('takes a probe that throws for a no', async () => {
    const broken = plugin(() => Promise.reject(new Error('no such device')));
    expect(await availability(broken)).toEqual({ available: false, because: 'its probe failed: no such device' });
  });

  it('says what a plugin has to be told before it can be asked', async () => {
    const wanting = plugin(async () => available, z.strictObject({ socket: z.string() }));
    expect(await availability(wanting)).toEqual({ available: false, because: 'it cannot be asked without a config: socket' });
  });
});
