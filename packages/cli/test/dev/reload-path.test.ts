import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Authz, noOpinion } from '@oarlock/spi/authz';
import { Paths, type PathRequest } from '@oarlock/spi/paths';
import { beforeEach, expect, it } from 'vitest';
import { z } from 'zod';
import { reloadPath, reloadUrl, type ReloadablePlugins } from '../../src/dev/reload-path.ts';
import type { ReloadResult } from '../../src/dev/reloader.ts';

/** Allows `admin` all, and `caller` each path, as a role with `nonResourceURLs: ['*']` does. */
const authz = Authz.plugin({
  id: 'authz-test',
  config: z.strictObject({}),
  create: () => ({
    authorize: (attributes) =>
      attributes.identity.name === 'admin' || (attributes.identity.name === 'caller' && attributes.kind === 'path')
        ? { decision: 'allow', reason: '' }
        : noOpinion,
  }),
});

let plugins: ReloadablePlugins | undefined;
let reloads: { readonly name: string; finish(result: ReloadResult): void }[];
let host: PluginHost;
beforeEach(() => {
  reloads = [];
  plugins = {
    names: ['a', 'b'],
    latest: new Map([['a', { ms: 1, changes: [{ file: 'a.ts', before: '', after: 'x' }] }]]),
    reloadByName: (name) => (['a', 'b'].includes(name) ? new Promise((finish) => reloads.push({ name, finish })) : undefined),
  };
  host = new PluginHost().add({ plugin: authz }).add({ plugin: reloadPath(() => plugins) });
});

const call = async (method: string, more: Partial<PathRequest> = {}) => {
  const handler = host.get(Paths).find(({ path }) => path === reloadUrl);
  if (handler === undefined) throw new Error('no handler');
  return handler.handle({ method, path: reloadUrl, query: {}, body: undefined, identity: { name: 'admin', groups: [] }, ...more });
};
const post = (body: unknown, more: Partial<PathRequest> = {}) => call('POST', { body, ...more });
const fromSite = (site: string) => ({
  credentials: { headers: { 'sec-fetch-site': site } } as unknown as NonNullable<PathRequest['credentials']>,
});

it('lists the plugins, once they are known', async () => {
  expect(await call('GET')).toEqual({ code: 200, body: { names: ['a', 'b'], latest: { a: plugins?.latest.get('a') } } });
  plugins = undefined;
  expect(await call('GET')).toEqual({ code: 200, body: { names: [], latest: {} } });
  expect((await post({ name: 'a' })).code).toBe(404);
});

it('reloads a plugin, and returns the result', async () => {
  const answer = post({ name: 'a' }, fromSite('same-origin'));
  await expect.poll(() => reloads.length).toBe(1);
  reloads[0]?.finish({ error: 'plugin.ts:3:7: Expected "}"' });
  expect(await answer).toEqual({ code: 200, body: { error: 'plugin.ts:3:7: Expected "}"' } });
});

it('runs one reload of a plugin at a time', async () => {
  const first = post({ name: 'a' });
  await expect.poll(() => reloads.length).toBe(1);
  expect(await post({ name: 'a' })).toMatchObject({ code: 429, body: { message: expect.stringContaining('"a"') } });
  const other = post({ name: 'b' });
  await expect.poll(() => reloads.length).toBe(2);
  for (const { finish } of reloads) finish({ ms: 1, changes: [] });
  expect([await first, await other].map(({ code }) => code)).toEqual([200, 200]);
  const again = post({ name: 'a' });
  await expect.poll(() => reloads.length).toBe(3);
  reloads[2]?.finish({ ms: 2, changes: [] });
  expect(await again).toEqual({ code: 200, body: { ms: 2, changes: [] } });
});

it('rejects users without all permissions, for both methods', async () => {
  for (const name of ['caller', 'other'])
    for (const method of ['GET', 'POST'])
      expect(await call(method, { body: { name: 'a' }, identity: { name, groups: [] } })).toMatchObject({
        code: 403,
        body: { message: expect.stringContaining(name) },
      });
  expect(reloads).toEqual([]);
});

it('rejects requests of other sites, which a browser may send with its client certificate', async () => {
  for (const site of ['cross-site', 'same-site', 'none']) expect((await post({ name: 'a' }, fromSite(site))).code).toBe(403);
  expect(reloads).toEqual([]);
});

it('rejects a name that is missing, unknown or no text', async () => {
  for (const body of [undefined, {}, { name: 1 }, { name: 'x'.repeat(300) }, { name: 'a', file: '/etc/passwd' }])
    expect((await post(body)).code).toBe(400);
  expect(await post({ name: 'toString' })).toMatchObject({ code: 404, body: { message: expect.stringContaining('"toString"') } });
  expect(reloads).toEqual([]);
});
