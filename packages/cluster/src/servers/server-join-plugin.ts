import { secrets } from '@oarlock/api/resources';
import { failure, isStatus } from '@oarlock/api/status';
import { pluginNameOf, type Plugin } from '@oarlock/kernel/plugin';
import { Client } from '@oarlock/spi/client';
import { Paths } from '@oarlock/spi/paths';
import { Storage, type StorageDriver } from '@oarlock/spi/storage';
import { z } from 'zod';
import { readRecord } from './cluster-record.ts';
import { sealedKeyField, serversGroup, tokenIdOf } from './join-token.ts';
import { answer, badRequest, conflict } from './path-answers.ts';
import { runningServer } from './running-server.ts';
import { ServerRegistry } from './server-registry.ts';

export const serverJoinPath = '/oarlock/v1/server-join';

const serverJoinSchema = z.strictObject({ name: z.string().min(1).max(253).optional() });
/** `name` is that of the joining server; earlier versions do not send it. */
export type ServerJoinRequest = z.output<typeof serverJoinSchema>;

/** What the storage plugin of a joining server needs to know. */
const joinedStorage = z.object({
  /** Name of the storage plugin in the cluster file, and of its directory. */
  plugin: z.string().regex(/^(?!\.{1,2}$)[^/\\\0]{1,255}$/, 'the name of a directory'),
  endpoints: z.array(z.string()).readonly(),
});

/** The answer to a joining server. Only the holder of the whole token can open it. */
export const serverJoinResponseSchema = z
  .object({
    /** The cluster key, sealed with the part of the token that the cluster does not know. */
    sealedClusterKey: z.string(),
    /** The cluster record in JSON, with keys that the cluster key seals. */
    record: z.string(),
    /** The members of a storage that runs on the servers: the joining server adds its own. */
    storage: joinedStorage.optional(),
  })
  .readonly();
export type ServerJoinResponse = z.output<typeof serverJoinResponseSchema>;

/**
 * `POST /oarlock/v1/server-join`: returns the sealed keys of the cluster to a machine with a bootstrap token for servers. The token's Secret contains
 * the cluster key, sealed with a part of the token that is not stored.
 */
export function serverJoinPlugin(): Plugin {
  return Paths.plugin({
    id: 'server-join',
    config: z.strictObject({}),
    needs: { storage: Storage, client: Client },
    create: ({ storage, client }, { clock, log }) => ({
      path: serverJoinPath,
      methods: ['POST'],
      async handle({ identity, body }) {
        const id = tokenIdOf(identity.name);
        if (id === undefined || !identity.groups.includes(serversGroup))
          return {
            code: 403,
            body: failure('Forbidden', 'only a token of `oarlock token create --role server` obtains the keys of a server').status,
          };
        const stored = await readRecord(storage);
        const sealed = await sealedClusterKey(client, id);
        if (stored === undefined || sealed === undefined)
          return { code: 403, body: failure('Forbidden', 'the token is not one of `oarlock token create --role server`').status };
        const parsed = serverJoinSchema.safeParse(body);
        if (!parsed.success) return badRequest(z.prettifyError(parsed.error));
        const { name } = parsed.data;
        const running = name === undefined ? undefined : await runningServer(name, new ServerRegistry({ storage, clock, log }));
        if (running !== undefined)
          return conflict(`a server ${running.name} runs at ${running.url}: choose another --node-name, or stop that server to replace it`);
        const alarm = await alarmOf(storage);
        if (alarm !== undefined)
          return conflict(`${alarm}: end the alarm first (\`oarlock server list\`), and join then; nothing was changed`);
        log.info({ by: identity.name, server: name }, 'a server is joining');
        const joined = storage.members && { storage: { plugin: pluginNameOf(storage), endpoints: storage.members.endpoints() } };
        return answer({ sealedClusterKey: sealed, record: stored.text, ...joined } satisfies ServerJoinResponse);
      },
    }),
  });
}

/** Returns a clause about alarms of the storage, in which it rejects the record of another server; undefined if there is none. */
async function alarmOf({ members }: StorageDriver): Promise<string | undefined> {
  const raised = ((await members?.list()) ?? []).flatMap(({ name, alarms }) => alarms.map((alarm) => `${alarm} (${name})`));
  return raised.length === 0 ? undefined : `etcd has the alarm ${raised.join(', ')} and rejects writes, so no server can join`;
}

async function sealedClusterKey(client: Client, id: string): Promise<string | undefined> {
  try {
    const { data } = await client.get(secrets, { namespace: 'kube-system', name: `bootstrap-token-${id}` });
    const sealed = data?.[sealedKeyField];
    return sealed === undefined ? undefined : Buffer.from(sealed, 'base64').toString('utf8');
  } catch (error) {
    if (isStatus(error, 'NotFound')) return undefined; // removed since the request was authenticated
    throw error;
  }
}
