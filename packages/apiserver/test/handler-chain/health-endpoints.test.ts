import { HealthEndpoints } from '@oarlock/apiserver/handler-chain/health-endpoints';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { describe, expect, it } from 'vitest';

const noQuery = { first: {}, all: () => [] };

describe('health endpoints', () => {
  it('fail within two seconds if a check does not answer, as without a quorum of the store', async () => {
    const clock = new FakeClock();
    const failures: string[] = [];
    const endpoints = new HealthEndpoints({
      checks: () => [{ name: 'etcd', live: true, ready: true, check: () => new Promise<never>(() => {}) }],
      clock,
      onFailure: (name, reason) => failures.push(`${name}: ${reason}`),
    });
    const answer = endpoints.answer('/readyz', noQuery);
    await clock.advance(2000);
    expect(await answer).toEqual({ code: 500, text: '[-]etcd failed: reason withheld\nreadyz check failed\n' });
    expect(failures).toEqual(['etcd: no answer within 1500 ms']);
  });
});
