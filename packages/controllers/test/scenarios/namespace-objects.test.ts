import { namespaces, serviceAccounts } from '@oarlock/api/resources';
import { describe, expect, it } from 'vitest';
import { api, clock, names, start, useBuiltInControllers } from '../support/built-in-controllers.ts';

useBuiltInControllers();

describe('namespaces', () => {
  it('get a default service account and the CA bundle, again after their deletion', async () => {
    await start();
    await api.client().create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'd' } });
    await clock.settle();
    expect(names(serviceAccounts)).toEqual(['default']);
    await api.client().delete(serviceAccounts, { namespace: 'd', name: 'default' });
    await clock.settle();
    expect(names(serviceAccounts)).toEqual(['default']);
  });
});
