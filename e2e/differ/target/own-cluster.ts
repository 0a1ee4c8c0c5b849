import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Cluster } from '../../harness/cluster.ts';
import type { ClusterSpec } from '../../harness/composition.ts';

export interface OwnCluster {
  readonly kubeconfig: string;
  stop(): Promise<void>;
}

/** An API server without controllers: objects change by requests only, so that answers are reproducible. */
export const apiServerSpec: ClusterSpec = { roles: ['apiserver'], storage: 'storage-memory', server: { address: '127.0.0.1' } };

/** The same with all versions of all kinds. */
export const allVersionsSpec: ClusterSpec = { ...apiServerSpec, settings: { apiserver: { runtimeConfig: { 'api/all': true } } } };

/** Starts an Oarlock cluster in a temporary directory. */
export async function startOwnCluster(spec: ClusterSpec): Promise<OwnCluster> {
  const directory = await mkdtemp(join(tmpdir(), 'oarlock-differ-'));
  const cluster = await Cluster.start({ dir: join(directory, 'cluster'), spec });
  return {
    kubeconfig: cluster.kubeconfig,
    async stop() {
      await cluster.dispose();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
