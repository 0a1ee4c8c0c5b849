import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocketServer, type WebSocket } from 'ws';
import { HttpProblem } from './http-problem.ts';

const maxFrame = 1024 * 1024;

/** A connection that has become what the client asked for. */
export type Upgraded =
  | { readonly over: 'websocket'; readonly socket: WebSocket; readonly protocol: string }
  | { readonly over: 'spdy'; readonly socket: Duplex; readonly head: Buffer; readonly protocol: string };

/** Which protocols one kind of session speaks, best first. */
export interface StreamProtocols {
  readonly websocket: readonly string[];
  readonly spdy: readonly string[];
}

const listed = (header: string | readonly string[] | undefined): readonly string[] =>
  (typeof header === 'string' ? [header] : (header ?? [])).flatMap((text) => text.split(',').map((word) => word.trim()));

/** Turns HTTP/1.1 connections into WebSocket or SPDY/3.1, whichever the client speaks. */
export class StreamingUpgrades {
  readonly #server = new WebSocketServer({ noServer: true, clientTracking: false, perMessageDeflate: false, maxPayload: maxFrame });
  readonly #chosen = new WeakMap<IncomingMessage, string>();

  constructor() {
    // not left to the server: a name like `SPDY/3.1+portforward.k8s.io` is none by RFC 6455, and is what clients send
    this.#server.on('headers', (headers, request) => {
      const protocol = this.#chosen.get(request);
      if (protocol) headers.push(`Sec-WebSocket-Protocol: ${protocol}`);
    });
  }

  /**
   * Refuses before it upgrades: in words that are no YAML with a key and a value, which clients of Go would take for a Status without any.
   * @throws HttpProblem
   */
  accept(request: IncomingMessage, socket: Duplex, head: Buffer, protocols: StreamProtocols, begin: (upgraded: Upgraded) => void): void {
    switch (request.headers.upgrade?.toLowerCase()) {
      case 'websocket': {
        const protocol = refuseUnlessKnown(protocols.websocket, listed(request.headers['sec-websocket-protocol']));
        this.#chosen.set(request, protocol);
        delete request.headers['sec-websocket-protocol'];
        this.#server.handleUpgrade(request, socket, head, (webSocket) => {
          begin({ over: 'websocket', socket: webSocket, protocol });
        });
        return;
      }
      case 'spdy/3.1': {
        const protocol = refuseUnlessKnown(protocols.spdy, listed(request.headers['x-stream-protocol-version']));
        socket.write(
          `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: ${protocol}\r\n\r\n`,
        );
        begin({ over: 'spdy', socket, head, protocol });
        return;
      }
      default:
        throw new HttpProblem(400, 'only WebSocket and SPDY/3.1 are served');
    }
  }
}

function refuseUnlessKnown(known: readonly string[], offered: readonly string[]): string {
  const chosen = known.find((protocol) => (protocol === '' ? offered.length === 0 : offered.includes(protocol)));
  if (chosen === undefined) throw new HttpProblem(403, `none of the protocols is supported, ${offered.join(', ')}`);
  return chosen;
}
