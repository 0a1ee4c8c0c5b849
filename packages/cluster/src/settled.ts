import { dirname, resolve } from 'node:path';
import type { ClusterFacts } from '@oarlock/spi/cluster';
import { Roles } from '@oarlock/spi/role';
import { slotName } from '@oarlock/kernel/slot';
import { nthAddress, primaryAddress } from './addresses.ts';
import type { ClusterFile } from './cluster-file.ts';
import type { RoleName } from './cluster-schema.ts';
import type { Planned, PlanOptions } from './plan.ts';
import { version } from './version.ts';

/** What holds for the whole cluster: from the file, from a node's joining, and from what the network plugin declares. */
export function factsOf(
  file: ClusterFile,
  plugins: readonly Planned[],
  { port, joined, server: remote }: Pick<PlanOptions, 'port' | 'joined' | 'server'>,
): ClusterFacts {
  const { server } = file.spec;
  const networking = { ...file.spec.networking, ...joined?.cluster };
  const declared = plugins.find(({ plugin }) => slotName(plugin.provides.id) === 'network')?.plugin.declares ?? {};
  const text = (key: string, otherwise: string) => (typeof declared[key] === 'string' ? declared[key] : otherwise);
  const serviceCIDRs = networking.serviceCIDRs ?? [text('serviceCIDR', '10.96.0.0/16')];
  const [from = 30_000, to = 32_767] = networking.nodePorts.split('-').map(Number);
  const wildcard = server.address === '0.0.0.0' || server.address === '::';
  const host = server.advertiseAddress ?? (wildcard ? primaryAddress() : server.address);
  return {
    name: joined?.cluster.name ?? file.name,
    domain: networking.domain,
    version,
    podCIDRs: networking.podCIDRs ?? [text('podCIDR', '10.244.0.0/16')],
    serviceCIDRs,
    kubernetesServiceIP: nthAddress(serviceCIDRs[0] ?? '10.96.0.0/16', 1),
    dnsServiceIP: nthAddress(serviceCIDRs[0] ?? '10.96.0.0/16', 10),
    serverUrl: joined?.server ?? remote ?? `https://${host.includes(':') ? `[${host}]` : host}:${port ?? server.port}`,
    nodePortRange: { from, to },
  };
}

/** Relative to the cluster file, as plugins are. */
const placed = ({ file }: ClusterFile, path: string): string => resolve(file === undefined ? '.' : dirname(file), path);

function encryptionOf(clusterFile: ClusterFile) {
  const { encryption } = clusterFile.spec;
  if (encryption === undefined) return {};
  const place = (path: string) => placed(clusterFile, path);
  const keys = encryption.keys.map((key) => ({ ...key, file: place(key.file) }));
  return { encryption: { ...encryption, keys, ...(encryption.file !== undefined && { file: place(encryption.file) }) } };
}

/** The settings of a role, and of who has to know the composition, from the file, over what the composition knows anyway. */
export function withRoleConfig(
  planned: Planned,
  file: ClusterFile,
  facts: ClusterFacts,
  { port, joined, nodeName, remote }: Pick<PlanOptions, 'port' | 'joined'> & { readonly nodeName: string; readonly remote: boolean },
): Planned {
  const { spec } = file;
  if (planned.plugin.id === 'authz-rbac')
    return {
      ...planned,
      config: {
        nodePolicies: spec.policy !== undefined,
        nodeVolumes: spec.volumes.some(({ use }) => use === 'volume-csi'),
        ...(planned.config as object),
      },
    };
  if (planned.plugin.provides.token !== Roles.token) return planned;
  const settled: Record<string, Record<string, unknown>> = {
    apiserver: {
      listen: { address: spec.server.address, port: port ?? spec.server.port },
      advertiseAddress: new URL(facts.serverUrl).hostname.replace(/^\[|\]$/g, ''),
      certSANs: spec.server.names,
      ...encryptionOf(file),
      ...(spec.auditPolicy !== undefined && { auditPolicy: placed(file, spec.auditPolicy) }),
    },
    // away from the API server others may run the same: one of them leads
    controllers: { leaderElect: remote },
    scheduler: { leaderElect: remote, leaseName: 'kube-scheduler' },
    kubelet: { nodeName, ...(joined && { tls: { certificateFile: joined.certificateFile, keyFile: joined.keyFile } }) },
    proxy: { nodeName },
  };
  return { ...planned, config: { ...settled[planned.name], ...spec.settings[planned.name as RoleName] } };
}
