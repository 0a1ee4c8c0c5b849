import { connect, type Socket } from 'node:net';

/**
 * Connects to the first of `hosts` that accepts a TCP connection to the port. The socket is half-open: it ends when both sides have.
 * @throws AggregateError with the error of each host in turn, if none of them accepts
 * @throws the reason of `signal` if it aborts
 */
export async function connectFirst(hosts: readonly string[], port: number, signal?: AbortSignal): Promise<Socket> {
  const failures: Error[] = [];
  for (const host of hosts) {
    try {
      return await connected(host, port, signal);
    } catch (error) {
      signal?.throwIfAborted();
      failures.push(error as Error);
    }
  }
  throw new AggregateError(failures, `no address of ${hosts.join(', ')} accepts a connection to port ${port}`);
}

function connected(host: string, port: number, signal: AbortSignal | undefined): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, allowHalfOpen: true, ...(signal && { signal }) });
    socket.once('error', reject);
    socket.once('connect', () => {
      socket.off('error', reject);
      resolve(socket);
    });
  });
}
