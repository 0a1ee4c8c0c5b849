import { join } from 'node:path';
import { httpClient, type HttpClient } from '@oarlock/client/http/client';
import { ServerList } from '@oarlock/client/http/server-list';
import { loadKubeconfig } from '@oarlock/client/kubeconfig';
import { ServiceAccountCredentials } from '@oarlock/client/auth/service-account-credentials';
import { RequestMetrics } from '@oarlock/client/http/request-metrics';
import { systemClock } from '@oarlock/primitives/clock';
import type { ClusterKeys } from '@oarlock/spi/cluster';
import { Registry } from 'prom-client';
import { readKeys } from './pki/keys.ts';
import type { Component } from './identity/component.ts';
import { readDiscoveredServers } from './process/server-discovery.ts';
import { version } from './process/version.ts';

export interface RemoteAccess {
  readonly client: HttpClient;
  /** The URL of the server that the client prefers at the start. */
  readonly server: string;
  /** The servers that all clients of this access share. */
  readonly servers: ServerList;
  /** CA bundle in PEM that verifies the server; '' if the kubeconfig has none. */
  readonly ca: string;
  /** The metrics of the requests of all clients of this access. */
  readonly metrics: Registry;
  /**
   * Returns a client for a component, with the component's user agent. With `ownAccount`, the client uses a token of the component's service account,
   * which this client requests.
   */
  asComponent(part: Component, ownAccount: boolean): HttpClient;
  close(): void;
}

const accountPrefix = 'system:serviceaccount:';

export interface RemoteAccessOptions {
  /** URLs of the API servers, instead of the server of the kubeconfig. */
  readonly servers?: readonly string[] | undefined;
  /** API servers that an earlier process discovered. */
  readonly discovered?: readonly string[];
}

/** Connects to the API servers of a cluster with a kubeconfig. @throws KubeconfigError if the kubeconfig is invalid; Error if a URL is */
export async function remoteAccess(kubeconfigFile: string, { servers: urls, discovered }: RemoteAccessOptions = {}): Promise<RemoteAccess> {
  const config = await loadKubeconfig(kubeconfigFile, { environment: process.env });
  const configured = urls === undefined || urls.length === 0 ? [config.options.server] : urls;
  const servers = new ServerList(configured, { random: Math.random, ...(discovered && { discovered }) });
  const metrics = new Registry();
  const options = {
    ...config.options,
    server: servers.preferred,
    servers,
    userAgent: `oarlock/${version}`,
    metrics: new RequestMetrics(metrics),
  };
  const client = httpClient(options);
  const componentClients: HttpClient[] = [];
  const { cert: _cert, key: _key, token: _token, tokenFile: _file, credentials: _credentials, ...anonymous } = options;
  return {
    client,
    server: options.server,
    servers,
    ca: options.ca ?? '',
    metrics,
    asComponent({ identity, userAgent }, ownAccount) {
      if (!ownAccount || !identity.name.startsWith(accountPrefix)) return client.withUserAgent(userAgent);
      const [namespace = '', name = ''] = identity.name.slice(accountPrefix.length).split(':');
      // without the kubeconfig's client certificate, which would authenticate the connection as another user
      const credentials = new ServiceAccountCredentials({ client, clock: systemClock, namespace, name });
      const componentClient = httpClient({ ...anonymous, credentials, userAgent });
      componentClients.push(componentClient);
      return componentClient;
    },
    close() {
      for (const each of componentClients) each.close();
      client.close();
    },
  };
}

/** Connects as `remoteAccess` does, for a process that runs roles: also reads the discovered servers and the cluster keys of the data directory. */
export async function remoteProcess(
  kubeconfigFile: string,
  { servers, dataDir }: { readonly servers?: readonly string[] | undefined; readonly dataDir: string },
): Promise<RemoteAccess & { readonly keys: ClusterKeys }> {
  const access = await remoteAccess(kubeconfigFile, { servers, discovered: await readDiscoveredServers(dataDir) });
  return { ...access, keys: await readKeys(join(dataDir, 'pki'), access.ca) };
}
