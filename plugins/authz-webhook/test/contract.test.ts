import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Authz } from '@oarlock/spi/authz';
import { resourceAttributes, pathAttributes, authzContract, user } from '@oarlock/spi/authz/contract';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { describe, expect, it } from 'vitest';
import plugin from '../src/plugin.ts';

interface Spec {
  readonly user: string;
  readonly resourceAttributes?: { readonly verb: string; readonly namespace: string };
  readonly nonResourceAttributes?: { readonly path: string };
}

async function open(config: object = {}) {
  const reviewed: Spec[] = [];
  let broken = false;
  const server = createServer((request, response) => {
    let text = '';
    request.on('data', (chunk) => (text += chunk));
    request.on('end', () => {
      const { spec } = JSON.parse(text) as { spec: Spec };
      reviewed.push(spec);
      const allowed = spec.user === 'ada' && (spec.resourceAttributes?.verb === 'get' || spec.nonResourceAttributes?.path === '/metrics');
      const denied = spec.user === 'eve';
      response.statusCode = broken ? 500 : 200;
      response.end(JSON.stringify({ kind: 'SubjectAccessReview', status: { allowed, ...(denied && { denied, reason: 'not eve' }) } }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const clock = new FakeClock();
  const host = new PluginHost({ clock }).add({
    plugin,
    config: { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/authorize`, ...config },
  });
  const [authorizer] = host.get(Authz);
  if (authorizer === undefined) throw new Error('not created');
  await host.start();
  return {
    reviewed,
    clock,
    authorizer,
    break: () => {
      broken = true;
    },
    async dispose() {
      await host.stop();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

authzContract('authz-webhook', async () => ({
  ...(await open()),
  allowed: [resourceAttributes(user('ada'), 'get', 'pods', 'a', 'p'), pathAttributes(user('ada'), 'get', '/metrics')],
  noOpinion: [resourceAttributes(user('ada'), 'delete', 'pods', 'a', 'p'), pathAttributes(user('bob'), 'get', '/metrics')],
  denied: [resourceAttributes(user('eve'), 'get', 'pods', 'a', 'p')],
}));

describe('authz-webhook', () => {
  it('caches decisions', async () => {
    const { reviewed, clock, authorizer, dispose } = await open();
    const [yes, no] = [resourceAttributes(user('ada'), 'get', 'pods'), resourceAttributes(user('bob'), 'get', 'pods')];
    for (const question of [yes, no, yes, no]) await authorizer.authorize(question);
    expect(reviewed).toHaveLength(2);
    await clock.advance(31_000);
    for (const question of [yes, no]) await authorizer.authorize(question);
    expect(reviewed).toHaveLength(3);
    await clock.advance(300_000);
    await authorizer.authorize(yes);
    expect(reviewed).toHaveLength(4);
    await dispose();
  });

  it('applies the failure policy if the webhook fails', async () => {
    for (const [failurePolicy, decision] of [
      ['NoOpinion', 'no-opinion'],
      ['Deny', 'deny'],
    ] as const) {
      const opened = await open({ failurePolicy });
      opened.break();
      expect(await opened.authorizer.authorize(resourceAttributes(user('ada'), 'get', 'pods'))).toMatchObject({ decision });
      await opened.dispose();
    }
  });

  it('calls the webhook only if all match conditions are true', async () => {
    const { reviewed, authorizer, dispose } = await open({
      matchConditions: [{ expression: 'has(request.resourceAttributes)' }, { expression: "request.resourceAttributes.namespace == 'a'" }],
    });
    expect(await authorizer.authorize(resourceAttributes(user('ada'), 'get', 'pods', 'a'))).toMatchObject({ decision: 'allow' });
    expect(await authorizer.authorize(resourceAttributes(user('ada'), 'get', 'pods', 'b'))).toMatchObject({ decision: 'no-opinion' });
    expect(await authorizer.authorize(pathAttributes(user('ada'), 'get', '/metrics'))).toMatchObject({ decision: 'no-opinion' });
    expect(reviewed).toHaveLength(1);
    await dispose();
  });
});
