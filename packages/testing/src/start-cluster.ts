import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { clusterSchema, type ClusterDocument, type RoleName } from '@oarlock/cluster/cluster-schema';
import { adminKubeconfig } from '@oarlock/cluster/process-state';
import { run } from '@oarlock/cluster/run';
import type { Clock } from '@oarlock/kernel/clock';
import type { Client, Informers } from '@oarlock/spi/client';
import { Client as ClientSlot, Informers as InformersSlot } from '@oarlock/spi/client';

export interface StartClusterOptions {
  /** As the `spec` of a cluster.yaml. Default: API server, controllers and scheduler in memory, no node. */
  readonly spec?: ClusterDocument['spec'];
  readonly roles?: readonly RoleName[];
  readonly clock?: Clock;
}

export interface TestCluster {
  /** `https://127.0.0.1:<port>`. */
  readonly server: string;
  readonly kubeconfig: string;
  /** As `system:masters`, without a socket. */
  readonly client: Client;
  readonly informers: Informers;
  stop(): Promise<void>;
}

/** A whole cluster in this process, on a free port and in a directory that goes with it: for tests of plugins. */
export async function startCluster({
  spec,
  roles = ['apiserver', 'controllers', 'scheduler'],
  clock,
}: StartClusterOptions = {}): Promise<TestCluster> {
  const dataDir = await mkdtemp(join(tmpdir(), 'oarlock-test-'));
  const document = clusterSchema.parse({
    apiVersion: 'oarlock.dev/v1',
    kind: 'Cluster',
    metadata: { name: 'test' },
    spec: { roles: [...roles], ...spec },
  });
  try {
    const running = await run({
      dataDir,
      port: 0,
      file: { name: 'test', spec: document.spec, locate: () => undefined },
      ...(clock && { clock }),
    });
    return {
      server: running.server,
      kubeconfig: adminKubeconfig(dataDir),
      client: running.composition.host.get(ClientSlot),
      informers: running.composition.host.get(InformersSlot),
      async stop() {
        await running.stop();
        await rm(dataDir, { recursive: true, force: true });
      },
    };
  } catch (error) {
    await rm(dataDir, { recursive: true, force: true });
    throw error;
  }
}
