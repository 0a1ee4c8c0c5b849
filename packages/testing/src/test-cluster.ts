import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Resource } from '@oarlock/api/resource';
import { printLogs } from '@oarlock/cli/dev/observe-planned';
import { colorsFor } from '@oarlock/cli/dev/terminal-colors';
import { ResourceDiscovery } from '@oarlock/client/resource-discovery';
import { sectionOf, insertPlugin } from '@oarlock/cluster/cluster-file/insert-plugin';
import type { ClusterFile } from '@oarlock/cluster/cluster-file/cluster-file';
import { clusterSchema, type ClusterDocument, type HostingSpec, type RoleName } from '@oarlock/cluster/cluster-file/cluster-schema';
import { adminKubeconfig } from '@oarlock/cluster/process/process-state';
import { run } from '@oarlock/cluster/run';
import type { Clock } from '@oarlock/primitives/clock';
import type { Plugin } from '@oarlock/kernel/plugin';
import type { Client, Informers } from '@oarlock/spi/client';
import { Client as ClientSlot, Informers as InformersSlot } from '@oarlock/spi/client';

/** A plugin with its config and its hosting (isolation, timeout, failure policy). */
export interface TestPlugin extends HostingSpec {
  readonly plugin: Plugin;
  readonly config?: unknown;
  readonly name?: string;
}

export interface StartClusterOptions {
  /** Plugins in addition to the default ones, each inserted at its position in the chain of its slot. */
  readonly plugins?: readonly (Plugin | TestPlugin)[];
  /** Number of simulated nodes, whose pods run on a clock. Default: 0. */
  readonly nodes?: number;
  /** The `spec` of a cluster.yaml. Default: API server, controllers and scheduler; storage in memory. */
  readonly spec?: ClusterDocument['spec'];
  readonly roles?: readonly RoleName[];
  readonly clock?: Clock;
  /** Receives the logs of `plugins` and the failed reconciles of their controllers, with the plugin's name. Default: stderr. */
  print?(text: string): void;
}

export interface TestCluster extends AsyncDisposable {
  /** URL of the API server, `https://127.0.0.1:<port>`. */
  readonly server: string;
  /** Path of a kubeconfig file. */
  readonly kubeconfig: string;
  /** A client with the permissions of `system:masters` that does not use a socket. */
  readonly client: Client;
  readonly informers: Informers;
  /** What `oarlock up` would print as warnings, such as rules of an admission plugin that match no request. */
  readonly warnings: readonly string[];
  /** Resolves when the API server serves a resource, such as one whose definition a plugin installs. Rejects after 60 s. */
  whenServed(resource: Resource): Promise<void>;
  /** Returns a client of another user: `as('ada', 'developers')`. */
  as(user: string, ...groups: readonly string[]): Client;
  stop(): Promise<void>;
}

const servedTimeoutMs = 60_000;
const rolesByDefault: readonly RoleName[] = ['apiserver', 'controllers', 'scheduler'];

/** Starts a cluster as `startCluster` does, with the modules from which this module was loaded. */
export async function startTestCluster(options: StartClusterOptions = {}): Promise<TestCluster> {
  const { plugins = [], nodes = 0, roles = rolesByDefault, clock, print = console.error } = options;
  const testPlugins = plugins.map((each): TestPlugin => ('plugin' in each ? each : { plugin: each }));
  const file = fileOf(options, nodes > 0 ? [...roles, 'kubelet'] : roles, testPlugins);
  const dataDir = await mkdtemp(join(tmpdir(), 'oarlock-test-'));
  try {
    const known = new Map(testPlugins.map(({ plugin }) => [plugin.id, plugin]));
    const running = await run({
      ...{ dataDir, port: 0, file, knownPlugins: known },
      ...(known.size > 0 && {
        mapPlugin: (planned) => (known.has(planned.plugin.id) ? printLogs(planned, { paint: colorsFor(false), print }) : planned),
      }),
      ...(clock && { clock }),
    });
    const { host } = running.composition;
    const stop = async () => {
      await running.stop();
      await rm(dataDir, { recursive: true, force: true });
    };
    const client = host.get(ClientSlot);
    return {
      server: running.server,
      kubeconfig: adminKubeconfig(dataDir),
      client,
      informers: host.get(InformersSlot),
      warnings: running.warnings,
      whenServed: (resource) => new ResourceDiscovery(client).whenServed([resource], AbortSignal.timeout(servedTimeoutMs)),
      as: (name, ...groups) => running.clientAs({ name, groups: [...groups, 'system:authenticated'] }),
      stop,
      [Symbol.asyncDispose]: stop,
    };
  } catch (error) {
    await rm(dataDir, { recursive: true, force: true });
    throw error;
  }
}

function fileOf({ spec, nodes = 0 }: StartClusterOptions, roles: readonly RoleName[], plugins: readonly TestPlugin[]): ClusterFile {
  const nodesOf = { runtimes: ['runtime-simulated'], settings: { kubelet: { nodeName: 'node', count: nodes, port: 0 } } };
  const document = clusterSchema.parse(
    {
      apiVersion: 'oarlock.dev/v1',
      kind: 'Cluster',
      metadata: { name: 'test' },
      spec: { roles: [...roles], storage: 'storage-memory', ...(nodes > 0 && nodesOf), ...spec },
    },
    { jitless: true },
  );
  let whole = document.spec;
  for (const { plugin, config = {}, ...placement } of plugins) {
    const section = sectionOf(plugin);
    if (section === undefined) throw new Error(`cluster.yaml has no section for ${plugin.id}, which provides ${plugin.provides.id}`);
    whole = insertPlugin(whole, section, { use: plugin.id, config: config as Record<string, unknown>, ...placement });
  }
  return { name: 'test', spec: whole, locate: () => undefined };
}
