import type { ServerList } from '@oarlock/client/http/server-list';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Client, Informers } from '@oarlock/spi/client';
import type { ClusterFile } from './cluster-file/cluster-file.ts';
import { isAllowed } from './identity/service-account-credentials.ts';
import { ApiServerBalancer } from './process/api-server-balancer.ts';
import type { Cleanup } from './process/cleanups.ts';
import { discoverServers } from './process/server-discovery.ts';

export interface RemoteServersOptions {
  readonly file: ClusterFile;
  readonly dataDir: string;
  readonly client: Client;
  readonly informers: Informers;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
  readonly cleanups: Cleanup[];
}

/**
 * Keeps the list of API servers up to date with the EndpointSlice of the Service `kubernetes`, if the client's credentials permit the watch, and starts
 * the local balancer, if the cluster file has one. @throws the system error if the port of the balancer cannot be used
 */
export async function useServers(servers: ServerList, options: RemoteServersOptions): Promise<void> {
  const { file, dataDir, client, informers, clock, log, signal, cleanups } = options;
  const watchSlice = { verb: 'watch', group: 'discovery.k8s.io', resource: 'endpointslices', namespace: 'default', name: 'kubernetes' };
  if (await isAllowed(watchSlice, { client, clock, log, signal, random: Math.random }))
    cleanups.push(discoverServers({ servers, informers, dataDir, log }));
  else log.info({}, 'the user of the kubeconfig may not watch the Service kubernetes; the list of API servers stays as configured');
  const { apiServerBalancer } = file.spec;
  if (apiServerBalancer === undefined) return;
  const balancer = new ApiServerBalancer({ ...apiServerBalancer, servers, log });
  await balancer.start();
  cleanups.push(() => balancer.stop());
}
