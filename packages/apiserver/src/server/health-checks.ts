import type { PluginHealthView } from '@oarlock/kernel/plugin-health';
import type { ProcessView } from '@oarlock/spi/process';
import type { Health, Role } from '@oarlock/spi/role';
import type { StorageDriver } from '@oarlock/spi/storage';
import type { WorkerHealth } from '@oarlock/spi/workers';
import { ping, type HealthCheck } from '../handler-chain/health-endpoints.ts';
import type { PostStartHooks } from '../handler-chain/post-start-hooks.ts';
import type { Component } from '../endpoints/handlers/subresources/component-statuses.ts';

const storageKey = '/oarlock/health';
export const healthy: Health = { healthy: true };
export const unhealthy = (reason: string): Health => ({ healthy: false, reason });

export interface HealthInput {
  readonly storage: StorageDriver;
  /** The roles of the process; undefined if they are not known. */
  readonly process: ProcessView | undefined;
}

async function checkStorage(storage: StorageDriver): Promise<Health> {
  await storage.get(storageKey);
  return healthy;
}

/** Also fails while the storage rejects commits, for example on a full disk: reads still work, so that the server stays alive. */
async function checkStorageReadiness(storage: StorageDriver): Promise<Health> {
  const health = storage.checkHealth?.() ?? healthy;
  return health.healthy ? checkStorage(storage) : health;
}

/** Returns the components that componentstatuses reports: storage, and the control plane components in this process. */
export function controlPlaneComponents({ storage, process }: HealthInput): readonly Component[] {
  const roles = process?.roles() ?? [];
  return [
    { name: 'scheduler', role: 'scheduler' },
    { name: 'controller-manager', role: 'controllers' },
  ]
    .flatMap(({ name, role }): Component[] => {
      const found = roles.find((candidate) => candidate.name === role);
      return found === undefined ? [] : [{ name, check: () => found.checkHealth() }];
    })
    .concat({ name: 'etcd-0', check: () => checkStorageReadiness(storage) });
}

export interface ServerHealth extends HealthInput {
  readonly server: Role;
  /** The other processes that serve the API with this one. */
  readonly workers?: readonly WorkerHealth[];
  readonly postStartHooks: PostStartHooks;
  checkCache(): Health;
  /** Returns the number of stored values that no key of this server decrypts. */
  undecryptableValues(): number;
  checkShutdown(): Health;
}

/** Returns the health checks of the server. They have upstream's names, by which clients request or exclude them. */
export function serverHealthChecks(health: ServerHealth): readonly HealthCheck[] {
  const { storage, process, server, postStartHooks } = health;
  const otherRoles = (process?.roles() ?? []).filter((role) => role !== server && role.name !== server.name);
  return [
    ping,
    ...(process?.checkLog ? [{ name: 'log', live: true, ready: true, check: () => process.checkLog?.() ?? healthy }] : []),
    { name: 'etcd', live: true, ready: true, check: () => checkStorage(storage) },
    { name: 'etcd-readiness', live: false, ready: true, check: () => checkStorageReadiness(storage) },
    ...encryptionChecks(health.undecryptableValues()),
    { name: 'informer-sync', live: false, ready: true, check: () => health.checkCache() },
    ...postStartHooks.checks(),
    { name: 'shutdown', live: false, ready: true, check: () => health.checkShutdown() },
    ...(health.workers ?? []).map(workerCheck),
    ...(process?.pluginHealth?.() ?? []).map(pluginCheck),
    ...otherRoles.map((role): HealthCheck => ({ name: role.name, live: true, ready: false, check: () => role.checkHealth() })),
  ];
}

/** An unhealthy plugin does not make the server unready: its faults fail only what needs the plugin. */
function pluginCheck(plugin: PluginHealthView): HealthCheck {
  const health = plugin.healthy ? healthy : unhealthy(plugin.reason ?? '');
  return { name: `plugin-${plugin.name}`, live: false, ready: true, isInformational: true, check: () => health };
}

/** A worker that has ended does not make the server unready: the other processes serve its clients. */
const workerCheck = ({ name, health }: WorkerHealth): HealthCheck => ({
  name,
  live: false,
  ready: true,
  isInformational: true,
  check: () => health,
});

/** Returns a failing check if there are values that this server cannot decrypt: another server may have their keys. */
function encryptionChecks(count: number): readonly HealthCheck[] {
  if (count === 0) return [];
  const reason = `no encryption key of this API server decrypts ${count} stored ${count === 1 ? 'value' : 'values'}`;
  return [{ name: 'encryption', live: false, ready: true, check: () => unhealthy(reason) }];
}
