import { PostStartHooks } from '@oarlock/apiserver/handler-chain/post-start-hooks';
import { controlPlaneComponents, serverHealthChecks } from '@oarlock/apiserver/server/health-checks';
import type { Health } from '@oarlock/spi/role';
import type { StorageDriver } from '@oarlock/spi/storage';
import { describe, expect, it } from 'vitest';

describe('health of the storage', () => {
  it('fails readiness and not liveness while commits are rejected', async () => {
    let health: Health = { healthy: false, reason: 'no space is left' };
    const storage = { get: async () => ({ entry: undefined, revision: 1 }), checkHealth: () => health } as unknown as StorageDriver;
    const ok: Health = { healthy: true };
    const checks = serverHealthChecks({
      storage,
      process: undefined,
      server: { name: 'apiserver', checkHealth: () => ok },
      postStartHooks: new PostStartHooks(() => []),
      undecryptableValues: () => 0,
      checkCache: () => ok,
      checkShutdown: () => ok,
    });
    const check = (name: string) => checks.find((each) => each.name === name)?.check();
    expect(await check('etcd-readiness')).toEqual(health);
    expect(await check('etcd')).toEqual(ok);
    const status = () =>
      controlPlaneComponents({ storage, process: undefined })
        .find(({ name }) => name === 'etcd-0')
        ?.check();
    expect(await status()).toEqual(health);
    health = ok;
    expect(await status()).toEqual(ok);
    expect(await check('etcd-readiness')).toEqual(ok);
  });
});
