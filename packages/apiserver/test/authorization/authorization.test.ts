import { afterEach, describe, expect, it } from 'vitest';
import type { Attributes, Authorizer } from '@oarlock/spi/authz';
import { rejectionOf, TestServer, type ServerOptions } from '../support/pipeline-fixture.ts';

let server: TestServer;
const start = async (options: ServerOptions = {}) => {
  server = await TestServer.start(options);
  return server;
};
afterEach(() => server.stop());
describe('authorization', () => {
  it("rejects a request that no authorizer allows with upstream's message", async () => {
    await start({ authz: [{ authorize: () => ({ decision: 'no-opinion', reason: 'no rule' }) }] });
    const status = async (call: Promise<unknown>) => (await rejectionOf(call)).status;
    expect(await status(server.get('pods', 'a'))).toMatchObject({
      code: 403,
      reason: 'Forbidden',
      message: 'pods "a" is forbidden: User "admin" cannot get resource "pods" in API group "" in the namespace "default": no rule',
      details: { name: 'a', kind: 'pods' },
    });
    expect(await status(server.list('deployments.apps'))).toMatchObject({
      message:
        'deployments.apps is forbidden: User "admin" cannot list resource "deployments" in API group "apps" at the cluster scope: no rule',
    });
    expect(await status(server.create('pods', {}, { subresource: 'binding', name: 'a' }))).toMatchObject({
      message:
        'pods "a" is forbidden: User "admin" cannot create resource "pods/binding" in API group "" in the namespace "default": no rule',
    });
    expect(await status(server.get('namespaces', 'team'))).toMatchObject({
      message: expect.stringContaining('in the namespace "team"') as string,
    });
  });

  it('calls authorizers until one decides, before the body is read', async () => {
    const asked: string[] = [];
    const who = (name: string, decision: 'allow' | 'deny' | 'no-opinion', later = false): Authorizer => ({
      authorize: () => {
        asked.push(name);
        const answer = decision === 'no-opinion' ? ({ decision } as const) : { decision, reason: name };
        return later ? Promise.resolve(answer) : answer;
      },
    });
    await start({ authz: [who('a', 'no-opinion'), who('b', 'no-opinion', true), who('c', 'deny'), who('d', 'allow')] });
    const body = {
      get metadata(): never {
        throw new Error('the body was read');
      },
    };
    expect((await rejectionOf(server.create('configmaps', {}, { namespace: 'default', body }))).message).toMatch(/: c$/);
    expect(asked).toEqual(['a', 'b', 'c']);
  });

  it('requires create permission for interactive streams over GET', async () => {
    const verbs: string[] = [];
    await start({
      authz: [
        {
          authorize: ({ verb }: Attributes) => {
            verbs.push(verb);
            return verb === 'create' ? { decision: 'deny', reason: 'no streams' } : { decision: 'allow', reason: '' };
          },
        },
      ],
    });
    expect((await rejectionOf(server.get('pods', 'a', { subresource: 'exec' }))).code).toBe(403);
    expect(verbs).toEqual(['get', 'create']);
  });
});
