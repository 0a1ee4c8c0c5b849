import { STATUS_CODES, type ClientRequest, type IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { isOwnCookie } from './client-credentials.ts';
import { connectionHeaders } from './forwarded-body.ts';
import { checkStatusCode } from './response-headers.ts';
import { copyBidirectional } from './splice.ts';

/** The time in milliseconds to write the buffered bytes of one side after the other side has closed. */
const lingerMs = 2_000;

/** The response to an upgrade request, with the connection if the server accepted the upgrade. */
export interface UpgradeResponse {
  readonly response: IncomingMessage;
  readonly upgraded?: { readonly socket: Duplex; readonly head: Buffer };
}

/** The client's side of an upgrade. */
export interface UpgradeClient {
  readonly socket: Duplex;
  readonly head: Buffer;
  /** Ends both connections when it aborts. */
  readonly signal: AbortSignal;
  /** Called with the status code when the client's connection stops using HTTP. Errors before this call are thrown and sent over HTTP. */
  begin(code: number): void;
}

/** Sends an upgrade request and returns the response. @throws Error if there is no response */
export function sendUpgradeRequest(request: ClientRequest): Promise<UpgradeResponse> {
  return new Promise((resolve, reject) => {
    request.once('error', reject);
    request.once('close', () => {
      reject(new Error('the connection was closed before the response'));
    });
    request.once('response', (response) => {
      resolve({ response });
    });
    request.once('upgrade', (response, socket: Duplex, head) => {
      if (socket instanceof Socket) socket.setTimeout(0);
      resolve({ response, upgraded: { socket, head } });
    });
    request.end();
  });
}

/**
 * Sends an upgrade request, and copies bytes between the connections until both are closed. If the server rejects the upgrade, `forwardRejection`
 * writes the server's response.
 * @throws Error if there is no response
 */
export async function proxyUpgrade(
  request: ClientRequest,
  { socket, head, signal, begin }: UpgradeClient,
  forwardRejection: (response: IncomingMessage, socket: Duplex) => Promise<void>,
): Promise<void> {
  const abandon = () => {
    request.destroy();
  };
  socket.once('close', abandon);
  signal.addEventListener('abort', abandon, { once: true });
  try {
    const { response, upgraded } = await sendUpgradeRequest(request);
    if (upgraded === undefined) checkStatusCode(response);
    begin(upgraded === undefined ? (response.statusCode ?? 502) : 101);
    if (upgraded === undefined) {
      try {
        await forwardRejection(response, socket);
      } catch {
        socket.destroy(); // the response is incomplete: the client must not take it for complete, and no deadline applies to its connection
      }
      return;
    }
    const stop = () => {
      socket.destroy();
      upgraded.socket.destroy();
    };
    signal.addEventListener('abort', stop, { once: true });
    socket.write(responseHead(101, response), 'latin1');
    await copyBidirectional(socket, upgraded.socket, { headA: head, headB: upgraded.head, lingerMs });
  } finally {
    socket.off('close', abandon);
  }
}

/**
 * Returns the head of a response as it was received, in Latin-1, with the additional header lines in `more`. Without an upgrade, headers that apply to the
 * connection are removed.
 */
export function responseHead(code: number, response: IncomingMessage, more = ''): string {
  const lines = [`HTTP/1.1 ${code} ${response.statusMessage ?? STATUS_CODES[code] ?? ''}`];
  const isConnectionHeader = connectionHeaders(response.headers.connection);
  for (let i = 0; i + 1 < response.rawHeaders.length; i += 2) {
    const name = response.rawHeaders[i] ?? '';
    if (code !== 101 && isConnectionHeader(name.toLowerCase())) continue;
    if (name.toLowerCase() === 'set-cookie' && isOwnCookie(response.rawHeaders[i + 1] ?? '')) continue;
    lines.push(`${name}: ${response.rawHeaders[i + 1]}`);
  }
  return `${lines.join('\r\n')}\r\n${more}\r\n`;
}
