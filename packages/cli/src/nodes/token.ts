import { resolve } from 'node:path';
import { secrets } from '@oarlock/api/resources';
import { caHash } from '@oarlock/cluster/pki/ca-hash';
import {
  bearerToken,
  formatJoinToken,
  newJoinToken,
  sealClusterKey,
  sealedKeyField,
  serversGroup,
  type JoinToken,
} from '@oarlock/cluster/servers/join-token';
import type { RemoteAccess } from '@oarlock/cluster/remote-access';
import { readClusterKey } from '@oarlock/cluster/servers/shared-keys';
import { withCluster } from '../common/cluster-access.ts';
import { CommandError, exitCodes } from '../common/command-error.ts';
import { printFacts, type OutputFormat } from '../common/output.ts';

const maxHours = 24 * 365;

export interface TokenOptions {
  readonly dataDir: string;
  readonly ttl: string;
  readonly role: 'node' | 'server';
  readonly output: OutputFormat;
  readonly timeout: number;
}

/** Creates a bootstrap token and prints the command that joins a node or a server with it. */
export async function createToken(options: TokenOptions): Promise<void> {
  const hours = Number(options.ttl);
  if (!(hours > 0 && hours <= maxHours))
    throw new CommandError(`--ttl must be a number of hours above 0 and at most ${maxHours}, not ${options.ttl}`, exitCodes.usage);
  const token = newJoinToken(options.role);
  const sealed = token.joinKey && sealClusterKey(token.id, token.joinKey, await clusterKeyFor(options.dataDir));
  const expiresAt = Date.now() + hours * 3_600_000;
  await withCluster(options, async (access) => {
    await access.client.create(secrets, tokenSecret(token, expiresAt, sealed));
    const host = new URL(access.server).hostname;
    if (host === 'localhost' || host === '[::1]' || host.startsWith('127.'))
      console.error(
        `The API server listens on ${host} only, so no other machine can reach it: set spec.server.address to 0.0.0.0 in the cluster.yaml.`,
      );
    await printFacts(options.output, joinFacts(token, { options, access, expiresAt }), ({ command }) => command.join(' '));
  });
}

interface JoinContext {
  readonly options: TokenOptions;
  readonly access: RemoteAccess;
  readonly expiresAt: number;
}

/** Returns what a machine needs to join, and the command that uses it. */
function joinFacts(joinToken: JoinToken, { options: { role }, access: { server, ca }, expiresAt }: JoinContext) {
  const caCertHash = caHash(ca);
  const token = role === 'server' ? formatJoinToken(joinToken) : bearerToken(joinToken);
  const command =
    role === 'server'
      ? ['oarlock', 'server', 'join', '--token', token, '--discovery-token-ca-cert-hash', caCertHash, server]
      : ['oarlock', 'node', 'join', '--server', server, '--token', token, '--ca-hash', caCertHash];
  return { role, server, token, caHash: caCertHash, expiresAt: new Date(expiresAt).toISOString(), command };
}

/** Returns the Secret of a token. `sealed` is the cluster key for the holder of a server's token. */
function tokenSecret({ id, secret }: JoinToken, expiresAt: number, sealed: string | undefined) {
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { namespace: 'kube-system', name: `bootstrap-token-${id}` },
    type: 'bootstrap.kubernetes.io/token',
    stringData: {
      'token-id': id,
      'token-secret': secret,
      expiration: new Date(expiresAt).toISOString(),
      'usage-bootstrap-authentication': 'true',
      'usage-bootstrap-signing': 'true',
      description: 'made by oarlock token create',
      ...(sealed !== undefined && { 'auth-extra-groups': serversGroup, [sealedKeyField]: sealed }),
    },
  };
}

/** @throws CommandError if no API server with a shared storage has run in the data directory */
async function clusterKeyFor(dataDir: string): Promise<Buffer> {
  const key = await readClusterKey(resolve(dataDir));
  if (key === undefined)
    throw new CommandError(
      `${resolve(dataDir)} has no cluster key: run the command on an API server whose storage other servers can share, such as storage-etcd`,
      exitCodes.usage,
    );
  return key;
}
