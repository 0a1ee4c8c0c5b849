import { serviceAccounts } from '@oarlock/api/resources';
import { failure } from '@oarlock/api/status';
import { ServiceAccountCredentials } from '@oarlock/client/auth/service-account-credentials';
import type { Client } from '@oarlock/spi/client';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { beforeEach, describe, expect, it } from 'vitest';

describe('service account credentials', () => {
  let clock: FakeClock;
  let api: ReturnType<typeof memoryApi>;
  let asked: number;
  beforeEach(() => {
    clock = new FakeClock();
    api = memoryApi({ clock });
    asked = 0;
  });
  /** A client that supports token requests of existing accounts; the memory API does not. */
  const client = (): Client =>
    new Proxy(api.client(), {
      get(target, key) {
        const member: unknown = Reflect.get(target, key, target);
        if (key !== 'create') return typeof member === 'function' ? member.bind(target) : member;
        return async (...[resource, object, options]: Parameters<Client['create']>) => {
          if (options?.subresource !== 'token') return target.create(resource, object, options);
          asked += 1;
          if (api.object(serviceAccounts, { namespace: 'kube-system', name: 'loop' }) === undefined) throw failure('NotFound', 'none');
          const expirationTimestamp = new Date(clock.now() + 3_600_000).toISOString();
          return { status: { token: `token ${asked}`, expirationTimestamp } };
        };
      },
    });
  const source = () => new ServiceAccountCredentials({ client: client(), clock, namespace: 'kube-system', name: 'loop' });

  it('are requested once for concurrent callers, and a missing service account is created', async () => {
    const credentials = source();
    const all = await Promise.all([credentials.get(), credentials.get()]);
    expect(all).toEqual([{ token: 'token 2' }, { token: 'token 2' }]);
    expect(await credentials.get()).toEqual({ token: 'token 2' });
    expect(api.object(serviceAccounts, { namespace: 'kube-system', name: 'loop' })).toBeDefined();
  });

  it('are requested again after 80 % of their lifetime, or when the server rejects them', async () => {
    const credentials = source();
    await credentials.get();
    await clock.advance(47 * 60_000);
    expect(await credentials.get()).toEqual({ token: 'token 2' });
    await clock.advance(2 * 60_000);
    expect(await credentials.get()).toEqual({ token: 'token 3' });
    expect(credentials.handleUnauthorized()).toBe(true);
    expect(await credentials.get()).toEqual({ token: 'token 4' });
  });

  it('fail if the request is rejected', async () => {
    api.failNext({ verb: 'create', resource: serviceAccounts }, failure('Forbidden', 'no'));
    await expect(source().get()).rejects.toMatchObject({ reason: 'Forbidden' });
  });
});
