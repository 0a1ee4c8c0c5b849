import { PluginHost } from '@oarlock/kernel/plugin-host';
import { abstained, anonymous, authenticated, type Credentials } from '@oarlock/spi/authn';
import { Paths, type PathHandler, type PathRequest } from '@oarlock/spi/paths';
import { describe, expect, it } from 'vitest';
import type { CallHandlers } from '../../src/workers/process-calls.ts';
import { describePath, pathCalls, remotePathPlugins } from '../../src/workers/remote-paths.ts';

const composition = { authenticate: () => abstained };
const identity = { name: 'ada', groups: ['developers'] };

/** Returns the handlers of a worker for handlers of the first process, and the number of calls that they send. */
function remote(handlers: readonly PathHandler[]) {
  const methods = pathCalls(handlers, composition) as Readonly<Record<string, (arg: unknown) => unknown>>;
  const sent: string[] = [];
  const call: (method: string, arg?: unknown) => Promise<unknown> = async (method, arg) => {
    sent.push(method);
    return (methods as CallHandlers as Readonly<Record<string, (arg: unknown) => unknown>>)[method]?.(structuredClone(arg));
  };
  const host = new PluginHost();
  for (const plugin of remotePathPlugins(handlers.map(describePath), { call })) host.add({ plugin, name: plugin.id, config: {} });
  return { paths: host.get(Paths), sent };
}

describe('remotePathPlugins', () => {
  it('handles a path in the first process', async () => {
    const requests: PathRequest[] = [];
    const { paths } = remote([
      {
        path: '/things/*',
        methods: ['GET', 'POST'],
        isPublic: true,
        handle: (request) => {
          requests.push(request);
          return Promise.resolve({ code: 200, body: Buffer.from('x'), contentType: 'text/plain' });
        },
      },
    ]);
    expect(paths[0]).toMatchObject({ path: '/things/*', methods: ['GET', 'POST'], isPublic: true });
    expect(paths[0]?.authenticator).toBeUndefined();
    const request = { method: 'POST', path: '/things/a', query: { q: '1' }, body: { a: 1 }, identity };
    const credentials: Credentials = { headers: { host: 'a' }, path: '/things/a' };
    expect(await paths[0]?.handle({ ...request, credentials })).toMatchObject({ code: 200, contentType: 'text/plain' });
    expect(requests).toEqual([{ ...request, credentials }]);
  });

  it('calls the authenticator of a path only for its own credentials', async () => {
    const { paths, sent } = remote([
      {
        path: '/console',
        methods: ['GET'],
        authenticator: { authenticate: () => authenticated(identity) },
        handle: () => Promise.resolve({ code: 200, body: {} }),
      },
    ]);
    const authenticate = (headers: Credentials['headers']) =>
      paths[0]?.authenticator?.authenticate({ headers, path: '/api' }, { authenticate: () => authenticated(anonymous) });
    expect(await authenticate({ cookie: 'other=1' })).toEqual(abstained);
    expect(sent).toEqual([]);
    expect(await authenticate({ cookie: '__Host-oarlock-6443=1' })).toEqual(authenticated(identity));
    expect(await authenticate({ 'x-oarlock-console': '1' })).toEqual(authenticated(identity));
    expect(sent).toEqual(['authenticate', 'authenticate']);
  });
});
