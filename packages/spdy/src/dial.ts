import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { Socket } from 'node:net';
import { SpdyConnection, type SpdyOptions } from './connection.ts';
import { SpdyError } from './frames.ts';

export interface DialOptions extends Partial<Omit<SpdyOptions, 'role'>> {
  /** Stream protocols, preferred first: `v4.channel.k8s.io`, `portforward.k8s.io`. */
  readonly protocols: readonly string[];
  readonly signal?: AbortSignal;
  /** Time in milliseconds after which a connection without traffic is closed. */
  readonly idleMs?: number;
}
export interface DialResult {
  readonly connection: SpdyConnection;
  readonly protocol: string;
}

/** Maximum number of bytes to read of a response that is not an upgrade. */
const maxErrorBytes = 16 * 1024;

/**
 * Upgrades an HTTP/1.1 POST to a SPDY/3.1 connection.
 * @throws SpdyError `Refused` if the server responds without an upgrade, `Closed` if the connection ends; the signal's reason if the signal aborts
 */
export function dialSpdy(url: string, { protocols, signal, idleMs, ...options }: DialOptions): Promise<DialResult> {
  return new Promise((resolve, reject) => {
    const send = url.startsWith('https:') ? httpsRequest : httpRequest;
    const request = send(url, {
      method: 'POST',
      agent: false,
      ...(signal && { signal }),
      headers: { Connection: 'Upgrade', Upgrade: 'SPDY/3.1', 'X-Stream-Protocol-Version': [...protocols] },
    });
    request.once('upgrade', (response, socket: Socket, head) => {
      const protocol = response.headers['x-stream-protocol-version'];
      if (typeof protocol !== 'string' || !protocols.includes(protocol)) {
        socket.destroy();
        reject(new SpdyError('Refused', `the server chose the stream protocol ${JSON.stringify(protocol)}`));
        return;
      }
      if (idleMs !== undefined) socket.setTimeout(idleMs, () => socket.destroy());
      resolve({ connection: new SpdyConnection(socket, { role: 'client', ...options }, head), protocol });
    });
    request.once('response', (response) => {
      const status = response.statusCode ?? 0;
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (piece: string) => {
        text += piece;
        if (text.length > maxErrorBytes) response.destroy();
      });
      response.once('close', () =>
        reject(
          new SpdyError('Refused', `the server responded to the upgrade with ${status}: ${text.trim().slice(0, maxErrorBytes)}`, {
            status,
          }),
        ),
      );
    });
    request.once('error', (cause) =>
      reject(signal?.aborted ? signal.reason : new SpdyError('Closed', `cannot reach ${new URL(url).host}: ${cause.message}`, { cause })),
    );
    request.end();
  });
}
