import { kinds } from '@oarlock/api/kinds';
import { systemClock } from '@oarlock/primitives/clock';
import { describe, expect, it } from 'vitest';
import { HealthEndpoints, ping } from '../../src/handler-chain/health-endpoints.ts';
import { parseTarget } from '../../src/http/path.ts';
import { PostStartHooks, type ServerHookName } from '../../src/handler-chain/post-start-hooks.ts';

const endpoints = (hooks: PostStartHooks) =>
  new HealthEndpoints({ checks: () => [ping, ...hooks.checks()], clock: systemClock, onFailure: () => undefined });
const answer = (health: HealthEndpoints, path: string) => health.answer(path.split('?', 1)[0] ?? '', parseTarget(path).query);

/** All hooks of the server except those of the bootstrap controller. */
const others: readonly ServerHookName[] = [
  'admission',
  'watchCache',
  'definitions',
  'fairnessConsumer',
  'fairnessProducer',
  'serviceCidrs',
  'aggregator',
  'clusterAuthentication',
  'apiServices',
  'identityLease',
  'identityLeaseCollector',
  'tokenTracking',
];

describe('post-start hooks', () => {
  it('keep the server neither live nor ready until they have run, and name the missing ones', async () => {
    const hooks = new PostStartHooks(() => kinds, ['rbac/bootstrap-roles']);
    const health = endpoints(hooks);
    let isReady = false;
    void hooks.whenCompleted().then(() => {
      isReady = true;
    });
    for (const name of others) await hooks.run(name, Promise.resolve());
    for (const endpoint of ['healthz', 'livez', 'readyz']) {
      const { code, text } = await answer(health, `/${endpoint}`);
      expect(code).toBe(500);
      expect(text.split('\n').filter((line) => line.startsWith('[-]'))).toEqual([
        '[-]poststarthook/start-system-namespaces-controller failed: reason withheld',
        '[-]poststarthook/rbac/bootstrap-roles failed: reason withheld',
        '[-]poststarthook/scheduling/bootstrap-system-priority-classes failed: reason withheld',
        '[-]poststarthook/bootstrap-controller failed: reason withheld',
      ]);
    }
    const one = '/livez/poststarthook/scheduling/bootstrap-system-priority-classes';
    expect((await answer(health, one)).code).toBe(500);
    for (const name of ['namespaces', 'priorityClasses', 'bootstrap'] as const) await hooks.run(name, Promise.resolve());
    expect(await answer(health, one)).toEqual({ code: 200, text: 'ok' });
    expect((await answer(health, '/readyz/poststarthook/rbac/bootstrap-roles')).code).toBe(500);
    expect(await answer(health, '/readyz?exclude=poststarthook/rbac/bootstrap-roles')).toEqual({ code: 200, text: 'ok' });
    expect(isReady).toBe(false);
    await hooks.runPluginHook('rbac/bootstrap-roles', Promise.resolve());
    expect(await answer(health, '/livez')).toEqual({ code: 200, text: 'ok' });
    expect(isReady).toBe(true);
  });

  it('that have failed remain unhealthy', async () => {
    const hooks = new PostStartHooks(() => kinds);
    await expect(hooks.run('bootstrap', Promise.reject(new Error('no storage')))).rejects.toThrow('no storage');
    expect((await answer(endpoints(hooks), '/readyz')).code).toBe(500);
  });

  it('are omitted if their kinds are not served', () => {
    const hooks = new PostStartHooks(() => kinds.filter(({ resource }) => resource !== 'servicecidrs' && resource !== 'flowschemas'));
    expect(hooks.checks().map(({ name }) => name)).not.toContain('poststarthook/start-kubernetes-service-cidr-controller');
    expect(hooks.checks().some(({ name }) => name.includes('fairness'))).toBe(false);
    expect(hooks.checks().map(({ name }) => name)).toContain('autoregister-completion');
  });
});
