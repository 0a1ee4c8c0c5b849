import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Authz, type Decision } from '@oarlock/spi/authz';
import { Paths } from '@oarlock/spi/paths';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { authorizationPath } from '../../src/paths/authorization-path.ts';

const saying = (id: string, decide: (verb: string) => Decision) =>
  Authz.plugin({ id, config: z.strictObject({}), create: () => ({ authorize: ({ verb }) => decide(verb) }) });

describe('the authorization path', () => {
  it('returns the decision of each plugin, up to the one that decides', async () => {
    const host = new PluginHost()
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
});
