import { mkdir, readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { hostname } from 'node:os';
import { join as joinPath, resolve } from 'node:path';
import { isStatus, StatusError } from '@oarlock/api/status';
import { clusterSchema } from '@oarlock/cluster/cluster-file/cluster-schema';
import { caHashes } from '@oarlock/cluster/pki/ca-hash';
import { addressTowards } from '@oarlock/cluster/process/addresses';
import { createDataDir, readProcessState } from '@oarlock/cluster/process/process-state';
import { version } from '@oarlock/cluster/process/version';
import { openRecord, parseRecord, type ClusterRecord } from '@oarlock/cluster/servers/cluster-record';
import { bearerToken, parseJoinToken, unsealClusterKey, type JoinToken } from '@oarlock/cluster/servers/join-token';
import { hasKeys, pkiDirectory, writeKeyFiles } from '@oarlock/cluster/servers/key-files';
import {
  serverJoinPath,
  serverJoinResponseSchema,
  type ServerJoinRequest,
  type ServerJoinResponse,
} from '@oarlock/cluster/servers/server-join-plugin';
import { serverSkew } from '@oarlock/cluster/servers/version-skew';
import { writeStorageState } from '@oarlock/cluster/servers/storage-state';
import { writeClusterKey } from '@oarlock/cluster/servers/shared-keys';
import { writeAtomic } from '@oarlock/primitives/os/atomic-file';
import { parseDocument, stringify } from 'yaml';
import { CommandError, exitCodes } from './common/command-error.ts';
import { isUnavailable, retryUnavailable, type RetryOptions } from '@oarlock/client/http/retry-unavailable';
import { ServerList } from '@oarlock/client/http/server-list';
import { progress } from './common/progress/progress.ts';
import { discoverCa, joinRetry, parseAnswer, rejectedToken, validateJoinTarget, withClient } from './common/join-discovery.ts';
import type { ServerJoinOptions } from './servers/server-join-options.ts';
import { up } from './up.ts';

/** Timeout of a connection to the server in milliseconds. The command does not wait for a server that is still starting. */
const serverTimeoutMs = 5_000;
const hashOption = '--discovery-token-ca-cert-hash';
const usage = (message: string) => new CommandError(message, exitCodes.usage);
/** The cluster file that a join without -f writes to the data directory. Written last: its presence means that the keys are complete. */
const joinedFile = (dataDir: string) => joinPath(dataDir, 'cluster.yaml');
const addressPath = ['spec', 'server', 'address'] as const;
const joinMarker = (dataDir: string) => joinPath(dataDir, 'server.json');

/**
 * Obtains the keys of the cluster and runs this machine as another server. Later calls with the same data directory reuse the keys. `retry` replaces how
 * requests are repeated while the server is unavailable.
 */
export async function joinServer(options: ServerJoinOptions, retry?: RetryOptions): Promise<void> {
  const dataDir = resolve(options.dataDir);
  if (!(await hasJoined(dataDir))) await enroll(options, dataDir, retry);
  else if (options.address !== undefined) await changeAddress(options.address, options.file, dataDir);
  progress.step('starting the server');
  const { file = joinedFile(dataDir), port, roles, nodeName, detach } = options;
  await up({
    dataDir,
    file,
    detach,
    ...(port !== undefined && { port }),
    ...(roles !== undefined && { roles }),
    ...(nodeName !== undefined && { nodeName }),
  });
}

/** Changes the address in the cluster file of a server that has joined. @throws CommandError if the server runs or has a cluster file of its own */
export async function changeAddress(address: string, file: string | undefined, dataDir: string): Promise<void> {
  if (isIP(address) === 0) throw usage(`--address: ${JSON.stringify(address)} is not an IP address`);
  const joined = joinedFile(dataDir);
  const document = parseDocument(await readFile(file ?? joined, 'utf8'));
  const stored = document.getIn(addressPath);
  if (stored === address) return;
  if (file !== undefined)
    throw usage(`--address: ${file} sets server.address to ${JSON.stringify(stored)}: change it there, and leave out the option`);
  const running = await readProcessState(dataDir);
  if (running !== undefined)
    throw new CommandError(`--address: process ${running.pid} uses ${dataDir} with the address ${JSON.stringify(stored)}: stop it first`);
  document.setIn(addressPath, address);
  await writeAtomic(joined, document.toString(), { sync: true });
}

async function hasJoined(dataDir: string): Promise<boolean> {
  try {
    await readFile(joinMarker(dataDir));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}

/** Obtains the keys with a token, and writes them to the data directory. */
async function enroll(options: ServerJoinOptions, dataDir: string, retry: RetryOptions | undefined): Promise<void> {
  const { url, token, hash } = validateOptions(options);
  await requireEmpty(dataDir);
  const ca = await discoverCa(new ServerList([url], { random: Math.random }), { expectedHash: hash, option: hashOption });
  const name = options.nodeName ?? hostname().toLowerCase();
  const answer = await retryUnavailable(() => requestKeys(url, ca, { token, name }), joinRetry(url, retry));
  const record = parseRecord(answer.record);
  if (!record.identity.ca.includes(caHashes(ca)[0] ?? '')) throw new CommandError(`the keys of ${url} are not those of its CA`);
  const skew = serverSkew(version, record.version);
  if (skew !== undefined) throw new CommandError(skew);
  const clusterKey = openSealedKey(answer.sealedClusterKey, token, url);
  const { files, document } = openRecord(record, clusterKey);
  await createDataDir(dataDir);
  await mkdir(joinPath(dataDir, pkiDirectory), { recursive: true, mode: 0o700 });
  if (options.file === undefined)
    await writeAtomic(joinedFile(dataDir), await ownClusterFile(document, url, options.address), { sync: true });
  await writeClusterKey(dataDir, clusterKey);
  await writeKeyFiles(dataDir, files);
  if (answer.storage !== undefined)
    await writeStorageState(dataDir, answer.storage.plugin, { state: 'joining', endpoints: answer.storage.endpoints });
  // written last: its presence means that the other files are complete
  await writeAtomic(joinMarker(dataDir), `${JSON.stringify({ cluster: record.cluster, server: url } satisfies Joined)}\n`, { sync: true });
}

interface Joined {
  readonly cluster: ClusterRecord['cluster'];
  readonly server: string;
}

/** @throws CommandError if the data directory belongs to a cluster */
async function requireEmpty(dataDir: string): Promise<void> {
  const running = await readProcessState(dataDir);
  if (running !== undefined) throw new CommandError(`process ${running.pid} uses ${dataDir}: join with another --data-dir`);
  if (hasKeys(dataDir)) throw usage(`${dataDir} has keys of a cluster: join with a new --data-dir`);
}

async function requestKeys(
  server: string,
  ca: string,
  { token, name }: { readonly token: JoinToken; readonly name: string },
): Promise<ServerJoinResponse> {
  try {
    const answer = await withClient({ server, ca, token: bearerToken(token) }, (api) =>
      api.raw('POST', serverJoinPath, { name } satisfies ServerJoinRequest),
    );
    return parseAnswer(serverJoinResponseSchema, answer, server);
  } catch (error) {
    if (isStatus(error, 'Unauthorized')) throw await rejectedToken({ server, ca }, 'oarlock token create --role server');
    if (isStatus(error, 'NotFound'))
      throw new CommandError(
        `${server} does not share its storage, so no server can join it: the first server needs a storage such as storage-etcd`,
      );
    throw error instanceof StatusError && error.reason !== 'ServiceUnavailable' && !isUnavailable(error)
      ? new CommandError(`${server} rejects the server: ${error.message}`)
      : error;
  }
}

function openSealedKey(sealed: string, { id, joinKey }: JoinToken, url: string): Buffer {
  try {
    return unsealClusterKey(id, joinKey ?? Buffer.alloc(0), sealed);
  } catch (cause) {
    throw new CommandError(`the token does not open the keys of ${url}: its third part is not that of the token ${id}`, undefined, {
      cause,
    });
  }
}

/** Returns the cluster file of this server: that of the first server, with an own address. */
async function ownClusterFile(document: unknown, url: string, address: string | undefined): Promise<string> {
  const parsed = clusterSchema.safeParse(document);
  if (!parsed.success) throw new CommandError('the cluster has no cluster file for this version: name one with -f');
  const { spec } = parsed.data;
  const isWildcard = spec.server.address === '0.0.0.0' || spec.server.address === '::';
  const own = address ?? (isWildcard ? spec.server.address : await addressTowards(url, AbortSignal.timeout(serverTimeoutMs)));
  return stringify({ ...parsed.data, spec: { ...spec, server: { ...spec.server, address: own } } });
}

/** Validates all options before the first request is sent. @throws CommandError if an option is invalid */
function validateOptions({ url, token, discoveryTokenCaCertHash: hash, address, file }: ServerJoinOptions) {
  if (url === undefined || token === undefined || hash === undefined)
    throw usage(
      `the first join of a server requires its URL, --token and ${hashOption}; \`oarlock token create --role server\` prints them`,
    );
  if (address !== undefined && isIP(address) === 0) throw usage(`--address: ${JSON.stringify(address)} is not an IP address`);
  if (address !== undefined && file !== undefined)
    throw usage(`--address: ${file} sets server.address: change it there, and leave out the option`);
  validateJoinTarget({ server: url, caHash: hash }, { server: 'URL', caHash: hashOption });
  const parsed = parseJoinToken(token);
  if (parsed === undefined)
    throw usage('--token must have the form abcdef.0123456789abcdef.KEY; `oarlock token create --role server` prints one');
  if (parsed.joinKey === undefined)
    throw usage('--token is a token for nodes: `oarlock token create --role server` prints one for servers');
  return { url, token: parsed, hash };
}
