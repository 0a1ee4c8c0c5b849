import { expect, it } from 'vitest';
import { ApiClient } from '../../../src/api/client.ts';
import { readReloadable, reloadPlugin } from '../../../src/views/plugins/plugin-reload.ts';

const { signal } = new AbortController();
const plugin = (id: string) => ({ name: id, id, slot: 'paths/v1', needs: [], config: {} });

/** Returns a client whose requests have this answer, and the requests. */
function clientOf(status: number, body: unknown) {
  const requests: (readonly [string, RequestInit])[] = [];
  const client = new ApiClient(
    async (url, init) => {
      requests.push([url, init]);
      return new Response(JSON.stringify(body), { status });
    },
    () => 'key',
  );
  return { client, requests };
}

it('requests the plugins only from a server that has the path', async () => {
  const served = { names: ['a'], latest: { a: { ms: 39, changes: [{ file: 'a.ts', before: 'x', after: 'y' }] } } };
  const { client, requests } = clientOf(200, served);
  expect(await readReloadable(client, [plugin('console')], signal)).toEqual({ names: [], latest: {} });
  expect(requests).toEqual([]);
  expect(await readReloadable(client, [plugin('plugin-reload')], signal)).toEqual(served);
});

it('offers no reload to a user without the permission, and reports other errors', async () => {
  const plugins = [plugin('plugin-reload')];
  expect(await readReloadable(clientOf(403, { message: 'no' }).client, plugins, signal)).toEqual({ names: [], latest: {} });
  await expect(readReloadable(clientOf(500, { message: 'broken' }).client, plugins, signal)).rejects.toThrow('broken');
});

it('posts the name with the key of the page, and returns the result or the error', async () => {
  const { client, requests } = clientOf(200, { error: 'plugin.ts:3:7: Expected "}"' });
  expect(await reloadPlugin(client, 'a')).toEqual({ error: 'plugin.ts:3:7: Expected "}"' });
  const [url, { method, body, headers }] = requests[0] ?? ['', {}];
  expect([url, method, body]).toEqual(['/oarlock/v1/reloads', 'POST', '{"name":"a"}']);
  expect(new Headers(headers).get('x-oarlock-console')).toBe('key');
  expect(await reloadPlugin(clientOf(429, { message: 'busy' }).client, 'a')).toEqual({ error: 'busy' });
});
