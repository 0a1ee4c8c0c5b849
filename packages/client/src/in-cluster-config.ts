import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { HttpClientOptions } from './http/client.ts';

const mountedFolder = '/var/run/secrets/kubernetes.io/serviceaccount';

export interface InClusterConfig {
  readonly options: Pick<HttpClientOptions, 'server' | 'ca' | 'tokenFile'>;
  /** Namespace of the pod. */
  readonly namespace: string;
}

/** Returns access with the service account that the kubelet mounts into a pod. @throws Error if the files of the service account are absent */
export async function inClusterConfig(folder = mountedFolder): Promise<InClusterConfig> {
  const [ca, namespace] = await Promise.all([readFile(join(folder, 'ca.crt'), 'utf8'), readFile(join(folder, 'namespace'), 'utf8')]);
  return { options: { server: 'https://kubernetes.default.svc', ca, tokenFile: join(folder, 'token') }, namespace: namespace.trim() };
}
