import { serviceAccounts } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { describe, expect, it } from 'vitest';
import { TokenManager } from '../../src/api-objects/token-manager.ts';

describe('TokenManager', () => {
  it('returns the previous token while no new one is issued, until it expires', async () => {
    const clock = new FakeClock();
    const api = memoryApi({ clock });
    api.seed(serviceAccounts, { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { namespace: 'shop', name: 'a' } });
    const tokens = new TokenManager(api.client(), clock);
    const pod: Pod = { metadata: { namespace: 'shop', name: 'web', uid: 'u-1' }, spec: { containers: [], serviceAccountName: 'a' } };
    const request = { audience: 'registry', expirationSeconds: 600 };
    const { token, expirationTimestamp } = await tokens.tokenWithExpiry(pod, request);
    const lifetime = Date.parse(expirationTimestamp) - clock.now();
    api.failNext({ subresource: 'token' }, new Error('unreachable'), 2);
    await clock.advance(lifetime - 1000);
    expect(await tokens.token(pod, request)).toBe(token);
    await clock.advance(60_000);
    await expect(tokens.token(pod, request)).rejects.toThrow('failed to fetch token: unreachable');
    expect(await tokens.token(pod, request)).not.toBe(token);
    await api.stop();
  });
});
