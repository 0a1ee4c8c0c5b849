import { STATUS_CODES, type ClientRequest, type IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { connectionHeaders } from './forwarded-body.ts';
import { copyBidirectional } from './splice.ts';

/** How long what is on its way to an end that has lost the other may take. */
const lingerMs = 2_000;

/** What another server says to a request: an answer, or with it the connection itself. */
export interface UpgradeResponse {
  readonly response: IncomingMessage;
  readonly upgraded?: { readonly socket: Duplex; readonly head: Buffer };
}

/** The client's side of an upgrade. */
export interface UpgradeClient {
  readonly socket: Duplex;
  readonly head: Buffer;
  /** Ends both connections. */
  readonly signal: AbortSignal;
  /** Called with the answer's code when the client's connection stops being HTTP, as late as possible: refusals before are thrown. */
  begin(code: number): void;
}

/** Sends the request. @throws Error when nobody answers */
export function sendUpgradeRequest(request: ClientRequest): Promise<UpgradeResponse> {
  return new Promise((resolve, reject) => {
    request.once('error', reject);
    request.once('close', () => {
      reject(new Error('the connection was closed before there was an answer'));
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
 * Sends the request, and joins the client's connection with the one that comes of it, until both are gone. Where the other side does not
 * agree, `refuse` writes what it says instead. @throws Error when nobody answers
 */
export async function proxyUpgrade(
  request: ClientRequest,
  { socket, head, signal, begin }: UpgradeClient,
  refuse: (response: IncomingMessage, socket: Duplex) => Promise<void>,
): Promise<void> {
  const abandon = () => {
    request.destroy();
  };
  socket.once('close', abandon);
  signal.addEventListener('abort', abandon, { once: true });
  try {
    const { response, upgraded } = await sendUpgradeRequest(request);
    begin(upgraded === undefined ? (response.statusCode ?? 502) : 101);
    if (upgraded === undefined) {
      await refuse(response, socket);
      return;
    }
    const stop = () => {
      socket.destroy();
      upgraded.socket.destroy();
    };
    signal.addEventListener('abort', stop, { once: true });
    socket.write(responseHead(101, response));
    await copyBidirectional(socket, upgraded.socket, { headA: head, headB: upgraded.head, lingerMs });
  } finally {
    socket.off('close', abandon);
  }
}

/** The head of an answer as it came; of one that is no upgrade, without what is about the connection, and with `more` lines. */
export function responseHead(code: number, response: IncomingMessage, more = ''): string {
  const lines = [`HTTP/1.1 ${code} ${response.statusMessage ?? STATUS_CODES[code] ?? ''}`];
  const ofConnection = connectionHeaders(response.headers.connection);
  for (let i = 0; i + 1 < response.rawHeaders.length; i += 2) {
    const name = response.rawHeaders[i] ?? '';
    if (code !== 101 && ofConnection(name.toLowerCase())) continue;
    lines.push(`${name}: ${response.rawHeaders[i + 1]}`);
  }
  return `${lines.join('\r\n')}\r\n${more}\r\n`;
}
