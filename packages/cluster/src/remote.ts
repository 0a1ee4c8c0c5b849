import { httpClient, type HttpClient } from '@oarlock/client/http-client';
import { loadKubeconfig } from '@oarlock/client/kubeconfig';
import { ServiceAccountCredentials } from '@oarlock/client/service-account-credentials';
import { systemClock } from '@oarlock/kernel/clock';
import type { ClusterKeys } from '@oarlock/spi/cluster';
import { readKeys } from './keys.ts';
import type { Part } from './parts.ts';
import { version } from './version.ts';

export interface RemoteAccess {
  readonly client: HttpClient;
  readonly server: string;
  /** PEM of what the server's certificate is verified with; '' when the kubeconfig names nothing. */
  readonly ca: string;
  /** As a part of this process: under its name and, if `ownAccount`, with a token of its service account, which this client asks for. */
  as(part: Part, ownAccount: boolean): HttpClient;
  close(): void;
}

const accountPrefix = 'system:serviceaccount:';

/** Reaches an API server as a kubeconfig says; `server` replaces the address it names. @throws KubeconfigError */
export async function remoteAccess(kubeconfigFile: string, server?: string): Promise<RemoteAccess> {
  const config = await loadKubeconfig(kubeconfigFile, { environment: process.env });
  const options = { ...config.options, ...(server !== undefined && { server }), userAgent: `oarlock/${version}` };
  const client = httpClient(options);
  const own: HttpClient[] = [];
  const { cert: _cert, key: _key, token: _token, tokenFile: _file, credentials: _credentials, ...open } = options;
  return {
    client,
    server: options.server,
    ca: options.ca ?? '',
    as({ identity, userAgent }, ownAccount) {
      if (!ownAccount || !identity.name.startsWith(accountPrefix)) return client.as(userAgent);
      const [namespace = '', name = ''] = identity.name.slice(accountPrefix.length).split(':');
      // over a connection of its own: on that of the kubeconfig a client certificate may say who asks
      const credentials = new ServiceAccountCredentials({ client, clock: systemClock, namespace, name });
      const made = httpClient({ ...open, credentials, userAgent });
      own.push(made);
      return made;
    },
    close() {
      for (const each of own) each.close();
      client.close();
    },
  };
}

/** As `remoteAccess`, for a process that runs roles: with the cluster's keys, as far as they are in `pki`. */
export async function remoteProcess(
  kubeconfigFile: string,
  { server, pki }: { readonly server?: string; readonly pki: string },
): Promise<RemoteAccess & { readonly keys: ClusterKeys }> {
  const access = await remoteAccess(kubeconfigFile, server);
  return { ...access, keys: await readKeys(pki, access.ca) };
}
