import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocketServer, type WebSocket } from 'ws';
import { HttpError } from '../http/http-error.ts';

const maxFrame = 1024 * 1024;

/** A connection that was upgraded to WebSocket or SPDY. */
export type Upgraded =
  | { readonly over: 'websocket'; readonly socket: WebSocket; readonly protocol: string }
  | { readonly over: 'spdy'; readonly socket: Duplex; readonly head: Buffer; readonly protocol: string };

/** The subprotocols of a session type, in order of preference. */
export interface StreamProtocols {
  readonly websocket: readonly string[];
  readonly spdy: readonly string[];
}

const listed = (header: string | readonly string[] | undefined): readonly string[] =>
  (typeof header === 'string' ? [header] : (header ?? [])).flatMap((text) => text.split(',').map((word) => word.trim()));

/** Upgrades HTTP/1.1 connections to WebSocket or SPDY/3.1. */
export class StreamingUpgrades {
  readonly #server = new WebSocketServer({ noServer: true, clientTracking: false, perMessageDeflate: false, maxPayload: maxFrame });
  readonly #chosen = new WeakMap<IncomingMessage, string>();

  constructor() {
    // set here and not by `ws`: names like `SPDY/3.1+portforward.k8s.io` are invalid by RFC 6455, but clients use them
    this.#server.on('headers', (headers, request) => {
      const protocol = this.#chosen.get(request);
      if (protocol) headers.push(`Sec-WebSocket-Protocol: ${protocol}`);
    });
  }

  /**
   * Selects the subprotocol of a request before the upgrade. The error message is not a YAML mapping, which Go clients would decode as an empty
   * Status. @throws HttpError if no subprotocol matches
   */
  accept(
    request: IncomingMessage,
    socket: Duplex,
    {
      head,
      protocols,
      begin,
    }: { readonly head: Buffer; readonly protocols: StreamProtocols; readonly begin: (upgraded: Upgraded) => void },
  ): void {
    switch (request.headers.upgrade?.toLowerCase()) {
      case 'websocket': {
        const protocol = rejectUnknownProtocols(protocols.websocket, listed(request.headers['sec-websocket-protocol']));
        this.#chosen.set(request, protocol);
        delete request.headers['sec-websocket-protocol'];
        this.#server.handleUpgrade(request, socket, head, (webSocket) => {
          begin({ over: 'websocket', socket: webSocket, protocol });
        });
        return;
      }
      case 'spdy/3.1': {
        const protocol = rejectUnknownProtocols(protocols.spdy, listed(request.headers['x-stream-protocol-version']));
        socket.write(
          `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: ${protocol}\r\n\r\n`,
        );
        begin({ over: 'spdy', socket, head, protocol });
        return;
      }
      default:
        throw new HttpError(400, 'only WebSocket and SPDY/3.1 are served');
    }
  }
}

function rejectUnknownProtocols(known: readonly string[], offered: readonly string[]): string {
  const chosen = known.find((protocol) => (protocol === '' ? offered.length === 0 : offered.includes(protocol)));
  if (chosen === undefined) throw new HttpError(403, `none of the protocols is supported, ${offered.join(', ')}`);
  return chosen;
}
