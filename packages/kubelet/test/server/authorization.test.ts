import type { IncomingMessage } from 'node:http';
import type { KubeObject } from '@oarlock/api/object';
import type { Client } from '@oarlock/spi/client';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { beforeEach, describe, expect, it } from 'vitest';
import { KubeletAuthorizer } from '../../src/server/authorization.ts';

describe('KubeletAuthorizer', () => {
  const clock = new FakeClock();
  const reviews: string[] = [];
  let may: (subresource: string) => boolean = () => true;
  const client = {
    create: (resource: { readonly kind: string }, object: KubeObject & { readonly spec?: Record<string, never> }) => {
      const { token, user, resourceAttributes } = (object.spec ?? {}) as {
        readonly token?: string;
        readonly user?: string;
        readonly resourceAttributes?: { readonly verb: string; readonly subresource: string; readonly name: string };
      };
      reviews.push(token ?? `${user} ${resourceAttributes?.verb} ${resourceAttributes?.name}/${resourceAttributes?.subresource}`);
      if (resource.kind === 'TokenReview')
        return Promise.resolve({
          ...object,
          status: token === 'good' ? { authenticated: true, user: { username: 'prometheus', groups: ['scrapers'] } } : {},
        });
      return Promise.resolve({ ...object, status: { allowed: may(resourceAttributes?.subresource ?? '') } });
    },
  } as unknown as Pick<Client, 'create'>;
  const { signal } = new AbortController();
  let access: KubeletAuthorizer;
  beforeEach(() => {
    reviews.length = 0;
    may = () => true;
    access = new KubeletAuthorizer({ client, clock, signal });
  });
  const check = (path: string, token?: string, method = 'GET') => {
    const socket = { authorized: false, getPeerCertificate: () => ({}) };
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    return access.authorize({ socket, headers, method } as unknown as IncomingMessage, path, 'node-a').then(
      () => 200,
      (error: { readonly code: number }) => error.code,
    );
  };

  it('authenticates tokens and authorizes users through the API server, and caches the results', async () => {
    expect(await check('/metrics')).toBe(401);
    expect(await check('/metrics', 'bad')).toBe(401);
    expect(await check('/metrics', 'good')).toBe(200);
    expect(await check('/metrics/cadvisor', 'good')).toBe(200);
    expect(reviews).toEqual(['bad', 'good', 'prometheus get node-a/metrics']);
    await clock.advance(121_000);
    expect(await check('/metrics', 'good')).toBe(200);
    expect(reviews.slice(3)).toEqual(['good']);
  });

  it('rejects a client certificate that expires while its connection lasts', async () => {
    const period = { valid_from: new Date(clock.now() - 1_000).toUTCString(), valid_to: new Date(clock.now() + 60_000).toUTCString() };
    const subject = { CN: 'root', O: 'system:masters' };
    const socket = { authorized: true, getPeerCertificate: () => ({ subject, ...period }) };
    const request = { socket, headers: {}, method: 'GET' } as unknown as IncomingMessage;
    await access.authorize(request, '/pods', 'node-a');
    await clock.advance(62_000);
    await expect(access.authorize(request, '/pods', 'node-a')).rejects.toMatchObject({ code: 401 });
  });

  it.each([
    ['/metrics', ['metrics']],
    ['/metrics/cadvisor', ['metrics']],
    ['/metricsx', ['proxy']],
    ['/stats', ['stats']],
    ['/stats/summary', ['stats']],
    ['/logs', ['log']],
    ['/logs/../exec', ['log']],
    ['/checkpoint/ns/pod/c', ['checkpoint']],
    ['/pods', ['pods', 'proxy']],
    ['/runningpods/', ['pods', 'proxy']],
    ['/healthz', ['healthz', 'proxy']],
    ['/healthz/ping', ['healthz', 'proxy']],
    ['/configz', ['configz', 'proxy']],
    ['/exec/ns/pod/c', ['proxy']],
    ['/run/ns/pod/c', ['proxy']],
    ['/attach/ns/pod/c', ['proxy']],
    ['/portForward/ns/pod', ['proxy']],
    ['/containerLogs/ns/pod/c', ['proxy']],
    ['/statusz', ['proxy']],
    ['/', ['proxy']],
    ['//pods', ['proxy']],
    ['/PODS', ['proxy']],
  ])('authorizes %s by the subresources %j of the node alone', async (path, subresources) => {
    for (const [method, verb] of [
      ['GET', 'get'],
      ['POST', 'create'],
      ['PUT', 'update'],
      ['PATCH', 'patch'],
      ['DELETE', 'delete'],
      ['HEAD', ''],
      ['OPTIONS', ''],
    ] as const) {
      reviews.length = 0;
      access = new KubeletAuthorizer({ client, clock, signal });
      may = () => false;
      expect(await check(path, 'good', method)).toBe(403);
      expect(reviews.slice(1)).toEqual(subresources.map((subresource) => `prometheus ${verb} node-a/${subresource}`));
    }
  });

  it('checks the most specific subresource first', async () => {
    may = (subresource) => subresource === 'proxy';
    expect(await check('/pods', 'good')).toBe(200);
    expect(await check('/exec/default/web/app', 'good', 'POST')).toBe(200);
    expect(await check('/stats/summary', 'good')).toBe(403);
    expect(reviews.slice(1)).toEqual([
      'prometheus get node-a/pods',
      'prometheus get node-a/proxy',
      'prometheus create node-a/proxy',
      'prometheus get node-a/stats',
    ]);
  });
});
