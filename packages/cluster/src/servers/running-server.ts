import { connect } from 'node:net';
import type { ListedServer, ServerRegistry } from './server-registry.ts';

/** Timeout of the connection in milliseconds. */
const connectTimeoutMs = 2_000;

/**
 * Returns the server of a name if it runs: a server that joins under its name would replace its member of the storage. A server with a lease has ended if
 * its address rejects connections; if the address does not answer, the lease decides.
 */
export async function runningServer(name: string, registry: Pick<ServerRegistry, 'list'>): Promise<ListedServer | undefined> {
  const server = (await registry.list()).find((each) => each.name === name);
  return server?.ready === true && !(await rejectsConnections(new URL(server.url))) ? server : undefined;
}

function rejectsConnections({ hostname, port }: URL): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || 443), timeout: connectTimeoutMs });
    const end = (isRejected: boolean) => {
      socket.destroy();
      resolve(isRejected);
    };
    socket.once('connect', () => end(false));
    socket.once('timeout', () => end(false));
    socket.once('error', (error: NodeJS.ErrnoException) => end(error.code === 'ECONNREFUSED'));
  });
}
