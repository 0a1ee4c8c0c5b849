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
import { readClusterKey } from '@oarlock/cluster/servers/shared-keys';
import { adminAccess } from '../common/admin-access.ts';
import { CommandError, exitCodes } from '../common/command-error.ts';

const maxHours = 24 * 365;

export interface TokenOptions {
  readonly dataDir: string;
  readonly ttl: string;
  readonly role: 'node' | 'server';
}

/** Creates a bootstrap token and prints the command that joins a node or a server with it. */
export async function createToken(options: TokenOptions): Promise<void> {
  const hours = Number(options.ttl);
  if (!(hours > 0 && hours <= maxHours))
    throw new CommandError(`--ttl must be a number of hours above 0 and at most ${maxHours}, not ${options.ttl}`, exitCodes.usage);
  const token = newJoinToken(options.role);
  const sealed = token.joinKey && sealClusterKey(token.id, token.joinKey, await clusterKeyFor(options.dataDir));
  const access = await adminAccess(options.dataDir);
  try {
    await access.client.create(secrets, tokenSecret(token, Date.now() + hours * 3_600_000, sealed));
    const host = new URL(access.server).hostname;
    if (host === 'localhost' || host === '[::1]' || host.startsWith('127.'))
      console.error(
        `The API server listens on ${host} only, so no other machine can reach it: set spec.server.address to 0.0.0.0 in the cluster.yaml.`,
      );
    console.log(
      options.role === 'server'
        ? `oarlock server join --token ${formatJoinToken(token)} --discovery-token-ca-cert-hash ${caHash(access.ca)} ${access.server}`
        : `oarlock node join --server ${access.server} --token ${bearerToken(token)} --ca-hash ${caHash(access.ca)}`,
    );
  } finally {
    access.close();
  }
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
