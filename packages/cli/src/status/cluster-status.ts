import { isStatus } from '@oarlock/api/status';
import { leases } from '@oarlock/api/resources';
import { certificatesOf } from '@oarlock/cluster/pki/ca-hash';
import { serversPath, type ServerWithMember } from '@oarlock/cluster/servers/server-plugins';
import { skewNotices } from '@oarlock/cluster/servers/version-skew';
import type { RemoteAccess } from '@oarlock/cluster/remote-access';
import type { Client } from '@oarlock/spi/client';
import { loadKubeconfig } from '@oarlock/client/kubeconfig';
import { formatTable } from '../common/format-table.ts';
import { describeExpiry, expiryOf, presentedExpiry } from './certificate-expiry.ts';
import { age, nodeRows, readNodes, type NodeStatus } from './node-table.ts';

/** Components of which one leads, by the names of their Leases. */
const elections = ['kube-controller-manager', 'kube-scheduler'] as const;

interface ServerStatus extends Pick<ServerWithMember, 'url' | 'ready' | 'version' | 'member'> {
  readonly name: string;
  /** End of the serving certificate; absent if the server does not answer. */
  readonly certificateExpiresAt?: string;
}
interface Leader {
  readonly component: string;
  readonly holder: string;
  readonly renewedAt?: string;
}
interface Certificate {
  readonly name: string;
  readonly expiresAt: string;
}
export interface ClusterStatus {
  readonly servers: readonly ServerStatus[];
  readonly leaders: readonly Leader[];
  readonly nodes: readonly NodeStatus[];
  /** The CAs that clients trust, and the certificate of the kubeconfig. */
  readonly certificates: readonly Certificate[];
  /** A sentence for each server and node whose version is not supported beside the others. */
  readonly skew: readonly string[];
}

/** Reads the state of all servers, leaders, nodes and certificates of a cluster from one of its servers. */
export async function readClusterStatus({ client, server, ca }: RemoteAccess, kubeconfigFile: string): Promise<ClusterStatus> {
  const { options } = await loadKubeconfig(kubeconfigFile, { environment: process.env });
  const iso = (pem: string) => new Date(expiryOf(pem)).toISOString();
  const authorities = certificatesOf(ca).map((pem, index) => ({ name: index === 0 ? 'CA' : `CA ${index + 1}`, expiresAt: iso(pem) }));
  const own = options.cert === undefined ? [] : [{ name: 'client of the kubeconfig', expiresAt: iso(options.cert) }];
  const [servers, leaders, nodes] = await Promise.all([readServers(client, server), readLeaders(client), readNodes(client)]);
  return { servers, leaders, nodes, certificates: [...authorities, ...own], skew: skewNotices(servers, nodes) };
}

async function readServers(client: Client, url: string): Promise<readonly ServerStatus[]> {
  const servers = await listedServers(client, url);
  return Promise.all(
    servers.map(async ({ name, url: serverUrl, ready, version, member }) => {
      const { hostname, port } = new URL(serverUrl);
      const expiry = await presentedExpiry({ host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || 443) });
      return {
        ...{ name, url: serverUrl, ready, version },
        ...(member && { member }),
        ...(expiry !== undefined && { certificateExpiresAt: new Date(expiry).toISOString() }),
      };
    }),
  );
}

/** Returns the servers of a shared storage, or the only server. */
async function listedServers(client: Client, url: string): Promise<readonly ServerStatus[]> {
  try {
    return ((await client.raw('GET', serversPath)) as { readonly servers: readonly ServerWithMember[] }).servers;
  } catch (error) {
    if (!isStatus(error, 'NotFound')) throw error;
    const { gitVersion } = (await client.raw('GET', '/version')) as { readonly gitVersion: string };
    return [{ name: '<only server>', url, ready: true, version: gitVersion }];
  }
}

async function readLeaders(client: Client): Promise<readonly Leader[]> {
  const { items } = await client.list(leases, { namespace: 'kube-system' });
  return elections.flatMap((component) => {
    const lease = items.find(({ metadata }) => metadata?.name === component);
    if (lease === undefined) return [];
    const { holderIdentity = '', renewTime } = lease.spec ?? {};
    return [{ component, holder: holderIdentity, ...(renewTime !== undefined && { renewedAt: renewTime }) }];
  });
}

/** Returns the tables of `oarlock status`. */
export function formatClusterStatus({ servers, leaders, nodes, certificates, skew }: ClusterStatus, now: number): string {
  const end = (time: string | undefined) => describeExpiry(time === undefined ? undefined : Date.parse(time), now);
  const serverTable = [
    ['SERVER', 'STATUS', 'URL', 'VERSION', 'CERTIFICATE'],
    ...servers.map(({ name, ready, url, version, certificateExpiresAt }) => [
      name,
      ready ? 'Ready' : 'NotReady',
      url,
      version,
      end(certificateExpiresAt),
    ]),
  ];
  const members = servers.flatMap(({ name, member }) => (member === undefined ? [] : [[name, ...memberColumns(member)]]));
  const tables = [
    serverTable,
    ...(members.length === 0 ? [] : [[['MEMBER', ...memberTitles], ...members]]),
    ...(leaders.length === 0
      ? []
      : [
          [
            ['LEADER OF', 'HOLDER', 'RENEWED'],
            ...leaders.map(({ component, holder, renewedAt }) => [component, holder === '' ? '<none>' : holder, age(renewedAt, now)]),
          ],
        ]),
    ...(nodes.length === 0 ? [] : [nodeRows(nodes, now)]),
    [['CERTIFICATE', 'EXPIRES'], ...certificates.map(({ name, expiresAt }) => [name, end(expiresAt)])],
  ];
  return [...tables.map(formatTable), ...alarmNotices(servers), ...skew.map((sentence) => `Version skew: ${sentence}`)].join('\n\n');
}

/** What to do about the alarms of etcd, with which it rejects writes. */
const alarmRemedies: Readonly<Record<string, string>> = {
  NOSPACE: 'the space quota is reached and writes fail: delete objects, then run `oarlock etcd defragment`',
  CORRUPT: 'its data differs from that of the others and writes fail: stop its server, then run `oarlock server remove` on another one',
};

/** Returns a sentence for each alarm of a member. */
export const alarmNotices = (servers: readonly Pick<ServerWithMember, 'name' | 'member'>[]): readonly string[] =>
  servers.flatMap(({ name, member }) =>
    (member?.alarms ?? []).map((alarm) => `Alarm ${alarm} of the member ${name}: ${alarmRemedies[alarm] ?? 'etcd rejects writes'}`),
  );

export const memberTitles = ['ETCD', 'ETCD-VERSION', 'DB-SIZE', 'ALARMS'] as const;

/** Returns the columns of a member of etcd in a table of servers. */
export function memberColumns(member: ServerWithMember['member']): readonly string[] {
  if (member === undefined) return ['<none>', '', '', ''];
  const { role, version, databaseBytes, alarms } = member;
  const size = databaseBytes === 0 ? '' : `${(databaseBytes / 1024 / 1024).toFixed(1)} MiB`;
  return [role, version, size, alarms.length === 0 ? '<none>' : alarms.join(',')];
}
