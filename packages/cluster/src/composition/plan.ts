import type { Placement } from '@oarlock/kernel/placement';
import type { Plugin } from '@oarlock/kernel/plugin';
import type { ClusterFacts } from '@oarlock/spi/cluster';
import type { ClusterFile } from '../config/cluster-file.ts';
import type { PlacementSpec, RoleName } from '../config/cluster-schema.ts';
import type { JoinResponse } from '../paths/join-path.ts';

/** The plugins of a process, loaded and configured; none of them is created. */
export interface Plan {
  readonly file: ClusterFile;
  readonly roles: readonly RoleName[];
  readonly facts: ClusterFacts;
  readonly nodeName: string;
  readonly plugins: readonly PlannedPlugin[];
}

export interface PlannedPlugin extends Pick<Placement, 'decorate' | 'makeSwappable'> {
  readonly plugin: Plugin;
  readonly name: string;
  readonly config: unknown;
  readonly path: string;
  readonly segments: readonly (string | number)[];
  /** What is needed to load the plugin again; undefined for built-in plugins. */
  readonly origin?: PluginOrigin;
  /** Repeats on another version what was done to the plugin after it was loaded. */
  readonly adapt?: (plugin: Plugin) => Plugin;
}

export interface PluginOrigin {
  readonly placement: PlacementSpec;
  /** The source file, if the plugin was loaded from one. */
  readonly source?: string;
  readonly inputs?: readonly string[];
}

/** Command line options of a plan, which override its file. */
export interface PlanOptions {
  readonly roles?: readonly RoleName[];
  readonly port?: number;
  readonly nodeName?: string;
  /** Facts of the cluster and certificate files of a node that joined. */
  readonly joined?: JoinedNode;
  /** URL of the API server of another process. */
  readonly server?: string;
  /** Changes how a plugin is placed: `oarlock dev` observes and replaces plugins. */
  readonly mapPlugin?: (planned: PlannedPlugin) => PlannedPlugin;
  /** Plugins that are not loaded, by their name in `use`; for tests. */
  readonly knownPlugins?: ReadonlyMap<string, Plugin>;
}

export interface JoinedNode {
  readonly cluster: JoinResponse['cluster'];
  readonly server: string;
  readonly certificateFile: string;
  readonly keyFile: string;
  /** Kubeconfig whose client certificate renews the files; undefined if another program renews them. */
  readonly kubeconfigFile?: string;
}
