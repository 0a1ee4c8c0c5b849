import { configMaps, deployments } from '@oarlock/api/resources';
import { failure } from '@oarlock/api/status';
import { PluginHealth } from '@oarlock/kernel/plugin-health';
import { silentLogger } from '@oarlock/primitives/logger';
import type { Client } from '@oarlock/spi/client';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { describe, expect, it } from 'vitest';
import { MissingRules, reportMissingRules } from '../../src/identity/missing-rules.ts';

const denied = (verb: string, resource: string, group = '') =>
  failure(
    'Forbidden',
    `${resource} is forbidden: User "system:serviceaccount:kube-system:controller-x" cannot ${verb} resource "${resource}" in API group "${group}" at the cluster scope`,
  );

describe('MissingRules', () => {
  it('adds the missing permissions to what the plugin declares, lists and watches together', () => {
    const missing = new MissingRules({ reads: 'pods', rules: 'create | core | events;' });
    const errors = [denied('list', 'configmaps'), denied('watch', 'configmaps'), denied('patch', 'deployments/scale', 'apps')];
    expect(errors.map((error) => missing.add(error))).toEqual([true, false, true]);
    expect(missing.declaration).toBe(
      "declares: { reads: 'pods', rules: 'create | core | events; list,watch | core | configmaps; patch | apps | deployments/scale' }",
    );
  });

  it('ignores rejections of admission plugins, other errors, and paths', () => {
    const missing = new MissingRules(undefined);
    const others = [
      failure('Forbidden', 'pods "a" is forbidden: exceeded quota: q'),
      failure('Conflict', 'User "a" cannot list resource "pods" in API group ""'),
      failure('Forbidden', 'forbidden: User "a" cannot get path "/metrics"'),
      new Error('User "a" cannot list resource "pods" in API group ""'),
    ];
    for (const error of others) expect(missing.add(error), error.message).toBe(false);
    expect(missing.declaration).toBe("declares: { rules: '' }");
  });

  it('collects a bounded number of resources', () => {
    const missing = new MissingRules(undefined);
    for (let index = 0; index < 1_000; index++) missing.add(denied('get', `kind${index}s`));
    expect(missing.declaration.split(';')).toHaveLength(64);
  });
});

describe('reportMissingRules', () => {
  it('logs each permission once and makes the plugin unhealthy with every denial, also for watches and in other spans', async () => {
    const warnings: string[] = [];
    const log = { ...silentLogger, warn: (_: object, text: string) => void warnings.push(text) };
    const health = new PluginHealth({
      ...{ name: 'controller-x', slot: 'controller/v1', clock: new FakeClock(), log },
      stopping: new AbortController().signal,
    });
    const denying = {
      list: () => Promise.reject(denied('list', 'configmaps')),
      get: () => Promise.reject(denied('get', 'deployments', 'apps')),
      // oxlint-disable-next-line require-yield -- the watch is rejected before its first event
      async *watch() {
        throw denied('watch', 'configmaps');
      },
      withSpanContext: () => denying,
    } as unknown as Client;
    const client = health.run(() => reportMissingRules(denying, { plugin: {}, log }));
    await expect(client.list(configMaps)).rejects.toThrow('cannot list');
    const watch = client.watch(configMaps, { signal: new AbortController().signal })[Symbol.asyncIterator]();
    await expect(watch.next()).rejects.toThrow('cannot watch');
    await expect(client.withSpanContext(undefined).get(deployments, { namespace: 'a', name: 'b' })).rejects.toThrow('cannot get');
    const remedies = ["rules: 'list,watch | core | configmaps'", "rules: 'list,watch | core | configmaps; get | apps | deployments'"];
    expect(warnings).toEqual(remedies.map((text) => expect.stringContaining(`\`declares: { ${text} }\` and restart`) as string));
    expect(health.view()).toMatchObject({
      healthy: false,
      reason: expect.stringContaining(remedies[1] ?? '') as string,
      faults: { denied: 3 },
    });
  });
});
