import { dirname, resolve } from 'node:path';
import { splitPolicyRules } from '@oarlock/api/rbac/policy-rule-text';
import type { ClusterFacts } from '@oarlock/spi/cluster';
import { Controllers } from '@oarlock/spi/controller';
import { Network } from '@oarlock/spi/network';
import { Roles } from '@oarlock/spi/role';
import type { Plugin } from '@oarlock/kernel/plugin';
import { slotName } from '@oarlock/kernel/slot';
import { nthAddress, primaryAddress } from '../process/addresses.ts';
import { certificateDays } from '../cluster-file/certificate-validity.ts';
import type { ClusterFile } from '../cluster-file/cluster-file.ts';
import type { ClusterSpec, RoleName } from '../cluster-file/cluster-schema.ts';
import type { HostAddresses, PlannedPlugin, PlanOptions } from './plan.ts';
import { version } from '../process/version.ts';
import { serviceAccountOf } from '../cluster-file/controller-accounts.ts';
import { firstUsablePort } from '../process/privileged-ports.ts';
import { environmentProxy } from '../process/environment-proxy.ts';
import { bootstrapPolicy } from '../cluster-file/bootstrap-policy.ts';

/** The port of the API server unless the file, the command line or another cluster of this host determine another one. */
export const defaultPort = 6443;

/**
 * Resolves the facts of the cluster from three sources: the cluster file, the response to a joining node, and the declarations of the network
 * plugin.
 */
export function clusterFacts(
  file: ClusterFile,
  plugins: readonly PlannedPlugin[],
  {
    port,
    joined,
    server: remote,
    network,
    loopback,
  }: Pick<PlanOptions, 'joined' | 'server'> & HostAddresses & { readonly network?: Plugin | undefined },
): ClusterFacts {
  const { server, rootless } = file.spec;
  const networking = { ...file.spec.networking, ...joined?.cluster };
  const featureGates = joined?.cluster.featureGates ?? file.spec.featureGates;
  const emulationVersion = joined?.cluster.emulationVersion ?? file.spec.emulationVersion;
  const declared = (network ?? plugins.find(({ plugin }) => slotName(plugin.provides.id) === 'network')?.plugin)?.declares ?? {};
  const declaredText = (key: string, fallback: string) => (typeof declared[key] === 'string' ? declared[key] : fallback);
  const serviceCIDRs = networking.serviceCIDRs ?? [loopback?.serviceCIDR ?? declaredText('serviceCIDR', '10.96.0.0/16')];
  const [from = 30_000, to = 32_767] = networking.nodePorts.split('-').map(Number);
  // clients of a node without root are outside of its network
  const host = rootless ? '127.0.0.1' : advertiseAddress(server);
  return {
    name: joined?.cluster.name ?? file.name,
    domain: networking.domain,
    version,
    podCIDRs: networking.podCIDRs ?? [loopback?.podCIDR ?? declaredText('podCIDR', '10.244.0.0/16')],
    serviceCIDRs,
    kubernetesServiceIP: nthAddress(serviceCIDRs[0] ?? '10.96.0.0/16', 1),
    dnsServiceIP: nthAddress(serviceCIDRs[0] ?? '10.96.0.0/16', 10),
    serverUrl: joined?.server ?? remote ?? `https://${host.includes(':') ? `[${host}]` : host}:${port ?? server.port ?? defaultPort}`,
    nodePortRange: { from, to },
    ...(Object.keys(featureGates).length > 0 && { featureGates }),
    ...(emulationVersion !== undefined && { emulationVersion }),
    ...(loopback && { loopback: { nodeAddress: loopback.nodeAddress, loadBalancerCIDR: loopback.loadBalancerCIDR } }),
  };
}

/** Returns the address at which other machines and pods reach the API server. */
function advertiseAddress({ address, advertiseAddress: configured }: ClusterSpec['server']): string {
  const isWildcard = address === '0.0.0.0' || address === '::';
  return configured ?? (isWildcard ? primaryAddress() : address);
}

/** Resolves a path relative to the cluster file. */
const resolveFromFile = ({ file }: ClusterFile, path: string): string => resolve(file === undefined ? '.' : dirname(file), path);

/** Returns `spec.encryption` with absolute paths, or undefined if the cluster file has no `spec.encryption`. */
export function encryptionOf(clusterFile: ClusterFile): ClusterSpec['encryption'] {
  const { encryption } = clusterFile.spec;
  if (encryption === undefined) return undefined;
  const resolvePath = (path: string) => resolveFromFile(clusterFile, path);
  const keys = encryption.keys.map((key) => ({ ...key, file: resolvePath(key.file) }));
  return { ...encryption, keys, ...(encryption.file !== undefined && { file: resolvePath(encryption.file) }) };
}

/** The rules that the controllers of other packages declare, by their service accounts: `declares: { rules: 'create | core | configmaps' }`. */
function controllerRules(plugins: readonly PlannedPlugin[]): Readonly<Record<string, readonly string[]>> {
  const rules: Record<string, readonly string[]> = {};
  for (const { plugin, name, origin } of plugins) {
    const account = serviceAccountOf(name);
    if (origin === undefined || plugin.provides.token !== Controllers.token || account === undefined) continue;
    const declared = plugin.declares?.['rules'];
    rules[account] = typeof declared === 'string' ? splitPolicyRules(declared) : [];
  }
  return rules;
}

const dnsPort = 53;

/**
 * Returns the setting of the kubelet for pods of this host's network that have no DNS of the cluster: no plugin serves it, or its Service has a port that
 * this process may not listen on. On other networks pods may serve the DNS Service, at a port that needs no privilege.
 */
function clusterDns({ spec }: ClusterFile, plugins: readonly PlannedPlugin[]): { readonly clusterDNS?: readonly string[] } {
  const network = plugins.find(({ plugin }) => plugin.provides.token === Network.token)?.plugin;
  const isMissing = network?.declares?.['namespace'] === 'node' && (spec.dns === undefined || firstUsablePort() > dnsPort);
  return isMissing ? { clusterDNS: [] } : {};
}

/** The controller that signs certificates of nodes. */
const csrSigner = 'controller-csr-signing';

/** The cluster file and the facts of the cluster that complete the config of a role. */
export interface RoleConfigSources {
  readonly file: ClusterFile;
  readonly facts: ClusterFacts;
}

/** Returns the settings that a plugin declares to need, or has by its name. */
function declaredConfig({ plugin: { declares }, name }: PlannedPlugin, spec: ClusterFile['spec']): object | undefined {
  if (declares?.['proxyEnvironment'] === true) return { proxy: environmentProxy(process.env) };
  if (declares?.['neverProxied'] === true) return { neverProxied: spec.settings.apiserver['neverProxied'] ?? [] };
  const days = name === csrSigner ? certificateDays(spec) : undefined;
  return days === undefined ? undefined : { longestSeconds: Math.round(days * 86_400) };
}

/**
 * Adds settings that follow from the composition to the config of a role and of an authorizer with the bootstrap policy. Settings in the cluster
 * file take precedence.
 */
export function withRoleConfig(
  planned: PlannedPlugin,
  { file, facts }: RoleConfigSources,
  {
    port,
    kubeletPort,
    joined,
    nodeName,
    leaderElect,
    plugins,
  }: Pick<PlanOptions, 'joined'> &
    HostAddresses & {
      readonly nodeName: string;
      readonly leaderElect: boolean;
      readonly plugins: readonly PlannedPlugin[];
    },
): PlannedPlugin {
  const { spec } = file;
  // the rights of nodes follow from the configuration of the cluster, not from the plugins that this process loads: nodes with other ones do not join
  if (planned.plugin.declares?.[bootstrapPolicy] === true)
    return {
      ...planned,
      config: {
        nodePolicies: spec.policy !== undefined,
        nodeVolumes: spec.volumes.length > 0,
        controllers: controllerRules(plugins),
        ...(planned.config as object),
      },
    };
  if (planned.plugin.provides.token !== Roles.token) {
    const declared = declaredConfig(planned, spec);
    return declared === undefined ? planned : { ...planned, config: { ...declared, ...(planned.config as object) } };
  }
  const derived: Record<string, Record<string, unknown>> = {
    apiserver: {
      listen: { address: spec.server.address, port: port ?? spec.server.port ?? defaultPort },
      advertiseAddress: spec.rootless ? advertiseAddress(spec.server) : new URL(facts.serverUrl).hostname.replace(/^\[|\]$/g, ''),
      certSANs: spec.server.names,
      ...(spec.encryption && { encryption: encryptionOf(file) }),
      defaultAuditPolicy: spec.audit === undefined,
      ...(spec.auditPolicy !== undefined && { auditPolicy: resolveFromFile(file, spec.auditPolicy) }),
    },
    controllers: { leaderElect },
    scheduler: { leaderElect, leaseName: 'kube-scheduler' },
    kubelet: {
      nodeName,
      ...(kubeletPort !== undefined && { port: kubeletPort }),
      ...(facts.loopback && { address: facts.loopback.nodeAddress }),
      ...(spec.rootless && { address: advertiseAddress(spec.server) }),
      ...clusterDns(file, plugins),
      ...(joined && { tls: { certificateFile: joined.certificateFile, keyFile: joined.keyFile } }),
    },
    proxy: { nodeName },
  };
  return { ...planned, config: { ...derived[planned.name], ...spec.settings[planned.name as RoleName] } };
}
