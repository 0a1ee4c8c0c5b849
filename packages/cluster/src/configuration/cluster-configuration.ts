import { createServer } from 'node:net';
import { currentVersion, FeatureGates } from '@oarlock/api/component-helpers/feature-gates';
import type { ClusterFacts } from '@oarlock/spi/cluster';
import { parse, stringify } from 'yaml';
import { z } from 'zod';
import type { ClusterFile } from '../cluster-file/cluster-file.ts';
import type { ClusterSpec } from '../cluster-file/cluster-schema.ts';
import { loadPlugin } from '../plugins/plugin-loader.ts';
import { nthAddress } from '../process/addresses.ts';

/** The plugins that a node must have if the cluster has them, or that need objects of the control plane. Absent if the cluster has none. */
const components = z.object({
  network: z.string().optional(),
  policy: z.string().optional(),
  proxy: z.string().optional(),
  dns: z.string().optional(),
  volumes: z.array(z.string()).default([]),
});
const schema = z.object({
  name: z.string(),
  domain: z.string(),
  podCIDRs: z.array(z.string()),
  serviceCIDRs: z.array(z.string()),
  nodePorts: z.string(),
  dnsServiceIP: z.string(),
  /** Absent if the cluster has the defaults. */
  featureGates: z.record(z.string(), z.boolean()).optional(),
  emulationVersion: z.string().optional(),
  components,
});
/**
 * What all servers and nodes of a cluster agree on. The API server keeps it in the ConfigMap `oarlock-config` of `kube-system`, as kubeadm keeps
 * `kubeadm-config`, and joining nodes get it from there.
 */
export type ClusterConfiguration = z.output<typeof schema>;

/** The configuration in the answer to a joining node: without the last fields if the server has stored none. */
export const joinedClusterSchema = schema.partial({ components: true, dnsServiceIP: true }).readonly();

/** The ConfigMap of the configuration, and its key. */
export const configurationMap = { namespace: 'kube-system', name: 'oarlock-config', key: 'ClusterConfiguration' } as const;
const defaultDomain = 'cluster.local';
const defaultNodePorts = '30000-32767';

/** Returns the configuration that the file of a control plane describes. */
export function clusterConfigurationOf({ spec }: ClusterFile, facts: ClusterFacts): ClusterConfiguration {
  const { network, policy, proxy, dns, volumes } = spec;
  return {
    name: facts.name,
    domain: facts.domain,
    podCIDRs: [...facts.podCIDRs],
    serviceCIDRs: [...facts.serviceCIDRs],
    nodePorts: `${facts.nodePortRange.from}-${facts.nodePortRange.to}`,
    dnsServiceIP: facts.dnsServiceIP,
    ...(facts.featureGates && { featureGates: { ...facts.featureGates } }),
    ...(facts.emulationVersion !== undefined && { emulationVersion: facts.emulationVersion }),
    components: {
      ...(network && { network: network.use }),
      ...(policy && { policy: policy.use }),
      ...(proxy && { proxy: proxy.use }),
      ...(dns && { dns: dns.use }),
      volumes: volumes.map(({ use }) => use).sort(),
    },
  };
}

export const formatConfiguration = (configuration: ClusterConfiguration): string => stringify(configuration);

/** Returns the configuration in a ConfigMap's value, or undefined if the value has another form. */
export function parseConfiguration(text: string | undefined): ClusterConfiguration | undefined {
  if (text === undefined) return undefined;
  try {
    return schema.safeParse(parse(text)).data;
  } catch {
    return undefined;
  }
}

/** Returns the differences between two configurations, one phrase per field with both values. */
export function configurationChanges(from: ClusterConfiguration, to: ClusterConfiguration): readonly string[] {
  const flat = ({ components: parts, ...rest }: ClusterConfiguration) => ({ ...rest, ...parts });
  const [before, after]: Readonly<Record<string, unknown>>[] = [flat(from), flat(to)];
  return [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])]
    .filter((key) => text(before?.[key]) !== text(after?.[key]))
    .map((key) => `${key} from ${text(before?.[key])} to ${text(after?.[key])}`);
}

/**
 * Returns why a node with this file must not join a cluster: one sentence per field, with the field, the value of the node and that of the cluster.
 * A field that the node's file leaves out is taken from the cluster.
 */
export async function joinConflicts(file: ClusterFile, cluster: ClusterConfiguration): Promise<readonly string[]> {
  const { spec } = file;
  return [
    ...networkingConflicts(spec.networking, cluster),
    ...featureConflicts(spec, cluster),
    ...componentConflicts(spec, cluster.components),
    ...(await volumeConflicts(file, cluster.components.volumes)),
    ...(await bindConflicts(file, cluster)),
  ];
}

function networkingConflicts(networking: ClusterSpec['networking'], cluster: ClusterConfiguration): readonly string[] {
  const { podCIDRs, serviceCIDRs, domain, nodePorts } = networking;
  const stated: Readonly<Record<'podCIDRs' | 'serviceCIDRs' | 'domain' | 'nodePorts', string | readonly string[] | undefined>> = {
    podCIDRs,
    serviceCIDRs,
    // the file has defaults for these two: only another value was certainly written
    domain: domain === defaultDomain ? undefined : domain,
    nodePorts: nodePorts === defaultNodePorts ? undefined : nodePorts,
  };
  return Object.entries(stated)
    .filter(([key, value]) => value !== undefined && text(value) !== text(cluster[key as keyof typeof stated]))
    .map(([key, value]) => differs(`spec.networking.${key}`, text(value), text(cluster[key as keyof typeof stated])));
}

/** A node has the feature gates of the cluster: its file may repeat them, or leave them out. */
function featureConflicts({ featureGates, emulationVersion }: ClusterSpec, cluster: ClusterConfiguration): readonly string[] {
  const gates = new FeatureGates(cluster).all();
  const conflicts = Object.entries(featureGates).flatMap(([name, value]) => {
    const enabled = gates.find((gate) => gate.name === name)?.enabled ?? false;
    return enabled === value ? [] : [differs(`spec.featureGates.${name}`, String(value), String(enabled))];
  });
  const version = cluster.emulationVersion ?? currentVersion;
  if (emulationVersion !== undefined && emulationVersion !== version)
    conflicts.push(differs('spec.emulationVersion', emulationVersion, version));
  return conflicts;
}

function componentConflicts(spec: ClusterSpec, cluster: ClusterConfiguration['components']): readonly string[] {
  const conflicts: string[] = [];
  for (const key of ['policy', 'proxy'] as const)
    if (cluster[key] !== undefined && spec[key] === undefined)
      conflicts.push(
        `${differs(`spec.${key}`, 'none', cluster[key])}, which this node would not ${key === 'policy' ? 'enforce' : 'serve'}`,
      );
  if (spec.policy !== undefined && cluster.policy === undefined)
    conflicts.push(
      `${differs('spec.policy', spec.policy.use, 'none')}: the file of the control plane must also have it, which lets nodes list NetworkPolicies`,
    );
  if (spec.dns !== undefined && cluster.dns === undefined)
    conflicts.push(
      `${differs('spec.dns', spec.dns.use, 'none')}: the file of the control plane must also have it, which creates the Service kube-dns`,
    );
  return conflicts;
}

/** Both sides need a volume plugin: the control plane creates CSIDrivers and StorageClasses, and the nodes provision and mount the volumes. */
async function volumeConflicts({ spec, file }: ClusterFile, cluster: readonly string[]): Promise<readonly string[]> {
  const own = spec.volumes.map(({ use }) => use);
  const unknown = own
    .filter((use) => !cluster.includes(use))
    .map(
      (use) =>
        `${differs('spec.volumes', use, text(cluster))}: the file of the control plane must also have it, which creates CSIDrivers and StorageClasses`,
    );
  const absent = cluster.filter((use) => !own.includes(use));
  if (absent.length === 0 || !(await runsPods(spec, file))) return unknown;
  return [
    ...unknown,
    `${differs('spec.volumes', text(own), text(absent))}, whose volumes pods on this node would wait for: the file of the node must also have it`,
  ];
}

/** Returns true if a runtime of the file runs processes. Simulated pods need no volumes. */
async function runsPods({ runtimes }: ClusterSpec, file: string | undefined): Promise<boolean> {
  const loaded = await Promise.all(runtimes.map(({ use }) => loadPlugin(use, file)));
  return loaded.some((each) => !('fault' in each) && each.plugin.declares?.['simulated'] !== true);
}

/** A proxy that listens on the addresses of Services needs a range that this machine can listen on. */
async function bindConflicts({ spec: { proxy }, file }: ClusterFile, { serviceCIDRs }: ClusterConfiguration): Promise<readonly string[]> {
  const [range] = serviceCIDRs;
  if (proxy === undefined || range === undefined) return [];
  const loaded = await loadPlugin(proxy.use, file);
  if ('fault' in loaded || loaded.plugin.declares?.['bindsServiceAddresses'] !== true) return [];
  const address = nthAddress(range, 1);
  if (await canBind(address)) return [];
  return [
    `spec.proxy: ${proxy.use} listens on the addresses of Services, and this machine cannot listen on ${address} of the cluster's networking.serviceCIDRs ${range}: use a range such as 127.96.0.0/16 in the file of the control plane`,
  ];
}

function canBind(host: string): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ host, port: 0, exclusive: true }, () => server.close(() => resolve(true)));
  });
}

const differs = (field: string, own: string, cluster: string) => `${field}: this node has ${own}, the cluster ${cluster}`;
function text(value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.join(',');
  if (typeof value === 'object' && value !== null)
    return text(
      Object.entries(value)
        .map(([key, each]) => `${key}=${each}`)
        .sort(),
    );
  return typeof value === 'string' ? value : 'none';
}
