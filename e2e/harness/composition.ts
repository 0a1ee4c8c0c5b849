import { randomInt } from 'node:crypto';
import { networkInterfaces } from 'node:os';

/** The fields of a cluster.yaml's `spec` that tests set. */
export interface ClusterSpec {
  readonly rootless?: boolean;
  readonly roles?: readonly string[];
  readonly networking?: { readonly podCIDRs?: readonly string[]; readonly serviceCIDRs?: readonly string[]; readonly nodePorts?: string };
  readonly server?: { readonly address?: string; readonly names?: readonly string[] };
  readonly authn?: readonly PluginUse[];
  readonly storage?: PluginUse;
  readonly runtimes?: readonly PluginUse[];
  readonly network?: PluginUse;
  readonly volumes?: readonly PluginUse[];
  readonly policy?: PluginUse;
  readonly paths?: readonly PluginUse[];
  readonly audit?: readonly PluginUse[];
  readonly auditPolicy?: string;
  readonly proxy?: PluginUse;
  readonly cloud?: PluginUse;
  readonly controllers?: readonly PluginUse[];
  readonly dns?: PluginUse;
  readonly settings?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  readonly tracing?: Readonly<Record<string, unknown>>;
  readonly log?: { readonly level: string };
}
export type PluginUse = string | { readonly use: string; readonly name?: string; readonly config?: Readonly<Record<string, unknown>> };

export type StorageName = 'memory' | 'embedded' | 'etcd';
export type RuntimeName = 'containerd' | 'docker' | 'oci' | 'process' | 'simulated';
export type NetworkName = 'bridge' | 'host' | 'calico';

export interface CompositionOptions {
  readonly storage: StorageName;
  readonly runtime: RuntimeName;
  readonly network: NetworkName;
  readonly etcd?: string;
  /** The prefix of the cluster's keys: clusters may share one etcd, one after another. */
  readonly etcdPrefix?: string;
  readonly containerd?: { readonly socket: string; readonly cniConfDir: string };
  readonly docker?: { readonly socket: string };
  /** Configuration of the registries from which runtime-oci pulls. */
  readonly registryConfigDirectory?: string;
  readonly kubelet?: Readonly<Record<string, unknown>>;
}

/** Returns whether this machine has an address in `10.<second>.0.0/16`. */
const isTaken = (second: number): boolean =>
  Object.values(networkInterfaces())
    .flat()
    .some((one) => one?.address.startsWith(`10.${second}.`) === true);

/** Ranges and names that conflict neither with others on this machine nor with the links of test namespaces (10.214.0.0/16). */
export function privateRanges(): {
  readonly pods: string;
  readonly services: string;
  readonly bridge: string;
  readonly interfaces: string;
} {
  let n: number;
  do n = randomInt(100, 150);
  while (isTaken(n) || isTaken(n + 50));
  return { pods: `10.${n}.0.0/16`, services: `10.${n + 50}.0.0/16`, bridge: `oarlock-t${n}`, interfaces: `ct${n}` };
}

export function composition({
  storage,
  runtime,
  network,
  etcd,
  etcdPrefix,
  containerd,
  docker,
  registryConfigDirectory,
  kubelet,
}: CompositionOptions): ClusterSpec & { readonly bridge?: string } {
  const ranges = privateRanges();
  /** True if pods have their own network namespace. */
  const bridged = network !== 'host';
  const simulated = runtime === 'simulated';
  return {
    ...(simulated && { roles: ['apiserver', 'controllers', 'scheduler', 'kubelet'] }),
    // a bridged pod reaches the API server at the node's address
    server: { address: bridged ? '0.0.0.0' : '127.0.0.1' },
    ...(bridged && {
      networking: { podCIDRs: [ranges.pods], serviceCIDRs: [ranges.services] },
      bridge: network === 'calico' ? ranges.interfaces : ranges.bridge,
    }),
    storage:
      storage !== 'etcd'
        ? `storage-${storage}`
        : { use: 'storage-etcd', config: { endpoints: [etcd ?? ''], ...(etcdPrefix !== undefined && { prefix: etcdPrefix }) } },
    runtimes: [
      {
        use: `runtime-${runtime}`,
        config: {
          ...(runtime === 'containerd' && { socket: containerd?.socket ?? '' }),
          ...(runtime === 'docker' && { socket: docker?.socket ?? '' }),
          ...(runtime === 'oci' && registryConfigDirectory !== undefined && { registryConfigDirectory }),
        },
      },
    ],
    ...(!simulated && {
      network: bridged
        ? {
            use: `network-${network}`,
            config: {
              ...(network === 'bridge' ? { bridge: ranges.bridge } : { interfacePrefix: ranges.interfaces }),
              confDir: runtime === 'containerd' ? (containerd?.cniConfDir ?? null) : null,
            },
          }
        : 'network-host',
      ...(bridged && { policy: 'policy-nftables' }),
      proxy: bridged ? 'proxy-nftables' : 'proxy-userspace',
      // without a pod network, pods use the machine's DNS servers
      ...(bridged && { dns: 'dns-server' }),
    }),
    // test machines may have little free disk space
    settings: { kubelet: { port: 0, evictionHard: { diskAvailable: '1%', imageAvailable: '1%' }, ...kubelet } },
  };
}
