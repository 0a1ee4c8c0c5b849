import { constants } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import { isIP, type AddressInfo, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { KeyPair } from '@oarlock/spi/cluster';
import type { Kubelet } from '../kubelet.ts';
import type { PodWorker } from '../pod-worker.ts';
import { findContainer } from '../pods.ts';
import { judgeClient } from './client-certificate.ts';
import { parseLogRequest, sendLogs } from './container-logs.ts';
import { HttpProblem } from './http-problem.ts';
import { portForwardProtocol, servePortForward, type ForwardTarget } from './port-forward.ts';
import { serveWebSocketForward, webSocketForwardProtocols } from './port-forward-websocket.ts';
import { serveSpdyCommand, spdyCommandProtocols, type SpdyCommandProtocol } from './remote-command-spdy.ts';
import { serveWebSocketCommand, webSocketCommandProtocols } from './remote-command-websocket.ts';
import type { RemoteCommandOptions, RunCommand } from './remote-command.ts';
import { statsSummary } from './stats-summary.ts';
import { StreamingUpgrades, type StreamProtocols, type Upgraded } from './streaming.ts';

export interface KubeletServerOptions {
  readonly kubelet: Kubelet;
  readonly log: Logger;
  readonly signal: AbortSignal;
  readonly listen: { readonly host: string; readonly port: number };
  /** Series of this process, in the text format of Prometheus. */
  metrics(): Promise<string>;
}

const maxSessions = 1000;
/** Of one WebSocket whose channels are numbered in a byte. */
const maxPorts = 100;
const maxHead = 256 * 1024;
const commands: StreamProtocols = { websocket: webSocketCommandProtocols, spdy: spdyCommandProtocols };
const forwards: StreamProtocols = { websocket: webSocketForwardProtocols, spdy: [portForwardProtocol] };
const truthy = (text: string | null) => text === '1' || text === 'true';
const codes: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
};

/** The API of the kubelets of this process: logs, exec, attach, port-forward, pods and stats, over HTTPS, for the API server and administrators alone. */
export class KubeletServer {
  readonly #options: KubeletServerOptions;
  readonly #sockets = new Set<Socket>();
  readonly #upgrades = new StreamingUpgrades();
  #server: Server | undefined;
  #sessions = 0;

  constructor(options: KubeletServerOptions) {
    this.#options = options;
  }

  /** Listens, and returns the port. @throws Error when it is taken, or no certificate is to be had */
  async start(): Promise<number> {
    const { kubelet, listen } = this.#options;
    const { certificate, key } = await this.#certificate();
    const server = createServer({
      cert: certificate,
      key,
      ca: kubelet.keys.caBundle,
      requestCert: true,
      rejectUnauthorized: false,
      minVersion: 'TLSv1.2',
      // a command of exec is part of the URL
      maxHeaderSize: maxHead,
      ALPNProtocols: ['http/1.1'],
      // a resumed session would not show its certificate
      secureOptions: constants.SSL_OP_NO_TICKET,
    });
    server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
    server.on('request', (request, response) => {
      void this.#handle(request, response);
    });
    server.on('upgrade', (request, socket, head) => {
      void this.#upgrade(request, socket, head);
    });
    this.#server = server;
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(listen.port, listen.host, () => {
        server.off('error', reject);
        resolve();
      });
    });
    server.on('error', (error) => this.#options.log.warn({ err: error }, "the kubelet's server has a problem"));
    return (server.address() as AddressInfo).port;
  }

  async stop(): Promise<void> {
    const server = this.#server;
    if (!server) return;
    const closed = new Promise<void>((resolve) => {
      server.close(() => resolve());
    });
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  async #certificate(): Promise<KeyPair> {
    const { kubelet } = this.#options;
    const { tls } = kubelet.config;
    if (tls) {
      const [certificate, key] = await Promise.all([readFile(tls.certificateFile, 'utf8'), readFile(tls.keyFile, 'utf8')]);
      return { certificate, key };
    }
    const { address } = kubelet;
    const names = [kubelet.config.nodeName, kubelet.context.hostname, 'localhost', ...(isIP(address) ? [] : [address])];
    return kubelet.keys.issue({
      commonName: `system:node:${kubelet.config.nodeName}`,
      organizations: ['system:nodes'],
      dnsNames: [...new Set(names)],
      ipAddresses: [...new Set(['127.0.0.1', ...(isIP(address) ? [address] : [])])],
      usages: ['server'],
    });
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const url = urlOf(request);
      if (url.pathname === '/healthz' || url.pathname === '/healthz/ping') {
        respond(response, 200, 'ok');
        return;
      }
      this.#authorize(request);
      await this.#route(request, response, url);
    } catch (error) {
      const { code, message } = this.#problem(error);
      if (response.headersSent) response.destroy();
      else respond(response, code, message);
    }
  }

  async #route(request: IncomingMessage, response: ServerResponse, url: URL): Promise<void> {
    const { kubelet, signal, metrics } = this.#options;
    const [area = '', ...rest] = url.pathname.slice(1).split('/').map(decode);
    if (area === 'exec' || area === 'attach' || area === 'portForward') throw new HttpProblem(400, 'Upgrade request required');
    if (request.method !== 'GET') throw new HttpProblem(405, 'method not allowed');
    if (area === 'containerLogs') {
      const { worker, container } = this.#find(rest);
      await sendLogs(worker, container, parseLogRequest(url.searchParams, kubelet.context.clock), request, response, signal);
    } else if (url.pathname === '/pods' || url.pathname === '/pods/') {
      const items = [...kubelet.agents.values()].flatMap((agent) =>
        [...agent.pods.workers].flatMap(({ record }) =>
          record.api ? [{ ...record.pod, status: record.status ?? record.pod.status }] : [],
        ),
      );
      respond(response, 200, JSON.stringify({ kind: 'PodList', apiVersion: 'v1', metadata: {}, items }), 'application/json');
    } else if (url.pathname === '/stats/summary')
      respond(response, 200, JSON.stringify(await statsSummary(kubelet, signal)), 'application/json');
    else if (url.pathname === '/metrics') respond(response, 200, await metrics(), 'text/plain; version=0.0.4');
    else throw new HttpProblem(404, '404 page not found');
  }

  async #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    socket.on('error', () => socket.destroy());
    try {
      this.#authorize(request);
      const url = urlOf(request);
      const [area = '', ...rest] = url.pathname.slice(1).split('/').map(decode);
      if (this.#sessions >= maxSessions) throw new HttpProblem(503, 'too many sessions');
      if (area === 'portForward') {
        const serve = this.#forward(this.#findPod(rest), url.searchParams);
        this.#upgrades.accept(request, socket, head, forwards, (upgraded) => this.#sit(serve(upgraded)));
      } else if (area === 'exec' || area === 'attach') {
        const { worker, container } = this.#find(rest);
        const serve = this.#command(worker, container, area, url.searchParams);
        this.#upgrades.accept(request, socket, head, commands, (upgraded) => this.#sit(serve(upgraded)));
      } else throw new HttpProblem(404, '404 page not found');
    } catch (error) {
      const { code, message } = this.#problem(error);
      socket.end(
        `HTTP/1.1 ${code} ${codes[code] ?? 'Error'}\r\nContent-Type: text/plain\r\nContent-Length: ${Buffer.byteLength(message)}\r\nConnection: close\r\n\r\n${message}`,
      );
    }
  }

  /** Counts a session while it lasts. */
  #sit(session: Promise<void>): void {
    this.#sessions += 1;
    session
      .catch((error: unknown) => this.#options.log.warn({ err: error }, 'a streaming session failed'))
      .finally(() => {
        this.#sessions -= 1;
      });
  }

  /** What is to be done once the connection is upgraded. @throws HttpProblem */
  #command(worker: PodWorker, name: string, area: 'exec' | 'attach', query: URLSearchParams): (upgraded: Upgraded) => Promise<void> {
    const { record } = worker;
    const status = record.state.latest(name);
    if (status?.state !== 'RUNNING' || !record.runtime) throw new HttpProblem(500, `container not found ("${name}")`);
    const placed = findContainer(record.pod, name);
    const command = query.getAll('command');
    if (area === 'exec' && command.length === 0) throw new HttpProblem(400, 'you must specify at least 1 command');
    const asked = (short: string, long: string) => truthy(query.get(short)) || truthy(query.get(long));
    const tty = area === 'attach' ? placed?.container.tty === true && truthy(query.get('tty')) : truthy(query.get('tty'));
    const options: RemoteCommandOptions = {
      stdin: asked('input', 'stdin'),
      stdout: asked('output', 'stdout'),
      stderr: asked('error', 'stderr') && !tty,
      tty,
    };
    if (!options.stdin && !options.stdout && !options.stderr)
      throw new HttpProblem(400, 'you must specify at least 1 of stdin, stdout, stderr');
    const { driver } = record.runtime.hub;
    const run: RunCommand = async (streams, signal) => {
      if (area === 'exec') return driver.exec(status.id, command, streams, { signal });
      await driver.attach(status.id, streams, { signal });
      return 0;
    };
    const sitting = this.#sitting;
    return (upgraded) =>
      upgraded.over === 'websocket'
        ? serveWebSocketCommand(upgraded, options, sitting, run)
        : serveSpdyCommand({ ...upgraded, protocol: upgraded.protocol as SpdyCommandProtocol }, options, sitting, run);
  }

  /** What is to be done once the connection is upgraded. @throws HttpProblem */
  #forward({ record }: PodWorker, query: URLSearchParams): (upgraded: Upgraded) => Promise<void> {
    const sandbox = record.state.readySandbox;
    if (sandbox === undefined || !record.runtime) throw new HttpProblem(500, `pod not found ("${record.name}")`);
    const { driver } = record.runtime.hub;
    const target: ForwardTarget = {
      name: `${record.namespace}_${record.name}`,
      uid: record.uid,
      connect: (port, signal) => driver.portForward(sandbox.id, port, { signal }),
    };
    const ports = query
      .getAll('port')
      .flatMap((text) => text.split(','))
      .map(Number)
      .filter((port) => Number.isInteger(port) && port > 0 && port < 65_536)
      .slice(0, maxPorts);
    const sitting = this.#sitting;
    return (upgraded) =>
      upgraded.over === 'websocket' ? serveWebSocketForward(upgraded, ports, target, sitting) : servePortForward(upgraded, target, sitting);
  }

  get #sitting(): { readonly stopped: AbortSignal; readonly clock: Clock } {
    return { stopped: this.#options.signal, clock: this.#options.kubelet.context.clock };
  }

  /** `NAMESPACE/POD` or `NAMESPACE/POD/UID`. */
  #findPod([namespace = '', name = '', uid, ...more]: readonly string[]): PodWorker {
    if (namespace === '' || name === '' || more.length > 0) throw new HttpProblem(404, '404 page not found');
    for (const agent of this.#options.kubelet.agents.values()) {
      const worker = agent.pods.find(namespace, name);
      if (worker && (uid === undefined || worker.record.uid === uid)) return worker;
    }
    throw new HttpProblem(404, `pod "${name}" does not exist`);
  }

  /** `NAMESPACE/POD/CONTAINER` or `NAMESPACE/POD/UID/CONTAINER`. */
  #find(parts: readonly string[]): { readonly worker: PodWorker; readonly container: string } {
    const [namespace = '', name = ''] = parts;
    const [uid, container = ''] = parts.length === 4 ? [parts[2], parts[3]] : [undefined, parts[2]];
    if (parts.length < 3 || parts.length > 4) throw new HttpProblem(404, '404 page not found');
    for (const agent of this.#options.kubelet.agents.values()) {
      const worker = agent.pods.find(namespace, name);
      if (!worker || (uid !== undefined && worker.record.uid !== uid)) continue;
      if (findContainer(worker.record.pod, container)) return { worker, container };
      throw new HttpProblem(404, `container "${container}" not found in pod "${name}"`);
    }
    throw new HttpProblem(404, `pod "${name}" does not exist`);
  }

  #authorize(request: IncomingMessage): void {
    const verdict = judgeClient(request.socket as TLSSocket);
    if (verdict === 'unknown') throw new HttpProblem(401, 'Unauthorized');
    if (verdict === 'forbidden') throw new HttpProblem(403, 'Forbidden');
  }

  #problem(error: unknown): { readonly code: number; readonly message: string } {
    if (error instanceof HttpProblem) return error;
    this.#options.log.warn({ err: error }, 'a request to the kubelet failed');
    return { code: 500, message: error instanceof Error ? error.message : String(error) };
  }
}

function urlOf(request: IncomingMessage): URL {
  try {
    return new URL(request.url ?? '/', 'https://kubelet');
  } catch (cause) {
    throw new HttpProblem(400, 'the URL cannot be read', { cause });
  }
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch (cause) {
    throw new HttpProblem(400, 'the URL cannot be read', { cause });
  }
}

function respond(response: ServerResponse, code: number, body: string, type = 'text/plain; charset=utf-8'): void {
  response.writeHead(code, { 'Content-Type': type, 'Content-Length': Buffer.byteLength(body) });
  response.end(body);
}
