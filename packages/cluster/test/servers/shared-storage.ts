import { MemoryStorage } from '@oarlock/storage-memory/memory-storage';
import type { Clock } from '@oarlock/primitives/clock';
import { Storage, type StorageDriver } from '@oarlock/spi/storage';
import type { Plugin } from '@oarlock/kernel/plugin';
import { z } from 'zod';
import { parseClusterFile } from '../../src/cluster-file/cluster-file.ts';
import { createPlan } from '../../src/composition/create-plan.ts';
import type { Plan } from '../../src/composition/plan.ts';

/** A memory storage that declares what etcd does: it is durable, and others may write it. */
export function sharedStorage(clock?: Clock): StorageDriver {
  const inner = new MemoryStorage(clock === undefined ? {} : { clock });
  return {
    traits: { ...inner.traits, durable: true, shared: true },
    get: (key, options) => inner.get(key, options),
    range: (options) => inner.range(options),
    commit: (writes, expect) => inner.commit(writes, expect),
    watch: (prefix, options) => inner.watch(prefix, options),
    requestProgress: () => inner.requestProgress(),
    compact: (revision) => inner.compact(revision),
  };
}

/** Returns the plan of a server whose storage plugin provides `storage`. */
export function planWith(
  storage: StorageDriver,
  { shared = true, spec = {} }: { readonly shared?: boolean; readonly spec?: object } = {},
): Promise<Plan> {
  const plugin = Storage.plugin({
    id: 'storage-test',
    declares: { durable: true, shared },
    config: z.strictObject({}),
    create: () => storage,
  });
  const file = parseClusterFile(
    JSON.stringify({
      apiVersion: 'oarlock.dev/v1',
      kind: 'Cluster',
      metadata: { name: 'tested' },
      spec: { roles: ['apiserver', 'controllers', 'scheduler'], storage: 'storage-test', ...spec },
    }),
    'cluster.yaml',
  );
  return createPlan(file, { knownPlugins: new Map<string, Plugin>([['storage-test', plugin]]), nodeName: 'server-a' });
}
