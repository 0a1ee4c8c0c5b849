// The limit of one event loop: a TLS server of Node.js that answers each request with the same head and body, which `BareServer` sends it.
import { once } from 'node:events';
import { fork, type ChildProcess } from 'node:child_process';
import { createSecureServer } from 'node:http2';
import { createServer } from 'node:https';
import type { AddressInfo, Server } from 'node:net';
import { fileURLToPath } from 'node:url';

/** What the server answers, and with which certificate. */
export interface BareAnswer {
  readonly protocol: 'HTTP/1.1' | 'HTTP/2';
  readonly key: string;
  readonly certificate: string;
  /** Names are lower case; without those of the connection. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** A bare server in a process of its own. */
export class BareServer {
  readonly #child: ChildProcess;
  readonly port: number;

  private constructor(child: ChildProcess, port: number) {
    this.#child = child;
    this.port = port;
  }

  static async start(answer: BareAnswer): Promise<BareServer> {
    const child = fork(fileURLToPath(import.meta.url), { execArgv: process.execArgv });
    child.send(answer);
    const [port] = (await once(child, 'message')) as [number];
    return new BareServer(child, port);
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  async stop(): Promise<void> {
    const exited = once(this.#child, 'exit');
    this.#child.kill();
    await exited;
  }
}

function serve({ protocol, key, certificate, headers, body }: BareAnswer): Server {
  const bytes = Buffer.from(body);
  const tls = { key, cert: certificate };
  if (protocol === 'HTTP/1.1') return createServer(tls, (_request, response) => response.writeHead(200, headers).end(bytes));
  return createSecureServer(tls, (_request, response) => {
    response.writeHead(200, headers);
    response.end(bytes);
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url) && process.send !== undefined) {
  process.once('message', (answer: BareAnswer) => {
    const server = serve(answer);
    server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port));
  });
  process.once('disconnect', () => process.exit());
}
