import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Admission, allow, deny } from '@oarlock/spi/admission';
import { Authz, type Decision } from '@oarlock/spi/authz';
import { LoopbackTransport } from '@oarlock/client/loopback-client';
import { failure } from '@oarlock/api/status';
import { Client } from '@oarlock/spi/client';
import { Loopback, type ApiRequest } from '@oarlock/spi/loopback';
import { Paths } from '@oarlock/spi/paths';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { configMaps } from '@oarlock/api/resources';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { authorizationPath, type AuthorizationTrace } from '../../src/paths/authorization-path.ts';

/** Returns an API server that records requests and rejects some colors of ConfigMaps. */
function apiServer(requests: ApiRequest[] = []): LoopbackTransport {
  const transport = new LoopbackTransport();
  transport.connect({
    handle: async (request) => {
      requests.push(request);
      const { color = '' } = (request.body as { data?: { color?: string } } | undefined)?.data ?? {};
      if (color === 'invalid') throw failure('Invalid', 'the color is invalid');
      if (color === 'busy') throw failure('TooManyRequests', 'too many requests');
      return { kind: 'object', code: 200, object: {}, warnings: [] };
    },
    handlePath: () => Promise.reject(new Error('not in this test')),
  });
  return transport;
}

const saying = (id: string, decide: (verb: string) => Decision) =>
  Authz.plugin({ id, config: z.strictObject({}), create: () => ({ authorize: ({ verb }) => decide(verb) }) });

describe('the authorization path', () => {
  it('returns the decision of each plugin, up to the one that decides', async () => {
    const host = new PluginHost()
      .provide(Client, memoryApi({ clock: new FakeClock() }).client())
      .provide(Loopback, apiServer())
      .add({ plugin: saying('authz-first', () => ({ decision: 'no-opinion', reason: 'not mine' })) })
      .add({
        plugin: saying('authz-second', (verb) => (verb === 'get' ? { decision: 'allow', reason: 'rule 7' } : { decision: 'no-opinion' })),
      })
      .add({ plugin: saying('authz-third', () => ({ decision: 'deny', reason: 'never' })) })
      .add({ plugin: authorizationPath });
    const [path] = host.get(Paths);
    const ask = (body: unknown) => path?.handle({ method: 'POST', path: '/', query: {}, body, identity: { name: 'x', groups: [] } });
    expect(await ask({ user: 'ada', verb: 'get', resource: 'pods' })).toEqual({
      code: 200,
      body: {
        allowed: true,
        steps: [
          { plugin: 'authz-first', decision: 'no-opinion', because: 'not mine' },
          { plugin: 'authz-second', decision: 'allow', because: 'rule 7' },
        ],
      },
    });
    expect(await ask({ user: 'ada', verb: 'post', path: '/metrics' })).toMatchObject({
      body: { allowed: false, steps: [{}, {}, { plugin: 'authz-third', decision: 'deny' }] },
    });
    expect(await ask({ user: 'ada' })).toMatchObject({ code: 400, body: { kind: 'Status', reason: 'BadRequest' } });
  });

  it('explains which admission plugin denies the write of an object', async () => {
    const requests: ApiRequest[] = [];
    const api = memoryApi({ clock: new FakeClock() });
    api.seed(configMaps, { metadata: { namespace: 'default', name: 'a' }, data: { color: 'red' } });
    const matches = [{ resources: ['configmaps'], operations: ['CREATE', 'UPDATE', 'DELETE'] as const }];
    const host = new PluginHost()
      .provide(Client, api.client())
      .provide(Loopback, apiServer(requests))
      .add({ plugin: saying('authz-all', (verb) => ({ decision: verb === 'get' ? 'deny' : 'allow', reason: 'rule' })) })
      .add({
        plugin: Admission.plugin({
          id: 'admission-label',
          config: z.strictObject({}),
          create: () => ({
            matches,
            mutate: ({ object }) => ({ ...object, metadata: { ...object?.metadata, labels: { added: 'true' } } }),
          }),
        }),
      })
      .add({
        plugin: Admission.plugin({
          id: 'admission-color',
          config: z.strictObject({}),
          create: () => ({
            matches,
            validate: ({ object, old, identity, dryRun, operation }) => {
              if (operation === 'DELETE') throw new Error('no deletions');
              const color = (of: object | undefined) => (of as { data?: { color?: string } } | undefined)?.data?.color;
              if (!dryRun || object?.metadata?.labels?.['added'] !== 'true') return deny('not mutated as a dry run');
              return color(old) === undefined || color(old) === color(object) ? allow : deny(`${identity.name} must not change the color`);
            },
          }),
        }),
      })
      .add({ plugin: authorizationPath });
    const [path] = host.get(Paths);
    const why = async (verb: string, color: string) => {
      const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace: 'default', name: 'a' }, data: { color } };
      const body = { user: 'ada', verb, resource: 'configmaps', namespace: 'default', name: 'a', object };
      const answer = await path?.handle({ method: 'POST', path: '/', query: {}, body, identity: { name: 'x', groups: [] } });
      return (answer?.body as AuthorizationTrace | undefined)?.steps.at(-1);
    };
    expect(await why('update', 'blue')).toEqual({ plugin: 'admission-color', decision: 'deny', because: 'ada must not change the color' });
    expect(await why('update', 'red')).toEqual({ plugin: 'admission', decision: 'allow', because: '2 plugins admit the request' });
    expect(await why('create', 'blue')).toMatchObject({ decision: 'allow' });
    expect(requests.at(-1)).toMatchObject({ verb: 'create', name: '', query: { dryRun: 'All' }, identity: { name: 'ada' } });
    // only a rejection for its content is a denial
    expect(await why('create', 'invalid')).toEqual({ plugin: 'apiserver', decision: 'deny', because: 'the color is invalid' });
    expect(await why('create', 'busy')).toMatchObject({ plugin: 'admission', decision: 'allow' });
    expect(requests.every(({ query }) => query['dryRun'] === 'All')).toBe(true);
    expect(await why('delete', 'red')).toEqual({ plugin: 'admission-color', decision: 'deny', because: 'no deletions' });
    // admission follows authorization
    expect(await why('get', 'red')).toEqual({ plugin: 'authz-all', decision: 'deny', because: 'rule' });
  });
});
