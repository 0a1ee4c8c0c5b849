import type { Placement } from '@oarlock/kernel/placement';
import type { Plugin } from '@oarlock/kernel/plugin';
import type { ClusterFacts, LoopbackAddresses } from '@oarlock/spi/cluster';
import type { ClusterFile } from '../cluster-file/cluster-file.ts';
import type { PlacementSpec, RoleName } from '../cluster-file/cluster-schema.ts';
import type { JoinResponse } from '../paths/join-path.ts';

/** The plugins of a process, loaded and configured, before any of them is created. */
export interface Plan {
  readonly file: ClusterFile;
  readonly roles: readonly RoleName[];
  readonly facts: ClusterFacts;
  readonly nodeName: string;
  readonly plugins: readonly PlannedPlugin[];
}

export interface PlannedPlugin extends Pick<Placement, 'decorate' | 'decorateLog' | 'limits' | 'makeSwappable'> {
  readonly plugin: Plugin;
  readonly name: string;
  readonly config: unknown;
  readonly path: string;
  readonly segments: readonly (string | number)[];
  /** The origin from which the plugin can be loaded again; undefined for built-in plugins. */
  readonly origin?: PluginOrigin;
  /** Applies to another version of the plugin the changes that were made to this version after it was loaded. */
  readonly adapt?: (plugin: Plugin) => Plugin;
}

export interface PluginOrigin {
  readonly placement: PlacementSpec;
  /** Path of the source file, if the plugin was loaded from one. */
  readonly source?: string;
  /** The specifier from which the plugin was imported. */
  readonly module?: string;
  readonly inputs?: readonly string[];
}

/** Command line options of a plan, which override the cluster file. */
export interface PlanOptions {
  readonly roles?: readonly RoleName[];
  readonly port?: number;
  readonly nodeName?: string;
  /** Chooses ports and addresses that the file leaves open and that no other cluster of this host uses. If absent, the defaults are used. */
  readonly allocate?: (request: HostRequest) => Promise<HostAddresses>;
  /** Facts of the cluster, and certificate files, of a node that joined the cluster. */
  readonly joined?: JoinedNode;
  /** URL of the API server of another process. */
  readonly server?: string;
  /** Returns a plugin in changed form; `oarlock dev` uses this to observe and replace plugins. */
  readonly mapPlugin?: (planned: PlannedPlugin) => PlannedPlugin;
  /** Further paths of the API server, which belong to the program and not to the cluster file. */
  readonly paths?: readonly Plugin[];
  /** Plugins that need not be loaded, keyed by their name in `use`; for tests. */
  readonly knownPlugins?: ReadonlyMap<string, Plugin>;
}

/** What a process is about to run, as far as its ports and addresses depend on it. */
export interface HostRequest {
  readonly file: ClusterFile;
  readonly roles: readonly RoleName[];
  /** The service CIDR that the network plugin declares. */
  readonly serviceCIDR: string | undefined;
  /** True if other processes may use the same storage. */
  readonly isShared: boolean;
}

/** Ports and addresses of this host that belong to one cluster alone. */
export interface HostAddresses {
  /** The port of the API server. */
  readonly port?: number;
  readonly kubeletPort?: number;
  readonly loopback?: LoopbackRanges;
}

export interface LoopbackRanges extends LoopbackAddresses {
  readonly serviceCIDR: string;
  readonly podCIDR: string;
}

export interface JoinedNode {
  readonly cluster: JoinResponse['cluster'];
  readonly server: string;
  readonly certificateFile: string;
  readonly keyFile: string;
  /** Kubeconfig whose client certificate is used to renew the certificate files; undefined if another program renews them. */
  readonly kubeconfigFile?: string;
}
