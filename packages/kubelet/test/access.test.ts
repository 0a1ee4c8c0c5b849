import type { IncomingMessage } from 'node:http';
import type { KubeObject } from '@oarlock/api/object';
import type { Client } from '@oarlock/spi/client';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { beforeEach, describe, expect, it } from 'vitest';
import { Access } from '../src/server/access.ts';

describe("who may use a kubelet's API", () => {
  const clock = new FakeClock();
  const asked: string[] = [];
  let may: (subresource: string) => boolean = () => true;
  const client = {
    create: (resource: { readonly kind: string }, object: KubeObject & { readonly spec?: Record<string, never> }) => {
      const { token, user, resourceAttributes } = (object.spec ?? {}) as {
        readonly token?: string;
        readonly user?: string;
        readonly resourceAttributes?: { readonly verb: string; readonly subresource: string; readonly name: string };
      };
      asked.push(token ?? `${user} ${resourceAttributes?.verb} ${resourceAttributes?.name}/${resourceAttributes?.subresource}`);
      if (resource.kind === 'TokenReview')
        return Promise.resolve({
          ...object,
          status: token === 'good' ? { authenticated: true, user: { username: 'prometheus', groups: ['scrapers'] } } : {},
        });
      return Promise.resolve({ ...object, status: { allowed: may(resourceAttributes?.subresource ?? '') } });
    },
  } as unknown as Pick<Client, 'create'>;
  const { signal } = new AbortController();
  let access: Access;
  beforeEach(() => {
    asked.length = 0;
    may = () => true;
    access = new Access({ client, clock, signal });
  });
  const check = (path: string, token?: string, method = 'GET') => {
    const socket = { authorized: false, getPeerCertificate: () => ({}) };
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    return access.check({ socket, headers, method } as unknown as IncomingMessage, path, 'node-a').then(
      () => 200,
      (error: { readonly code: number }) => error.code,
    );
  };

  it('is whom the API server knows by a token and lets, which is remembered for a while', async () => {
    expect(await check('/metrics')).toBe(401);
    expect(await check('/metrics', 'bad')).toBe(401);
    expect(await check('/metrics', 'good')).toBe(200);
    expect(await check('/metrics/cadvisor', 'good')).toBe(200);
    expect(asked).toEqual(['bad', 'good', 'prometheus get node-a/metrics']);
    await clock.advance(121_000);
    expect(await check('/metrics', 'good')).toBe(200);
    expect(asked.slice(3)).toEqual(['good']);
  });

  it('is asked for by the finest subresource first', async () => {
    may = (subresource) => subresource === 'proxy';
    expect(await check('/pods', 'good')).toBe(200);
    expect(await check('/exec/default/web/app', 'good', 'POST')).toBe(200);
    expect(await check('/stats/summary', 'good')).toBe(403);
    expect(asked.slice(1)).toEqual([
      'prometheus get node-a/pods',
      'prometheus get node-a/proxy',
      'prometheus create node-a/proxy',
      'prometheus get node-a/stats',
    ]);
  });
});
