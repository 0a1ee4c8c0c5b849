import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { errorText } from '@oarlock/primitives/error-text';
import { goErrorText } from '@oarlock/primitives/net/go-error-text';
import { available, unavailable, type Availability } from '@oarlock/kernel/plugin';
import { readTlsFiles, type ConnectionOptions } from './etcd-connection.ts';

/** Timeout of the probe; the host allows one second. */
const timeoutMs = 900;

/** Reports whether any endpoint accepts connections, with TLS for https URLs. */
export async function probeEndpoints(
  options: Pick<ConnectionOptions, 'endpoints' | 'caFile' | 'certFile' | 'keyFile'>,
): Promise<Availability> {
  try {
    const tls = await readTlsFiles(options);
    return await Promise.any(options.endpoints.map((endpoint) => dial(new URL(endpoint), tls))).then(() => available);
  } catch (error) {
    const reasons = error instanceof AggregateError ? error.errors : [error];
    return unavailable(reasons.map(errorText).join('; '));
  }
}

function dial({ protocol, hostname, port, origin }: URL, tls: Awaited<ReturnType<typeof readTlsFiles>>): Promise<void> {
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  const secure = protocol === 'https:';
  const address = { host, port: Number(port || (secure ? 443 : 80)), timeout: timeoutMs };
  return new Promise((resolve, reject) => {
    const socket: Socket = secure ? connectTls({ ...address, ...tls, ALPNProtocols: ['h2'] }) : connectTcp(address);
    const fail = (why: string) => {
      socket.destroy();
      reject(new Error(`${origin} is not reachable: ${why}`));
    };
    socket.once(secure ? 'secureConnect' : 'connect', () => {
      socket.destroy();
      resolve();
    });
    socket.once('timeout', () => fail(`no connection within ${timeoutMs} ms`));
    socket.once('error', (error) => fail(goErrorText(error)));
  });
}
