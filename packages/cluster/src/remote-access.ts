import { httpClient, type HttpClient } from '@oarlock/client/http/client';
import { loadKubeconfig } from '@oarlock/client/kubeconfig';
import { ServiceAccountCredentials } from '@oarlock/client/auth/service-account-credentials';
import { systemClock } from '@oarlock/primitives/clock';
import type { ClusterKeys } from '@oarlock/spi/cluster';
import { readKeys } from './pki/keys.ts';
import type { Component } from './identity/component.ts';
import { version } from './process/version.ts';

export interface RemoteAccess {
  readonly client: HttpClient;
  readonly server: string;
  /** CA bundle in PEM that verifies the server; '' if the kubeconfig has none. */
  readonly ca: string;
  /**
   * Returns a client for a component, with the component's user agent. With `ownAccount`, the client uses a token of the component's service account,
   * which this client requests.
   */
  asComponent(part: Component, ownAccount: boolean): HttpClient;
  close(): void;
}

const accountPrefix = 'system:serviceaccount:';

/** Connects to an API server with a kubeconfig; `server` overrides the server's address. @throws KubeconfigError if the kubeconfig is invalid */
export async function remoteAccess(kubeconfigFile: string, server?: string): Promise<RemoteAccess> {
  const config = await loadKubeconfig(kubeconfigFile, { environment: process.env });
  const options = { ...config.options, ...(server !== undefined && { server }), userAgent: `oarlock/${version}` };
  const client = httpClient(options);
  const componentClients: HttpClient[] = [];
  const { cert: _cert, key: _key, token: _token, tokenFile: _file, credentials: _credentials, ...anonymous } = options;
  return {
    client,
    server: options.server,
    ca: options.ca ?? '',
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

/** Connects as `remoteAccess` does, for a process that runs roles: also reads the cluster keys in the directory `pki`. */
export async function remoteProcess(
  kubeconfigFile: string,
  { server, pki }: { readonly server?: string; readonly pki: string },
): Promise<RemoteAccess & { readonly keys: ClusterKeys }> {
  const access = await remoteAccess(kubeconfigFile, server);
  return { ...access, keys: await readKeys(pki, access.ca) };
}
