import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { available, unavailable, type Availability } from '@oarlock/kernel/plugin';
import { readTlsFiles, type ConnectionOptions } from './etcd-connection.ts';

/** Less than the second that a probe may take. */
const timeoutMs = 900;

/** Whether any endpoint answers, with TLS where its URL says so. */
export async function probeEndpoints(
  options: Pick<ConnectionOptions, 'endpoints' | 'caFile' | 'certFile' | 'keyFile'>,
): Promise<Availability> {
  try {
    const tls = await readTlsFiles(options);
    return await Promise.any(options.endpoints.map((endpoint) => dial(new URL(endpoint), tls))).then(() => available);
  } catch (error) {
    const reasons = error instanceof AggregateError ? error.errors : [error];
    return unavailable(reasons.map((reason: unknown) => (reason instanceof Error ? reason.message : String(reason))).join('; '));
  }
}

function dial({ protocol, hostname, port, origin }: URL, tls: Awaited<ReturnType<typeof readTlsFiles>>): Promise<void> {
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  const secure = protocol === 'https:';
  const address = { host, port: Number(port || (secure ? 443 : 80)), timeout: timeoutMs };
  return new Promise((resolve, reject) => {
    const socket: Socket = secure ? connectTls({ ...address, ...tls, ALPNProtocols: ['h2'] }) : connectTcp(address);
    const failed = (why: string) => {
      socket.destroy();
      reject(new Error(`${origin} does not answer: ${why}`));
    };
    socket.once(secure ? 'secureConnect' : 'connect', () => {
      socket.destroy();
      resolve();
    });
    socket.once('timeout', () => failed(`nothing within ${timeoutMs} ms`));
    socket.once('error', (error) => failed(error.message));
  });
}
