import { httpClient, type HttpClient } from '@oarlock/client/http-client';
import { loadKubeconfig } from '@oarlock/client/kubeconfig';
import type { ClusterKeys } from '@oarlock/spi/cluster';
import { version } from './version.ts';

export interface RemoteAccess {
  readonly client: HttpClient;
  readonly server: string;
  /** What a process without the cluster's CA key can do with keys: trust, nothing more. */
  readonly keys: ClusterKeys;
  close(): void;
}

const unsigned = (): Promise<never> => Promise.reject(new Error("this process does not hold the key of the cluster's CA"));

/** Reaches an API server as a kubeconfig says; `server` replaces the address it names. @throws KubeconfigError */
export async function remoteAccess(kubeconfigFile: string, server?: string): Promise<RemoteAccess> {
  const config = await loadKubeconfig(kubeconfigFile);
  const options = { ...config.options, ...(server !== undefined && { server }), userAgent: `oarlock/${version}` };
  const client = httpClient(options);
  return {
    client,
    server: options.server,
    close: () => client.close(),
    keys: {
      caBundle: options.ca ?? '',
      issue: unsigned,
      sign: unsigned,
      serviceAccount: { issuer: '', signingKey: '', verifyingKeys: [] },
    },
  };
}
