import { failure } from '@oarlock/api/status';
import type { Clock } from '@oarlock/primitives/clock';
import type { Plugin } from '@oarlock/kernel/plugin';
import { Client } from '@oarlock/spi/client';
import { Cluster, type ClusterKeys } from '@oarlock/spi/cluster';
import { Paths, type PathResponse } from '@oarlock/spi/paths';
import { Storage, StorageError, type StorageDriver } from '@oarlock/spi/storage';
import type { StorageMember } from '@oarlock/spi/storage-server';
import { z } from 'zod';
import { caExpirations, caHashes } from '../pki/ca-hash.ts';
import { version } from '../process/version.ts';
import { ClusterEvents } from './cluster-events.ts';
import { readRecord } from './cluster-record.ts';
import { KeyDistributor } from './key-distributor.ts';
import { MemberAuthorityFollower, memberCAsOf } from './member-authorities.ts';
import { pendingServers, rotateKeys, RotationError, rotatedKeys, type RotatedKeys } from './key-rotation.ts';
import { ServerRegistry, type ListedServer, type ServerRecord } from './server-registry.ts';
import type { SharedKeys } from './shared-keys.ts';
import { StorageConditionEvents } from './storage-condition-events.ts';
import { answer, badRequest, conflict } from './path-answers.ts';
import { serverJoinPlugin } from './server-join-plugin.ts';
import { defragmentPlugin, snapshotsPlugin } from './member-paths.ts';

export const serversPath = '/oarlock/v1/servers';
export const keysPath = '/oarlock/v1/keys';

/** A server and its member of the storage. */
export interface ServerWithMember extends ListedServer {
  /** Absent if the storage runs elsewhere, or if the server has no member. */
  readonly member?: StorageMember;
}

/** The state of the shared keys. */
export interface KeysStatus {
  readonly generation: number;
  readonly identity: { readonly [set: string]: readonly string[] };
  readonly servers: readonly ListedServer[];
  /** The ends of the CAs that this server has loaded, RFC 3339, by their hashes. */
  readonly expirations: Readonly<Record<string, string>>;
  /** Names of the running servers that do not use the newest keys yet, by keys and next step. */
  readonly pending: Readonly<Record<RotatedKeys, { readonly use: readonly string[]; readonly end: readonly string[] }>>;
}

export interface ServerPluginsOptions {
  readonly shared: SharedKeys;
  readonly dataDir: string;
  readonly serverName: string;
  readonly keys: ClusterKeys;
  /** Makes the running server use the changed key files. */
  readonly reload: () => Promise<void>;
}

/** Returns the plugins of a server whose storage other servers share: its registration, the distribution of keys, and the paths of both. */
export const serverPlugins = (options: ServerPluginsOptions): readonly Plugin[] => [
  serversPlugin(options),
  snapshotsPlugin(),
  defragmentPlugin(),
  keysPlugin(options),
  serverJoinPlugin(),
];

const removeSchema = z.strictObject({ name: z.string().min(1).max(253) });

/** `GET /oarlock/v1/servers` lists the servers; `DELETE /oarlock/v1/servers?name=NAME` removes one that has ended. Registers this server. */
function serversPlugin({ shared, dataDir, serverName, keys, reload }: ServerPluginsOptions): Plugin {
  return Paths.plugin({
    id: 'servers',
    config: z.strictObject({}),
    needs: { storage: Storage, facts: Cluster, client: Client },
    create({ storage, facts, client }, { clock, log }) {
      const registry = new ServerRegistry({ storage, clock, log });
      let own = ownRecord({ serverName, url: facts.serverUrl, keys, clock, generation: shared.generation });
      const register = (changes: Partial<ServerRecord>): Promise<void> => {
        own = { ...own, ...changes };
        return registry.register(own);
      };
      const { members } = storage;
      const memberAuthorities =
        members && new MemberAuthorityFollower({ members, applied: (memberCAs) => register({ memberCAs }), clock, log });
      const distributor = new KeyDistributor({
        ...{ storage, dataDir, shared, reload, clock, log },
        applied: async (keysGeneration) => {
          await register({ keysGeneration });
          memberAuthorities?.update();
        },
      });
      const events = new ClusterEvents({ client, clock, log });
      const conditions = new StorageConditionEvents({ storage, events, clock });
      return {
        path: serversPath,
        methods: ['GET', 'DELETE'],
        async start() {
          await register(members === undefined ? {} : { memberCAs: await memberCAsOf(members) });
          memberAuthorities?.update();
          distributor.start();
          conditions.start();
        },
        async stop() {
          conditions.stop();
          await events.stop();
          await distributor.stop();
          await memberAuthorities?.stop();
          await registry.stop();
        },
        async handle({ method, query }) {
          if (method === 'GET') return answer({ servers: await listServers(registry, storage) });
          const parsed = removeSchema.safeParse(query);
          if (!parsed.success) return badRequest(z.prettifyError(parsed.error));
          return removeServer(parsed.data.name, { registry, storage });
        },
      };
    },
  });
}

/** Returns the servers with their members of the storage, and members whose server has no record. */
async function listServers(registry: ServerRegistry, storage: StorageDriver): Promise<readonly ServerWithMember[]> {
  const [servers, members] = await Promise.all([registry.list(), storage.members?.list() ?? []]);
  return servers.map((server) => {
    const member = members.find(({ name }) => name === server.name);
    return { ...server, ...(member && { member }) };
  });
}

/** Removes the member and then the record of a server that has ended, so that an interrupted removal can be repeated. */
async function removeServer(
  name: string,
  { registry, storage }: { readonly registry: ServerRegistry; readonly storage: StorageDriver },
): Promise<PathResponse> {
  const server = (await registry.list()).find((each) => each.name === name);
  if (server?.ready === true && !(await isCorruptAndEnded(name, storage))) return conflict(`the server ${name} is running: stop it first`);
  try {
    const hadMember = await storage.members?.remove(name);
    const result = await registry.remove(name);
    if (result === 'running')
      return conflict(
        hadMember === true
          ? `the member of ${name} was removed. Run the command again in a minute, when the lease of the server has expired`
          : `the server ${name} is running: stop it first`,
      );
    return result || hadMember === true ? answer({}) : { code: 404, body: failure('NotFound', `there is no server ${name}`).status };
  } catch (error) {
    if (error instanceof StorageError) return conflict(error.message);
    throw error;
  }
}

/** Returns true for a server whose member has the alarm CORRUPT and does not respond: no lease expires while a member has this alarm. */
async function isCorruptAndEnded(name: string, { members }: StorageDriver): Promise<boolean> {
  const member = (await members?.list())?.find((each) => each.name === name);
  return member?.role === 'Unknown' && member.alarms.includes('CORRUPT');
}

interface OwnRecordOptions {
  readonly serverName: string;
  readonly url: string;
  readonly keys: ClusterKeys;
  readonly clock: Clock;
  readonly generation: number;
}

function ownRecord({ serverName, url, keys, clock, generation }: OwnRecordOptions): ServerRecord {
  return {
    name: serverName,
    url,
    version,
    startedAt: new Date(clock.now()).toISOString(),
    keysGeneration: generation,
    trustedCAs: caHashes(keys.caBundle),
    frontProxyCAs: caHashes(keys.frontProxy?.caBundle ?? ''),
  };
}

const rotationSchema = z.strictObject({
  keys: z.enum(rotatedKeys),
  step: z.enum(['add', 'use', 'end']),
  algorithm: z.enum(['ES256', 'RS256']).optional(),
});
export type RotationRequest = z.output<typeof rotationSchema>;

/** `GET /oarlock/v1/keys` returns the state of the shared keys; `POST /oarlock/v1/keys` takes a step of a rotation. */
function keysPlugin({ shared: { clusterKey }, dataDir, keys: clusterKeys }: ServerPluginsOptions): Plugin {
  return Paths.plugin({
    id: 'cluster-keys',
    config: z.strictObject({}),
    needs: { storage: Storage },
    create({ storage }, { clock, log }) {
      const registry = new ServerRegistry({ storage, clock, log });
      return {
        path: keysPath,
        methods: ['GET', 'POST'],
        async handle({ method, body, identity }) {
          if (method === 'GET') return answer(await keysStatus(storage, { servers: await registry.list(), keys: clusterKeys }));
          const parsed = rotationSchema.safeParse(body);
          if (!parsed.success) return badRequest(z.prettifyError(parsed.error));
          const { keys, step } = parsed.data;
          try {
            const servers = await registry.list();
            const members = keys === 'etcd-ca' ? await storage.members?.list() : undefined;
            const { generation } = await rotateKeys(parsed.data, { storage, dataDir, clusterKey, now: clock.now(), servers, members });
            log.info({ keys, step, generation, by: identity.name }, 'took a step of a key rotation');
          } catch (error) {
            if (error instanceof RotationError) return conflict(error.message);
            throw error;
          }
          return answer(await keysStatus(storage, { servers: await registry.list(), keys: clusterKeys }));
        },
      };
    },
  });
}

async function keysStatus(
  storage: StorageDriver,
  { servers, keys }: { readonly servers: readonly ListedServer[]; readonly keys: ClusterKeys },
): Promise<KeysStatus> {
  const stored = await readRecord(storage);
  if (stored === undefined) throw new Error('the storage has no cluster record');
  const { record } = stored;
  const { etcdCa = [], ...identity } = record.identity;
  const pending = Object.fromEntries(
    rotatedKeys.map((keys) => [
      keys,
      {
        use: pendingServers({ keys, step: 'use' }, record, servers),
        end: pendingServers({ keys, step: 'end' }, record, servers),
      },
    ]),
  ) as KeysStatus['pending'];
  return {
    generation: record.generation,
    identity: { ...identity, ...(etcdCa.length > 0 && { etcdCa }) },
    servers,
    expirations: caExpirations(
      `${keys.caBundle}${keys.frontProxy?.caBundle ?? ''}${(await storage.members?.authorities())?.trusted ?? ''}`,
    ),
    pending,
  };
}
