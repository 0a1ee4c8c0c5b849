import { certificateSigningRequests, configMaps, nodes } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { ConfigMap, Node } from '@oarlock/api/types/core-v1';
import { serversPath, type ServerWithMember } from '@oarlock/cluster/servers/server-plugins';
import { nodeUserPrefix, removedNodes } from '@oarlock/spi/authn';
import type { Client } from '@oarlock/spi/client';
import { withCluster, type AccessOptions, type LimitedAccessOptions } from '../common/cluster-access.ts';
import { CommandError, exitCodes } from '../common/command-error.ts';
import { answerTimeoutSeconds } from '../common/command-options.ts';
import { printFacts, type OutputFormat } from '../common/output.ts';
import { formatTable } from '../common/format-table.ts';
import { nodeRows, readNodes } from '../status/node-table.ts';
import { cordon, drain } from './drain.ts';

/** Signers backdate certificates by this time, as kube-controller-manager does. */
const backdateMs = 5 * 60_000;
/** Entries of removed nodes are kept until each certificate of the node has expired: certificates are valid for at most one year. */
const keepMs = 366 * 24 * 3_600_000;

/** Prints the nodes of the cluster. */
export async function listNodes(options: LimitedAccessOptions & { readonly output: OutputFormat }): Promise<void> {
  const list = await withCluster(options, ({ client }) => readNodes(client));
  await printFacts(options.output, { nodes: list }, () => formatTable(nodeRows(list, Date.now())));
}

export interface RemoveNodeOptions extends AccessOptions {
  /** Time for the eviction of pods, in seconds. */
  readonly timeout: number;
}

/**
 * Removes a node: evicts its pods if it is ready, revokes its certificates and deletes the Node. May be repeated after a failure.
 * @throws CommandError if the node does not exist or is a running server, or if pods have not ended in time
 */
export async function removeNode(name: string, options: RemoveNodeOptions): Promise<void> {
  // beside the eviction, which ends with a message of its own
  const limited = { ...options, timeout: options.timeout + answerTimeoutSeconds };
  await withCluster(limited, async ({ client }) => {
    const node = await findNode(client, name);
    await rejectServer(client, name);
    await cordon(client, name);
    if (node.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True'))
      await drainInTime(client, name, options);
    else console.log(`the node ${name} is not ready: its pods are deleted without eviction`);
    await revoke(client, name, Date.now());
    await client.delete(nodes, { name }, node.metadata?.uid === undefined ? {} : { preconditions: { uid: node.metadata.uid } });
  });
  console.log(
    `removed the node ${name} and revoked its certificates. Stop its process on its machine with \`oarlock down --data-dir .oarlock-node\` and delete its data directory; delete its bootstrap token if others know it.`,
  );
}

async function findNode(client: Client, name: string): Promise<Node> {
  try {
    return await client.get<Node>(nodes, { name });
  } catch (error) {
    if (isStatus(error, 'NotFound')) throw new CommandError(`there is no node ${name}; \`oarlock node list\` lists them`, exitCodes.usage);
    throw error;
  }
}

/** The node of a server uses no certificate, and registers again while the server runs. */
async function rejectServer(client: Client, name: string): Promise<void> {
  try {
    const { servers } = (await client.raw('GET', serversPath)) as { readonly servers: readonly ServerWithMember[] };
    if (servers.some((server) => server.name === name && server.ready))
      throw new CommandError(`${name} is a running server: stop it, then run \`oarlock server remove ${name}\` first`);
  } catch (error) {
    if (!isStatus(error, 'NotFound')) throw error; // a storage of one server
  }
}

async function drainInTime(client: Client, name: string, { timeout }: RemoveNodeOptions): Promise<void> {
  const signal = AbortSignal.timeout(timeout * 1000);
  try {
    await drain(name, { client, signal, log: (line) => console.log(line) });
  } catch (error) {
    if (!signal.aborted) throw error;
    throw new CommandError(
      `pods of the node ${name} have not ended within ${timeout} s; the node is unschedulable. Repeat the command, or set --timeout`,
      undefined,
      { cause: error },
    );
  }
}

/** Revokes the certificates that the node has obtained until now, and deletes its requests for further ones. */
async function revoke(client: Client, name: string, now: number): Promise<void> {
  const requests = await client.list(certificateSigningRequests);
  for (const { metadata, spec } of requests.items)
    if (spec?.username === `${nodeUserPrefix}${name}`)
      await ignoreNotFound(client.delete(certificateSigningRequests, { name: metadata?.name ?? '' }));
  const until = new Date(now - backdateMs).toISOString();
  for (;;) {
    try {
      const stored = await storedRemovals(client);
      const kept = Object.entries(stored?.data ?? {}).filter(([, time]) => Date.parse(time) > now - keepMs);
      const data = { ...Object.fromEntries(kept), [name]: until };
      if (stored === undefined)
        await client.create(configMaps, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { ...removedNodes }, data });
      else await client.update(configMaps, { ...stored, data });
      return;
    } catch (error) {
      if (!isStatus(error, 'Conflict') && !isStatus(error, 'AlreadyExists')) throw error; // another command wrote the list
    }
  }
}

async function storedRemovals(client: Client): Promise<ConfigMap | undefined> {
  try {
    return await client.get(configMaps, removedNodes);
  } catch (error) {
    if (isStatus(error, 'NotFound')) return undefined;
    throw error;
  }
}

async function ignoreNotFound(deletion: Promise<unknown>): Promise<void> {
  try {
    await deletion;
  } catch (error) {
    if (!isStatus(error, 'NotFound')) throw error;
  }
}
