import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import type { ClusterFile } from '@oarlock/cluster/cluster-file/cluster-file';
import type { RunningCluster } from '@oarlock/cluster/run';
import { services } from '@oarlock/api/resources';
import type { PublishedPort } from './host-relay.ts';
import { gatewayAddress } from './node-address.ts';
import { publishedPorts } from './published-services.ts';

/** The variable with the port of the API server, for the process in the namespaces of a node. */
export const insideVariable = 'OARLOCK_NODE_PORT';

const watcher = { name: 'system:oarlock:published-ports', groups: ['system:masters', 'system:authenticated'] };

/** Messages to the process outside of the namespaces. */
export type InsideMessage =
  | { readonly ready: string; readonly warning?: never; readonly published?: never }
  | { readonly warning: string; readonly ready?: never; readonly published?: never }
  | { readonly published: readonly PublishedPort[]; readonly ready?: never; readonly warning?: never };

/** Addresses that include the one in the kubeconfig, 127.0.0.1. */
export const localAddresses: ReadonlySet<string> = new Set(['0.0.0.0', '127.0.0.1']);

/**
 * Returns the file as it applies inside: the API server listens on all addresses of the node, and the host publishes the address that the file names. The
 * gateway stands for the loopback address of the host, to which an API server proxies no request: objects and nodes could name it.
 */
export function fileInside(file: ClusterFile): ClusterFile {
  const { server, settings } = file.spec;
  const neverProxied = [gatewayAddress, ...((settings.apiserver?.['neverProxied'] as readonly string[] | undefined) ?? [])];
  const names = localAddresses.has(server.address) ? server.names : [...server.names, server.address];
  return {
    ...file,
    spec: {
      ...file.spec,
      server: { ...server, address: '0.0.0.0', names },
      settings: { ...settings, apiserver: { ...settings.apiserver, neverProxied } },
    },
  };
}

/** Sends the published ports of Services whenever they change. Returns a function that stops it. */
export function sendPublishedPorts(running: RunningCluster, send: (message: InsideMessage) => void): () => Promise<void> {
  const informers = new SharedInformerFactory({ client: running.clientAs(watcher) });
  const informer = informers.forResource(services);
  let last = '';
  const update = () => {
    const published = publishedPorts(informer.list());
    const text = JSON.stringify(published);
    if (text === last) return;
    last = text;
    send({ published });
  };
  informer.addEventHandler({ onAdd: update, onUpdate: update, onDelete: update });
  informers.start();
  return async () => informers.stop();
}
