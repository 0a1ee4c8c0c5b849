import { AsyncLocalStorage } from 'node:async_hooks';
import { configMaps } from '@oarlock/api/resources';
import { silentLogger } from '@oarlock/primitives/logger';
import { startCluster } from '@oarlock/testing/start-cluster';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { guardProcess } from '../../src/hosting/guard-process.ts';

const watch = vi.fn(() => () => {});
afterEach(() => void vi.restoreAllMocks());
beforeEach(() => void watch.mockClear());

const guard = (limits: { readonly startMs: number; readonly stopMs: number } | undefined) => {
  const { signal } = new AbortController();
  const planned = [{ name: 'audit-log', ...(limits && { limits }) }];
  return guardProcess({ planned, hosted: () => [], log: silentLogger, signal, drainSeconds: undefined }, watch);
};

it('does nothing in a process without plugins of other authors', () => {
  const before = process.listenerCount('uncaughtException');
  guard(undefined);
  expect(watch).not.toHaveBeenCalled();
  expect(process.listenerCount('uncaughtException')).toBe(before);
});

it('handles late errors and starts the watchdog with such plugins, until it ends', () => {
  const before = process.listenerCount('uncaughtException');
  const end = guard({ startMs: 1, stopMs: 1 });
  expect(watch).toHaveBeenCalledTimes(1);
  expect(process.listenerCount('uncaughtException')).toBe(before + 1);
  end();
  expect(process.listenerCount('uncaughtException')).toBe(before);
});

it('built-in plugins run without a guard: none has an asynchronous context', async () => {
  const run = vi.spyOn(AsyncLocalStorage.prototype, 'run');
  await using cluster = await startCluster();
  await cluster.client.create(configMaps, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace: 'default', name: 'a' } });
  expect(run).not.toHaveBeenCalled();
});
