import { events } from '@oarlock/api/resources';
import { admissionContract, admissionRequest } from '@oarlock/spi/admission/contract';
import { openAdmission } from '@oarlock/testing/open-admission';
import { describe, expect, it } from 'vitest';
import plugin from '../src/plugin.ts';

const event = (namespace: string, name = 'e') => ({ metadata: { namespace, name }, involvedObject: { kind: 'Pod', name } });

admissionContract('admission-event-rate-limit', async () => ({
  plugin: (await openAdmission(plugin, { config: { limits: [{ type: 'Namespace', qps: 1000, burst: 10_000 }] } })).plugin,
  cases: [{ title: 'within the limit', request: admissionRequest('CREATE', events, event('d')), expected: 'allowed' }],
}));

describe('admission-event-rate-limit', () => {
  it('rejects events over the limit of their key until the bucket refills', async () => {
    const {
      plugin: limiter,
      clock,
      dispose,
    } = await openAdmission(plugin, { config: { limits: [{ type: 'Namespace', qps: 1, burst: 2, cacheSize: 2 }] } });
    const send = (namespace: string, dryRun = false) =>
      limiter.validate?.(admissionRequest('CREATE', events, event(namespace), { dryRun }));
    expect([send('a'), send('a')]).toEqual([{ allowed: true }, { allowed: true }]);
    expect(send('a')).toEqual({ allowed: false, reason: 'TooManyRequests', message: 'limit reached on type Namespace for key a' });
    expect(send('a', true)).toEqual({ allowed: true });
    expect(send('b')).toEqual({ allowed: true });
    await clock.advance(1000);
    expect(send('a')).toEqual({ allowed: true });
    expect(send('a')).toMatchObject({ allowed: false });
    await dispose();
  });

  it('counts by user, and by source and object', async () => {
    const { plugin: limiter, dispose } = await openAdmission(plugin, {
      config: {
        limits: [
          { type: 'User', qps: 1, burst: 2 },
          { type: 'SourceAndObject', qps: 1, burst: 1 },
        ],
      },
    });
    const send = (user: string, name: string) =>
      limiter.validate?.(admissionRequest('CREATE', events, event('a', name), { identity: { name: user, groups: [] } }));
    expect(send('ada', 'p')).toEqual({ allowed: true });
    expect(send('ada', 'p')).toMatchObject({ message: 'limit reached on type SourceAndObject for key Podp' });
    expect(send('ada', 'q')).toMatchObject({ message: 'limit reached on type User for key ada' });
    await dispose();
  });
});
