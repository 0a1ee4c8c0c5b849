import { describe, expect, it } from 'vitest';
import { ApiClient, isApiError, withQuery } from '../../src/api/client.ts';
import { execPath, statusMessage } from '../../src/api/exec-protocol.ts';
import { pathOf, resourceOfKind, resourcesOf } from '../../src/api/resources.ts';
import { fakeClient } from './support.ts';

describe('a request', () => {
  it('has the key of the page, and no other credential', async () => {
    const { client, requests } = fakeClient([{ json: {} }]);
    await client.json('/api');
    const headers = new Headers(requests[0]?.init.headers);
    expect([...headers.keys()]).toEqual(['accept', 'x-oarlock-console']);
    expect(headers.get('x-oarlock-console')).toBe('key');
  });

  it('impersonates on paths of the API only', async () => {
    const { client, requests } = fakeClient([{ json: {} }, { json: {} }]);
    client.impersonation = { user: 'bob', groups: ['a', 'b'] };
    await client.json('/api');
    await client.json('/console/session');
    expect(requests.map(({ init }) => new Headers(init.headers).get('impersonate-user'))).toEqual(['bob', null]);
  });

  it('fails with the message and the reason of a Status, or with the text of another error', async () => {
    const { client } = fakeClient([{ json: { message: 'no', reason: 'Conflict' }, status: 409 }]);
    const error = await client.json('/api').catch((reason: unknown) => reason);
    expect(isApiError(error, 409)).toBe(true);
    expect(error).toMatchObject({ message: 'no', reason: 'Conflict' });
    const proxy = new ApiClient(
      () => Promise.resolve(new Response('<html>', { status: 502 })),
      () => 'key',
    );
    await expect(proxy.json('/api')).rejects.toMatchObject({ code: 502, message: '<html>' });
  });

  it('that was sent ahead answers the same request once, unless it has another user', async () => {
    const answers = [{ json: 'ahead' }, { json: 'other' }, { json: 'again' }, { json: 'ahead' }, { json: 'as bob' }];
    const { client, requests } = fakeClient(answers);
    const options = { accept: 'application/json;as=Table', query: { limit: 100, continue: undefined } };
    client.prefetch('/api/v1/pods', options);
    expect(await client.json('/api/v1/pods', { ...options, query: { limit: 500 } })).toBe('other');
    expect(await client.json('/api/v1/pods', { ...options, query: { limit: 100 } })).toBe('ahead');
    expect(await client.json('/api/v1/pods', options)).toBe('again');
    client.prefetch('/api/v1/pods', options);
    client.impersonation = { user: 'bob', groups: [] };
    expect(await client.json('/api/v1/pods', options)).toBe('as bob');
    expect(requests).toHaveLength(5);
  });

  it('that was sent ahead and failed rejects when it is needed', async () => {
    const { client } = fakeClient([{ json: { message: 'no' }, status: 403 }]);
    client.prefetch('/api/v1/pods', {});
    await expect(client.json('/api/v1/pods')).rejects.toMatchObject({ code: 403, message: 'no' });
  });

  it('that was sent ahead and has failed is sent again when it is needed', async () => {
    const { client, requests } = fakeClient([{ json: { message: 'no' }, status: 401 }, { json: 'signed in' }]);
    const failed = new Promise<void>((resolve) => {
      client.onUnauthorized = () => resolve();
    });
    client.prefetch('/api/v1/pods', {});
    await failed;
    await new Promise(setImmediate); // the rejection follows
    expect(await client.json('/api/v1/pods')).toBe('signed in');
    expect(requests).toHaveLength(2);
  });

  it('reports a session that has ended', async () => {
    const { client } = fakeClient([{ json: {}, status: 401 }]);
    let ended = false;
    client.onUnauthorized = () => {
      ended = true;
    };
    await client.json('/api').catch(() => undefined);
    expect(ended).toBe(true);
  });
});

describe('a path', () => {
  it('encodes names, and leaves out parameters without a value', () => {
    expect(pathOf({ group: 'apps', version: 'v1', resource: 'deployments' }, 'a b', 'x/y')).toBe(
      '/apis/apps/v1/namespaces/a%20b/deployments/x%2Fy',
    );
    expect(withQuery('/api', { a: undefined, b: '', c: 1, d: false })).toBe('/api?c=1&d=false');
  });
  it('of an exec request repeats the words of the command', () => {
    expect(execPath({ namespace: 'n', pod: 'p', container: 'c', command: ['sh', '-c', 'a&b'] })).toBe(
      '/api/v1/namespaces/n/pods/p/exec?container=c&stdin=true&stdout=true&tty=true&command=sh&command=-c&command=a%26b',
    );
  });
});

describe('discovery', () => {
  const document = {
    items: [
      {
        metadata: { name: 'autoscaling' },
        versions: [
          { version: 'v2', resources: [{ resource: 'hpas', responseKind: { kind: 'HPA' }, scope: 'Namespaced', verbs: ['list'] }] },
          {
            version: 'v1',
            resources: [
              { resource: 'hpas', responseKind: { kind: 'HPA' }, scope: 'Namespaced', verbs: ['list'] },
              { resource: 'old', scope: 'Cluster', verbs: [], subresources: [{ subresource: 'scale' }] },
            ],
          },
        ],
      },
    ],
  };
  it('lists each resource in its preferred version', () => {
    expect(resourcesOf(document)).toMatchObject([
      { resource: 'hpas', version: 'v2', kind: 'HPA', namespaced: true },
      { resource: 'old', version: 'v1', namespaced: false, subresources: ['scale'] },
    ]);
  });
  it('finds the resource of a kind in another served version', () => {
    expect(resourceOfKind(resourcesOf(document), 'autoscaling/v1', 'HPA')).toMatchObject({ version: 'v1', resource: 'hpas' });
    expect(resourceOfKind(resourcesOf(document), 'v1', 'HPA')).toBeUndefined();
  });
});

describe('the error channel of a terminal', () => {
  it.each([
    ['{"status":"Success"}', ''],
    ['{"status":"Failure","message":"command terminated"}', 'command terminated'],
    ['not JSON', 'not JSON'],
  ])('%s means %j', (text, message) => {
    expect(statusMessage(new TextEncoder().encode(text))).toBe(message);
  });
});
