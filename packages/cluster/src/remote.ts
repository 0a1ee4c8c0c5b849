import { httpClient, type HttpClient } from '@oarlock/client/http-client';
import { loadKubeconfig } from '@oarlock/client/kubeconfig';
import type { ClusterKeys } from '@oarlock/spi/cluster';
import { readKeys } from './keys.ts';
import { version } from './version.ts';

export interface RemoteAccess {
  readonly client: HttpClient;
  readonly server: string;
  /** PEM of what the server's certificate is verified with; '' when the kubeconfig names nothing. */
  readonly ca: string;
  close(): void;
}

/** Reaches an API server as a kubeconfig says; `server` replaces the address it names. @throws KubeconfigError */
export async function remoteAccess(kubeconfigFile: string, server?: string): Promise<RemoteAccess> {
  const config = await loadKubeconfig(kubeconfigFile, { environment: process.env });
  const options = { ...config.options, ...(server !== undefined && { server }), userAgent: `oarlock/${version}` };
  const client = httpClient(options);
  return { client, server: options.server, ca: options.ca ?? '', close: () => client.close() };
}

/** As `remoteAccess`, for a process that runs roles: with the cluster's keys, as far as they are in `pki`. */
export async function remoteProcess(
  kubeconfigFile: string,
  { server, pki }: { readonly server?: string; readonly pki: string },
): Promise<RemoteAccess & { readonly keys: ClusterKeys }> {
  const access = await remoteAccess(kubeconfigFile, server);
  return { ...access, keys: await readKeys(pki, access.ca) };
}
